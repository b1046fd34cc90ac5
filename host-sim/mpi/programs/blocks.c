/* Datatypes of many blocks, of each constructor that takes a list, checked on every rank: packed, sent and received by blocking,
   nonblocking and persistent messages, and in collectives. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int right, left;

enum { INDEXED, HINDEXED, INDEXED_BLOCK, HINDEXED_BLOCK, STRUCT, KINDS };

/* Every second int, and after each fourth block one more is left out, so that no stride describes them. */
static int place(int block) { return 2 * block + block / 4; }

static MPI_Datatype make(int kind, int blocks) {
    int *lengths = malloc(blocks * sizeof *lengths), *places = malloc(blocks * sizeof *places);
    MPI_Aint *bytes = malloc(blocks * sizeof *bytes);
    MPI_Datatype *types = malloc(blocks * sizeof *types), made;
    for (int i = 0; i < blocks; i++)
        lengths[i] = 1, places[i] = place(i), bytes[i] = place(i) * (MPI_Aint)sizeof(int), types[i] = MPI_INT;
    switch (kind) {
    case INDEXED: MPI_Type_indexed(blocks, lengths, places, MPI_INT, &made); break;
    case HINDEXED: MPI_Type_create_hindexed(blocks, lengths, bytes, MPI_INT, &made); break;
    case INDEXED_BLOCK: MPI_Type_create_indexed_block(blocks, 1, places, MPI_INT, &made); break;
    case HINDEXED_BLOCK: MPI_Type_create_hindexed_block(blocks, 1, bytes, MPI_INT, &made); break;
    default: MPI_Type_create_struct(blocks, lengths, bytes, types, &made);
    }
    MPI_Type_commit(&made);
    free(lengths), free(places), free(bytes), free(types);
    return made;
}

static void fill(int *data, int blocks, int value) {
    for (int i = 0; i < place(blocks); i++) data[i] = -1;
    for (int i = 0; i < blocks; i++) data[place(i)] = value + i;
}

static int holds(const int *data, int blocks, int value) {
    for (int i = 0, block = 0; i < place(blocks); i++) {
        int is_in = block < blocks && i == place(block);
        if (data[i] != (is_in ? value + block : -1)) return 0;
        block += is_in;
    }
    return 1;
}

static void test(int kind, int blocks) {
    size_t ints = place(blocks) + 1;
    int *out = malloc(ints * sizeof *out), *in = malloc(ints * sizeof *in), *dense = malloc(blocks * sizeof *dense);
    int bytes, position = 0, count, wrong = 0, envelope[4];
    MPI_Datatype type = make(kind, blocks);
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Type_size(type, &bytes);
    CHECK(bytes == blocks * (int)sizeof(int));
    MPI_Type_get_envelope(type, &envelope[0], &envelope[1], &envelope[2], &envelope[3]);
    CHECK(envelope[0] >= 1);
    fill(out, blocks, rank), fill(in, blocks, -7);
    MPI_Pack(out, 1, type, dense, bytes, &position, MPI_COMM_WORLD);
    for (int i = 0; i < blocks; i++) wrong += dense[i] != rank + i;
    CHECK(wrong == 0 && position == bytes);
    position = 0;
    MPI_Unpack(dense, bytes, &position, in, 1, type, MPI_COMM_WORLD);
    CHECK(holds(in, blocks, rank) && position == bytes);
    MPI_Sendrecv(out, 1, type, right, 1, in, 1, type, left, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &count);
    CHECK(holds(in, blocks, left) && count == 1);
    MPI_Irecv(in, 1, type, left, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(dense, blocks, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(holds(in, blocks, left));
    MPI_Recv_init(dense, blocks, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, 1, type, right, 3, MPI_COMM_WORLD, &requests[1]);
    for (int turn = 0; turn < 2; turn++) {
        fill(out, blocks, rank + turn);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < blocks; i++) wrong += dense[i] != left + turn + i;
    }
    CHECK(wrong == 0);
    MPI_Request_free(&requests[0]), MPI_Request_free(&requests[1]);
    fill(in, blocks, rank == 0 ? 1000 : -9);
    MPI_Bcast(in, 1, type, 0, MPI_COMM_WORLD);
    CHECK(holds(in, blocks, 1000));
    /* One after another, each where the one before it ends. */
    MPI_Aint lowest, extent;
    MPI_Type_get_extent(type, &lowest, &extent);
    int apart = (int)(extent / (MPI_Aint)sizeof(int)), *all = malloc(((size_t)apart * size + 1) * sizeof *all);
    CHECK(lowest == 0 && apart == place(blocks - 1) + 1);
    for (int i = 0; i < apart * size; i++) all[i] = -1;
    fill(out, blocks, 10 * rank);
    MPI_Allgather(out, 1, type, all, 1, type, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < blocks; j++) wrong += all[i * apart + place(j)] != 10 * i + j;
    CHECK(wrong == 0);
    MPI_Gather(out, 1, type, all, 1, type, size - 1, MPI_COMM_WORLD);
    MPI_Scatter(all, 1, type, in, 1, type, size - 1, MPI_COMM_WORLD);
    CHECK(in[place(blocks - 1)] == 10 * rank + blocks - 1);
    MPI_Type_free(&type);
    free(out), free(in), free(dense), free(all);
}

int main(int argc, char **argv) {
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int kind = 0; kind < KINDS; kind++) test(kind, 16384);
    for (int kind = 0; kind < KINDS; kind += KINDS - 1) test(kind, 1000000);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) puts(all ? "failed" : "ok");
    return all != 0;
}
