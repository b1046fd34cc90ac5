/* Buffers that a program gives twice by mistake: an error, whatever the form of the call, and nothing is sent. What the standard lets
 * a program give twice works. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 6, RANKS = 8 };

static int rank, size;

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "aliased: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void refused(int code, const char *what) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
    }
    check(class == MPI_ERR_BUFFER, what);
}

static void collectives(void) {
    static int all[COUNT * RANKS], own[COUNT];
    int *mine = all + COUNT * rank, counts[RANKS], starts[RANKS];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype types[RANKS];
    for (int i = 0; i < size; i++) {
        types[i] = MPI_INT;
        counts[i] = COUNT;
        starts[i] = COUNT * i;
    }
    refused(MPI_Allgather(mine, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather of its own block");
    refused(MPI_Allgather(all + (rank > 0), COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather of a part of a block");
    refused(MPI_Alltoall(all, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD), "MPI_Alltoall into what is given");
    refused(MPI_Ialltoall(all, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD, &request), "MPI_Ialltoall");
    check(request == MPI_REQUEST_NULL, "a request of a call that was refused");
    refused(MPI_Alltoall_init(all, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
            "MPI_Alltoall_init");
    refused(MPI_Allreduce(all, all + 1, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce into what is given");
    refused(MPI_Iallreduce(all, all, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request), "MPI_Iallreduce");
    refused(MPI_Scan(all, all + COUNT - 1, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Scan");
    refused(MPI_Exscan(all, all, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Exscan, at rank 0 too");
    refused(MPI_Reduce_scatter(all, all, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Reduce_scatter");
    refused(MPI_Reduce_scatter_block(all, all + COUNT * size - 1, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Reduce_scatter_block");
    refused(MPI_Allgatherv(mine, COUNT, MPI_INT, all, counts, starts, MPI_INT, MPI_COMM_WORLD), "MPI_Allgatherv of its own block");
    refused(MPI_Alltoallv(all, counts, starts, MPI_INT, all, counts, starts, MPI_INT, MPI_COMM_WORLD), "MPI_Alltoallv");
    refused(MPI_Ialltoallw(all, counts, starts, types, all, counts, starts, types, MPI_COMM_WORLD, &request), "MPI_Ialltoallw");
    if (rank == 0) {
        refused(MPI_Gather(mine, COUNT, MPI_INT, all, COUNT, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather at the root");
        refused(MPI_Scatterv(all, counts, starts, MPI_INT, mine, COUNT, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Scatterv at the root");
        refused(MPI_Reduce(all, all, COUNT, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce at the root");
    }

    /* And after all that the ranks agree. */
    for (int i = 0; i < COUNT; i++) {
        mine[i] = 100 * rank + i;
        own[i] = mine[i];
    }
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, COUNT, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT * size; i++) {
        check(all[i] == 100 * (i / COUNT) + i % COUNT, "MPI_Allgather in place");
    }
    MPI_Gatherv(rank == 0 ? MPI_IN_PLACE : (void *)own, COUNT, MPI_INT, all, counts, starts, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, all, counts, starts, MPI_INT, MPI_COMM_WORLD);
}

static void neighbors(void) {
    static int given[2 * COUNT + 1], taken[2 * COUNT];
    int dims[1] = {size}, periods[1] = {1};
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    refused(MPI_Neighbor_allgather(given + COUNT, COUNT, MPI_INT, given, COUNT, MPI_INT, ring), "MPI_Neighbor_allgather");
    refused(MPI_Neighbor_alltoall(given + 1, COUNT, MPI_INT, given, COUNT, MPI_INT, ring), "MPI_Neighbor_alltoall");
    int counts[2] = {COUNT, COUNT}, starts[2] = {0, COUNT}, apart[2] = {COUNT, 2 * COUNT};
    refused(MPI_Neighbor_alltoallv(given, counts, starts, MPI_INT, given, counts, starts, MPI_INT, ring), "MPI_Neighbor_alltoallv");
    refused(MPI_Neighbor_allgatherv(given, COUNT, MPI_INT, given, counts, starts, MPI_INT, ring), "MPI_Neighbor_allgatherv");
    /* Each gives to the left what is in front, and takes what is behind from the right. */
    static int both[3 * COUNT];
    int lens[2] = {COUNT, 0}, rooms[2] = {0, COUNT};
    check(MPI_Neighbor_alltoallv(both, lens, starts, MPI_INT, both, rooms, apart, MPI_INT, ring) == MPI_SUCCESS,
          "MPI_Neighbor_alltoallv of parts of a buffer");
    for (int i = 0; i < 2 * COUNT; i++) {
        given[i] = rank;
    }
    MPI_Neighbor_alltoall(given, COUNT, MPI_INT, taken, COUNT, MPI_INT, ring);
    check(taken[0] == (rank + size - 1) % size && taken[COUNT] == (rank + 1) % size, "MPI_Neighbor_alltoall");
    MPI_Comm_free(&ring);
}

static void packing(void) {
    int numbers[COUNT], position = 0;
    refused(MPI_Pack(numbers, 2, MPI_INT, numbers + 1, sizeof numbers - sizeof *numbers, &position, MPI_COMM_WORLD), "MPI_Pack");
    refused(MPI_Unpack(numbers, sizeof numbers, &position, numbers + 1, 2, MPI_INT, MPI_COMM_WORLD), "MPI_Unpack");
    check(position == 0, "the position of a call that was refused");
}

/* Data with gaps, and what is packed or gathered in a gap. */
static void around(void) {
    struct { int near, between[RANKS * 2], far; } one = {rank + 1, {0}, -rank};
    MPI_Datatype ends;
    int position = 0;
    MPI_Type_vector(2, 1, RANKS * 2 + 1, MPI_INT, &ends);
    MPI_Type_commit(&ends);
    MPI_Pack(&one, 1, ends, one.between, 2 * sizeof(int), &position, MPI_COMM_WORLD);
    check(position == 2 * sizeof(int) && one.between[0] == rank + 1 && one.between[1] == -rank, "MPI_Pack into a gap");
    one.near = one.far = 0, position = 0;
    MPI_Unpack(one.between, 2 * sizeof(int), &position, &one, 1, ends, MPI_COMM_WORLD);
    check(one.near == rank + 1 && one.far == -rank, "MPI_Unpack out of a gap");
    MPI_Allgather(&one, 1, ends, one.between, 2, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        check(one.between[2 * i] == i + 1 && one.between[2 * i + 1] == -i, "MPI_Allgather into a gap");
    }
    MPI_Type_free(&ends);
}

static int complete(void *extra, MPI_Status *status) {
    /* It looks at the requests that are waited for. */
    check(((MPI_Request *)extra)[1] == MPI_REQUEST_NULL, "the requests that are waited for");
    MPI_Status_set_elements(status, MPI_INT, 1);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = rank;
    status->MPI_TAG = 7;
    return MPI_SUCCESS;
}

static int forget(void *extra) {
    ((MPI_Request *)extra)[1] = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int is_complete) {
    (void)extra;
    return is_complete ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* Blocks of an exchange that lie between each other. */
static void between(void) {
    int numbers[2 * RANKS], ones[RANKS], even[RANKS], odd[RANKS];
    for (int i = 0; i < size; i++) {
        ones[i] = 1, even[i] = 2 * i, odd[i] = 2 * i + 1;
        numbers[even[i]] = 10 * rank + i, numbers[odd[i]] = -1;
    }
    MPI_Alltoallv(numbers, ones, even, MPI_INT, numbers, ones, odd, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        check(numbers[odd[i]] == 10 * i + rank, "MPI_Alltoallv between what is given");
    }
}

/* What may be given twice. */
static void allowed(void) {
    between();
    int numbers[2] = {rank, rank}, ranks[RANKS];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    MPI_Group group;
    for (int i = 0; i < size; i++) {
        ranks[i] = size - 1 - i;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_translate_ranks(group, size, ranks, group, ranks);
    for (int i = 0; i < size; i++) {
        check(ranks[i] == size - 1 - i, "MPI_Group_translate_ranks in place");
    }
    MPI_Group_free(&group);
    /* One buffer sent twice at a time, and read meanwhile. */
    MPI_Isend(numbers, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(numbers, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        int got = numbers[0] + 1;
        MPI_Recv(&got, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(got == rank, "a buffer that was sent twice");
    }
    MPI_Waitall(2, requests, statuses);
    /* Functions of the program's that look at, and change, the array that is waited for. */
    MPI_Grequest_start(complete, forget, cancel, requests, &requests[0]);
    MPI_Grequest_complete(requests[0]);
    MPI_Waitall(2, requests, statuses);
    check(requests[0] == MPI_REQUEST_NULL && statuses[0].MPI_TAG == 7, "a generalized request");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (size > RANKS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    collectives();
    neighbors();
    packing();
    around();
    allowed();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ok: %d ranks, what is given twice is refused or right\n", size);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
