/* Communicators that are made while others are: the ranks begin them in different orders. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define COMMS 5
#define ROUNDS 24

/* The sum of the ranks, in a communicator of all. */
static void sum(MPI_Comm comm) {
    int all = 0;
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm);
    CHECK(all == size * (size - 1) / 2);
}

/* One of each of several, begun in another order by every rank, and a second one of each behind that. */
static void crossing(MPI_Comm *parents) {
    MPI_Comm made[2 * COMMS];
    MPI_Request requests[2 * COMMS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COMMS; i++) {
            int at = (i * (1 + rank % (COMMS - 1)) + round + rank) % COMMS;
            MPI_Comm_idup(parents[at], &made[at], &requests[at]);
            if (round % 2) MPI_Comm_idup(parents[at], &made[COMMS + at], &requests[COMMS + at]);
        }
        int count = round % 2 ? 2 * COMMS : COMMS;
        if (round % 3 == 0) {
            int flag = 0;
            while (!flag) MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
        } else {
            MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        }
        for (int i = 0; i < count; i++) {
            int compared;
            CHECK(requests[i] == MPI_REQUEST_NULL);
            MPI_Comm_compare(parents[i % COMMS], made[i], &compared);
            CHECK(compared == MPI_CONGRUENT);
            sum(made[i]);
        }
        for (int i = 0; i < count; i++) MPI_Comm_free(&made[i]);
    }
}

/* While one is made that not all have begun, messages, collectives and other communicators go on. */
static void meanwhile(MPI_Comm *parents) {
    MPI_Comm late, other;
    MPI_Request request;
    int token = rank, taken = -1, last = rank == size - 1, flag;
    if (!last) MPI_Comm_idup(parents[0], &late, &request);
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % size, 1, &taken, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(taken == (rank + size - 1) % size);
    sum(parents[1]);
    MPI_Comm_dup(parents[1], &other);
    sum(other);
    MPI_Comm_free(&other);
    MPI_Comm_split(parents[2], rank % 2, rank, &other);
    MPI_Comm_free(&other);
    if (!last && size > 1) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
    }
    MPI_Barrier(parents[1]);
    if (last) MPI_Comm_idup(parents[0], &late, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sum(late);
    MPI_Comm_free(&late);
}

/* Topologies and attributes go along. */
static void annotated(void) {
    int dims[1] = {size}, periods[1] = {1}, key, flag, kind, *value, seven = 7;
    MPI_Comm ring, copy;
    MPI_Request request;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    MPI_Comm_set_attr(ring, key, &seven);
    MPI_Comm_idup(ring, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Topo_test(copy, &kind);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK(kind == MPI_CART && flag && *value == 7);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&ring);
    MPI_Comm_free_keyval(&key);
}

/* What was sent from a buffer is out before its flush is over, and only then. */
static void flushed(void) {
    char data[3000] = "sent from a buffer", into[3000];
    int room = 4 * (int)sizeof data, flag = 0, next = (rank + 1) % size, previous = (rank + size - 1) % size;
    void *buffer = malloc(room);
    MPI_Request request;
    MPI_Buffer_attach(buffer, room);
    MPI_Bsend(data, sizeof data, MPI_CHAR, next, 5, MPI_COMM_WORLD);
    MPI_Buffer_iflush(&request);
    MPI_Recv(into, sizeof into, MPI_CHAR, previous, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&buffer, &room);
    MPI_Comm_attach_buffer(MPI_COMM_WORLD, buffer, room);
    MPI_Bsend(data, sizeof data, MPI_CHAR, next, 6, MPI_COMM_WORLD);
    MPI_Comm_iflush_buffer(MPI_COMM_WORLD, &request);
    MPI_Recv(into, sizeof into, MPI_CHAR, previous, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(MPI_COMM_WORLD, &buffer, &room);
    CHECK(into[5] == 'f');
    free(buffer);
}

/* Groups that share no rank are made at a time, by names that may be alike, and are used at once. */
static void apart(void) {
    MPI_Group all, some;
    MPI_Comm comm;
    unsigned drawn = 1;
    int *members = malloc(size * sizeof *members);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int round = 0; round < 20 * ROUNDS; round++) {
        int count = 0, is_in = 0;
        for (int i = 0; i < size; i++) {
            drawn = drawn * 1664525 + 1013904223;
            if (drawn >> 31) members[count++] = i, is_in |= i == rank;
        }
        if (!is_in) continue;
        MPI_Group_incl(all, count, members, &some);
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &comm);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    free(members);
}

int main(int argc, char **argv) {
    int all;
    MPI_Comm parents[COMMS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* While few communicators are there, so that these have control slots. */
    apart();
    for (int i = 0; i < COMMS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
    crossing(parents);
    meanwhile(parents);
    annotated();
    flushed();
    for (int i = 0; i < COMMS; i++) MPI_Comm_free(&parents[i]);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
