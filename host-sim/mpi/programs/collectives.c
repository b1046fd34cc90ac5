/* Blocking collectives on blocks of one length and scans, short and long, in one piece, strided and in place; all ranks with
   nothing else under way, and with a collective under way that some ranks have not begun, so that they take their calls by
   different ways; and more nonblocking ones at a time than a communicator has control slots, waited for in any order. The last
   line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The elements of a block: none, one, a line's, more than a line holds, and long ones. */
static const int COUNTS[] = {0, 1, 3, 64, 1000, 3000, 40000};

static MPI_Comm beside, ring;
static MPI_Datatype strided;
static int *out, *in, *dense;

/* The value that a rank gives to another at an index. */
static int value(int from, int to, int at) { return from * 1000003 + to * 1009 + at; }

/* Ranks of odd numbers give or take every second int where strides are asked for; the others have them in one piece. */
static int is_strided(int asked) { return asked && rank % 2; }

static void put(int *data, int block, int count, int stride, int from, int to) {
    for (int at = 0; at < count; at++) data[((size_t)block * count + at) * stride] = value(from, to, at);
}

static int holds(const int *data, int block, int count, int stride, int from, int to) {
    for (int at = 0; at < count; at++)
        if (data[((size_t)block * count + at) * stride] != value(from, to, at)) return 0;
    return 1;
}

static void test_rooted(int count, int root, int asked, int in_place) {
    int stride = is_strided(asked) ? 2 : 1, wrong = 0;
    MPI_Datatype type = stride == 2 ? strided : MPI_INT;
    memset(in, -1, (size_t)size * count * stride * sizeof *in + sizeof *in);
    put(out, 0, count, stride, rank, root);
    if (in_place && rank == root) {
        put(in, rank, count, stride, rank, root);
        MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, in, count, type, root, MPI_COMM_WORLD);
    } else {
        MPI_Gather(out, count, type, in, count, type, root, MPI_COMM_WORLD);
    }
    for (int from = 0; rank == root && from < size; from++) wrong += !holds(in, from, count, stride, from, root);
    CHECK(wrong == 0);
    for (int to = 0; rank == root && to < size; to++) put(in, to, count, stride, root, to);
    memset(out, -1, (size_t)count * stride * sizeof *out);
    if (in_place && rank == root) {
        MPI_Scatter(in, count, type, MPI_IN_PLACE, 0, MPI_INT, root, MPI_COMM_WORLD);
        CHECK(holds(in, rank, count, stride, root, rank));
    } else {
        MPI_Scatter(in, count, type, out, count, type, root, MPI_COMM_WORLD);
        CHECK(holds(out, 0, count, stride, root, rank));
    }
}

/* Blocks of other lengths on each rank, which the root alone has the list of. */
static void test_listed(int count, int root) {
    int counts[16], starts[16], wrong = 0;
    for (int i = 0, start = 0; i < size; i++) counts[i] = count + i, starts[i] = start, start += counts[i] + 1;
    put(out, 0, counts[rank], 1, rank, root);
    MPI_Gatherv(out, counts[rank], MPI_INT, in, rank == root ? counts : NULL, rank == root ? starts : NULL, MPI_INT, root, MPI_COMM_WORLD);
    for (int from = 0; rank == root && from < size; from++) wrong += !holds(in + starts[from], 0, counts[from], 1, from, root);
    for (int to = 0; rank == root && to < size; to++) put(in + starts[to], 0, counts[to], 1, root, to);
    MPI_Scatterv(in, rank == root ? counts : NULL, rank == root ? starts : NULL, MPI_INT, out, counts[rank], MPI_INT, root, MPI_COMM_WORLD);
    CHECK(wrong == 0 && holds(out, 0, counts[rank], 1, root, rank));
}

static void test_all(int count, int asked, int in_place) {
    int stride = is_strided(asked) ? 2 : 1, wrong = 0;
    MPI_Datatype type = stride == 2 ? strided : MPI_INT;
    memset(in, -1, (size_t)size * count * stride * sizeof *in + sizeof *in);
    if (in_place) {
        put(in, rank, count, stride, rank, 7);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, in, count, type, MPI_COMM_WORLD);
    } else {
        put(out, 0, count, stride, rank, 7);
        MPI_Allgather(out, count, type, in, count, type, MPI_COMM_WORLD);
    }
    for (int from = 0; from < size; from++) wrong += !holds(in, from, count, stride, from, 7);
    for (int to = 0; to < size; to++) put(in_place ? in : out, to, count, stride, rank, to);
    MPI_Alltoall(in_place ? MPI_IN_PLACE : out, count, type, in, count, type, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++) wrong += !holds(in, from, count, stride, from, rank);
    CHECK(wrong == 0);
}

/* The sum over the ranks before `end`, at an index of what they give to a rank. */
static int sum(int end, int to, int at) {
    int total = 0;
    for (int from = 0; from < end; from++) total += value(from, to, at);
    return total;
}

static void test_sums(int count, int in_place) {
    int wrong = 0, *own = in_place ? in : out;
    put(own, 0, count, 1, rank, 5);
    MPI_Scan(in_place ? MPI_IN_PLACE : out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++) wrong += in[at] != sum(rank + 1, 5, at);
    put(own, 0, count, 1, rank, 5);
    MPI_Exscan(in_place ? MPI_IN_PLACE : out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; rank && at < count; at++) wrong += in[at] != sum(rank, 5, at);
    CHECK(wrong == 0);
    for (int to = 0; to < size; to++) put(own, to, count, 1, rank, to);
    MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++) wrong += in[at] != sum(size, rank, at);
    CHECK(wrong == 0);
    /* Of lengths that differ: one element more for each rank. */
    int *counts = malloc(size * sizeof *counts), start = 0;
    for (int to = 0; to < size; start += counts[to++]) {
        counts[to] = count / size + to;
        for (int at = 0; at < counts[to]; at++) own[start + at] = value(rank, to, at);
    }
    MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < counts[rank]; at++) wrong += in[at] != sum(size, rank, at);
    CHECK(wrong == 0);
    free(counts);
}

/* In a ring, blocking and not: a block for each side. */
static void test_ring(int count) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, none = 2 * size + 2;
    MPI_Request requests[2];
    put(out, 0, count, 1, rank, 0), put(out, 1, count, 1, rank, 1);
    MPI_Neighbor_alltoall(out, count, MPI_INT, in, count, MPI_INT, ring);
    CHECK(holds(in, 0, count, 1, left, 1) && holds(in, 1, count, 1, right, 0));
    put(in, 0, count, 1, none, none), put(in, 1, count, 1, none, none);
    MPI_Ineighbor_alltoall(out, count, MPI_INT, in, count, MPI_INT, ring, &requests[0]);
    MPI_Ineighbor_allgather(out, count, MPI_INT, dense, count, MPI_INT, ring, &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    CHECK(holds(dense, 0, count, 1, left, 0) && holds(dense, 1, count, 1, right, 0));
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK(holds(in, 0, count, 1, left, 1) && holds(in, 1, count, 1, right, 0));
    MPI_Neighbor_allgather(out, count, MPI_INT, in, count, MPI_INT, ring);
    CHECK(holds(in, 0, count, 1, left, 0) && holds(in, 1, count, 1, right, 0));
}

static void test(int count) {
    for (int kind = 0; kind < 4; kind++) {
        for (int root = 0; root < size; root += size > 1 ? size - 1 : 1)
            test_rooted(count, root, kind / 2, kind % 2);
        test_all(count, kind / 2, kind % 2);
    }
    test_listed(count, 0), test_listed(count, size - 1);
    test_sums(count, 0), test_sums(count, 1), test_ring(count);
}

/* Roots and givers go on before the others have come: many calls one after the other. */
static void test_many(int count) {
    int wrong = 0;
    for (int turn = 0; turn < 200; turn++) {
        int root = turn % size;
        put(out, 0, count, 1, rank, turn);
        MPI_Gather(out, count, MPI_INT, in, count, MPI_INT, root, MPI_COMM_WORLD);
        for (int from = 0; rank == root && from < size; from++) wrong += !holds(in, from, count, 1, from, turn);
        MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
        for (int from = 0; from < size; from++) wrong += !holds(in, from, count, 1, from, turn);
        MPI_Scatter(in, count, MPI_INT, dense, count, MPI_INT, root, MPI_COMM_WORLD);
        wrong += !holds(dense, 0, count, 1, rank, turn);
    }
    CHECK(wrong == 0);
}

enum { STARTED = 24, KINDS = 6 };

/* Starts a collective of the kind, on memory of its own. */
static void start(int kind, int count, int *from, int *to, MPI_Request *request) {
    for (int block = 0; block < size; block++) put(from, block, count, 1, rank, block);
    switch (kind) {
    case 0: MPI_Iallreduce(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request); break;
    case 1: MPI_Ialltoall(from, count, MPI_INT, to, count, MPI_INT, MPI_COMM_WORLD, request); break;
    case 2: MPI_Igather(from, count, MPI_INT, to, count, MPI_INT, size - 1, MPI_COMM_WORLD, request); break;
    case 3: MPI_Iscan(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request); break;
    case 4: MPI_Ireduce_scatter_block(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request); break;
    default: MPI_Ibcast(rank == 0 ? memcpy(to, from, count * sizeof *to) : to, count, MPI_INT, 0, MPI_COMM_WORLD, request);
    }
}

static int is_right(int kind, int count, const int *to) {
    int wrong = 0;
    for (int block = 0; (kind == 1 || (kind == 2 && rank == size - 1)) && block < size; block++)
        wrong += !holds(to, block, count, 1, block, kind == 1 ? rank : 0);
    for (int at = 0; at < count; at++) {
        if (kind == 0) wrong += to[at] != sum(size, 0, at);
        if (kind == 3) wrong += to[at] != sum(rank + 1, 0, at);
        if (kind == 4) wrong += to[at] != sum(size, rank, at);
        if (kind == 5) wrong += to[at] != value(0, 0, at);
    }
    return wrong == 0;
}

/* More at a time than there are control slots: waited for all at once, from the last to the first, or tested in turn, with
   blocking ones in between. */
static void test_started(int count, int way) {
    MPI_Request requests[STARTED];
    size_t ints = (size_t)count * size + 1;
    int wrong = 0, one = 1, total = 0, done = 0, *from = malloc(STARTED * ints * sizeof *from),
        *to = calloc(STARTED * ints, sizeof *to);
    for (int i = 0; i < STARTED; i++) {
        start(i % KINDS, count, from + i * ints, to + i * ints, &requests[i]);
        if (i % 7 == 5) MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (way == 0) MPI_Waitall(STARTED, requests, MPI_STATUSES_IGNORE);
    for (int i = STARTED - 1; way == 1 && i >= 0; i--) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    while (way == 2 && !done) MPI_Testall(STARTED, requests, &done, MPI_STATUSES_IGNORE);
    for (int i = 0; way == 3 && i < STARTED; i++) MPI_Waitany(STARTED, requests, &done, MPI_STATUS_IGNORE);
    for (int i = 0; i < STARTED; i++) wrong += !is_right(i % KINDS, count, to + i * ints);
    CHECK(wrong == 0 && total == size);
    free(from), free(to);
}

enum { KEPT = 6, STARTS = 20 };

/* Collectives that are kept, more than have control slots of their own: each rank starts them in an order of its own, with
   another collective of all before, between or after them. */
static void test_kept(int count) {
    MPI_Request kept[KEPT];
    int wrong = 0, one = 1, *from = calloc((size_t)count + 1, sizeof *from), *to[KEPT];
    for (int i = 0; i < KEPT; i++) to[i] = calloc((size_t)count + 1, sizeof *to[i]);
    MPI_Allreduce_init(from, to[0], count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[0]);
    MPI_Scan_init(from, to[1], count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[1]);
    MPI_Bcast_init(to[2], count, MPI_INT, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[2]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &kept[3]);
    MPI_Reduce_init(from, to[4], count, MPI_INT, MPI_SUM, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[4]);
    MPI_Allreduce_init(MPI_IN_PLACE, to[5], count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept[5]);
    for (int turn = 0; turn < STARTS; turn++) {
        int total = 0;
        put(from, 0, count, 1, rank, turn), put(to[5], 0, count, 1, rank, turn);
        put(to[2], 0, count, 1, rank, turn);
        for (int i = 0; i < KEPT; i++) {
            if (i == (turn + rank) % KEPT) MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Start(&kept[(i + rank + turn) % KEPT]);
        }
        if (turn % 3 == 0) MPI_Waitall(KEPT, kept, MPI_STATUSES_IGNORE);
        for (int i = 0; turn % 3 == 1 && i < KEPT; i++) MPI_Wait(&kept[(i * 5 + rank) % KEPT], MPI_STATUS_IGNORE);
        for (int done = 0; turn % 3 == 2 && !done;) MPI_Testall(KEPT, kept, &done, MPI_STATUSES_IGNORE);
        wrong += total != size;
        for (int at = 0; at < count; at++) {
            wrong += to[0][at] != sum(size, turn, at) || to[5][at] != sum(size, turn, at);
            wrong += to[1][at] != sum(rank + 1, turn, at) || to[2][at] != value(size - 1, turn, at);
            wrong += rank == size - 1 && to[4][at] != sum(size, turn, at);
        }
    }
    CHECK(wrong == 0);
    for (int i = 0; i < KEPT; i++) MPI_Request_free(&kept[i]), free(to[i]);
    free(from);
}

int main(int argc, char **argv) {
    int all, is_periodic = 1, longest = COUNTS[sizeof COUNTS / sizeof *COUNTS - 1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &beside);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &is_periodic, 0, &ring);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &strided);
    MPI_Type_commit(&strided);
    size_t ints = ((size_t)longest + size) * (size > 1 ? size : 2) * 2 + 1;
    out = calloc(ints, sizeof *out), in = calloc(ints, sizeof *in), dense = calloc(ints, sizeof *dense);
    for (unsigned i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        test(COUNTS[i]);
        /* A barrier of another communicator that the last rank has not begun. */
        MPI_Request request = MPI_REQUEST_NULL;
        if (size > 1 && rank < size - 1) MPI_Ibarrier(beside, &request);
        test(COUNTS[i]);
        if (size > 1 && rank == size - 1) MPI_Ibarrier(beside, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    test_many(1), test_many(500);
    for (int way = 0; way < 4; way++) test_started(1, way), test_started(700, way), test_started(9000, way), test_started(20000, way);
    for (int again = 0; again < 3; again++) test_kept(1), test_kept(700), test_kept(20000);
    MPI_Type_free(&strided);
    MPI_Comm_free(&beside), MPI_Comm_free(&ring);
    free(out), free(in), free(dense);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) puts(all ? "failed" : "ok");
    return all != 0;
}
