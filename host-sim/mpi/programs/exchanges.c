/* Exchanges of blocks of one length among enough ranks that messages are shared: blocking, nonblocking, persistent and in place, where
   some ranks have something else under way and others have strided data, so that they come to the same call by different ways. The last
   line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { BLOCKING, NONBLOCKING, PERSISTENT, IN_PLACE, FORMS };
enum { ALIKE, SOME_BUSY, SOME_STRIDED, WAYS };

static unsigned char byte_of(int from, int to, int place) { return (unsigned char)(7 * from + 13 * to + place); }

/* Runs an exchange of one item of this type with each rank. */
static void exchange(int form, const void *from, void *into, MPI_Datatype type) {
    MPI_Request request;
    switch (form) {
    case BLOCKING: MPI_Alltoall(from, 1, type, into, 1, type, MPI_COMM_WORLD); return;
    case IN_PLACE: MPI_Alltoall(MPI_IN_PLACE, 0, type, into, 1, type, MPI_COMM_WORLD); return;
    case NONBLOCKING:
        MPI_Ialltoall(from, 1, type, into, 1, type, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    default:
        MPI_Alltoall_init(from, 1, type, into, 1, type, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        for (int turn = 0; turn < 2; turn++) {
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
    }
}

static void test(int form, int way, int bytes) {
    int stride = way == SOME_STRIDED && rank % 2 ? 2 : 1, is_busy = way == SOME_BUSY && rank % 3 == 0, other, wrong = 0;
    size_t room = (size_t)size * bytes * stride;
    unsigned char *from = malloc(room), *into = calloc(room, 1);
    MPI_Datatype items, type;
    MPI_Request under_way = MPI_REQUEST_NULL;
    MPI_Type_vector(bytes, 1, stride, MPI_BYTE, &items);
    MPI_Type_create_resized(items, 0, (MPI_Aint)bytes * stride, &type);
    MPI_Type_commit(&type);
    for (int to = 0; to < size; to++)
        for (int i = 0; i < bytes; i++) from[((size_t)to * bytes + i) * stride] = byte_of(rank, to, i);
    if (form == IN_PLACE) memcpy(into, from, room);
    if (is_busy) MPI_Irecv(&other, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &under_way);
    exchange(form, from, into, type);
    if (is_busy) {
        MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
        MPI_Wait(&under_way, MPI_STATUS_IGNORE);
    }
    for (int with = 0; with < size; with++)
        for (int i = 0; i < bytes; i++)
            wrong += into[((size_t)with * bytes + i) * stride] != byte_of(with, rank, i);
    CHECK(wrong == 0);
    MPI_Type_free(&items);
    MPI_Type_free(&type);
    free(from), free(into);
}

int main(int argc, char **argv) {
    /* Of the shortest to what is too long for messages to be shared. */
    const int lengths[] = {1, 3, 8, 200, 5000};
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int form = 0; form < FORMS; form++)
        for (int way = 0; way < WAYS; way++)
            for (int length = 0; length < 5; length++) test(form, way, lengths[length]);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) puts(all ? "failed" : "ok");
    return all != 0;
}
