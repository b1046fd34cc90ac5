/* The loops of programs: what they call, with the types they use, and a look at every byte that arrived. A rank's time is that of
 * all its turns from a barrier on; roots stay where they are, and nobody waits for others unless the operation asks it. */
#include "bench.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, DATA = 1, BACK = 2, LEFT = 3, RIGHT = 4 };

/* The elements of a loop, and their number in a message, block or vector. */
enum type { CHAR, INT, DOUBLE };
static const size_t width[] = { 1, sizeof(int), sizeof(double) };
static int count;

static char *out, *in;
/* Where the blocks of all ranks are, for calls that list them. */
static int *lens, *places;
static MPI_Request requests[WINDOW];
static int partner, left, right, is_spoilt;
static volatile uint64_t computed;

void spoil(void) {
    is_spoilt = 1;
}

/* Element `i` of what a rank gives: exact in every type, also when all ranks are summed up in CHARs' bits or more. */
static double value(int of, size_t i) {
    return (double)((i * 7 + (size_t)of * 31) % 101 + 1);
}

static double sum(int ranks, size_t i) {
    double all = 0;
    for (int of = 0; of < ranks; of++)
        all += value(of, i);
    return all;
}

static void set(char *memory, enum type type, size_t i, double to) {
    if (type == CHAR)
        memory[i] = (char)to;
    else if (type == INT)
        ((int *)memory)[i] = (int)to;
    else
        ((double *)memory)[i] = to;
}

static double get(const char *memory, enum type type, size_t i) {
    return type == CHAR ? memory[i] : type == INT ? ((const int *)memory)[i] : ((const double *)memory)[i];
}

/* The turns. Each answers the nanoseconds of its measured part, or 0 if all of it is. */

static long long pingpong(const struct batch *batch) {
    (void)batch;
    if (rank < partner) {
        MPI_Send(out, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD);
        MPI_Recv(in, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD);
    }
    return 0;
}

static long long window(const struct batch *batch) {
    int answer = 0;
    (void)batch;
    if (rank < partner) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out + (size_t)i * count, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(&answer, 1, MPI_INT, partner, BACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(in + (size_t)i * count, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Send(&answer, 1, MPI_INT, partner, BACK, MPI_COMM_WORLD);
    }
    return 0;
}

static long long halo(const struct batch *batch) {
    double *to = (double *)out, *from = (double *)in;
    (void)batch;
    MPI_Irecv(from, count, MPI_DOUBLE, left, RIGHT, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(from + count, count, MPI_DOUBLE, right, LEFT, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(to, count, MPI_DOUBLE, right, RIGHT, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(to + count, count, MPI_DOUBLE, left, LEFT, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    return 0;
}

static long long barrier(const struct batch *batch) {
    (void)batch;
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static long long bcast(const struct batch *batch) {
    (void)batch;
    MPI_Bcast(rank == 0 ? out : in, count, MPI_CHAR, 0, MPI_COMM_WORLD);
    return 0;
}

static long long gather(const struct batch *batch) {
    (void)batch;
    MPI_Gather(out, count, MPI_INT, in, count, MPI_INT, 0, MPI_COMM_WORLD);
    return 0;
}

static long long scatter(const struct batch *batch) {
    (void)batch;
    MPI_Scatter(out, count, MPI_INT, in, count, MPI_INT, 0, MPI_COMM_WORLD);
    return 0;
}

static long long gatherv(const struct batch *batch) {
    (void)batch;
    MPI_Gatherv(out, count, MPI_INT, in, lens, places, MPI_INT, 0, MPI_COMM_WORLD);
    return 0;
}

static long long scatterv(const struct batch *batch) {
    (void)batch;
    MPI_Scatterv(out, lens, places, MPI_INT, in, count, MPI_INT, 0, MPI_COMM_WORLD);
    return 0;
}

static long long allgather(const struct batch *batch) {
    (void)batch;
    MPI_Allgather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD);
    return 0;
}

static long long allgatherv(const struct batch *batch) {
    (void)batch;
    MPI_Allgatherv(out, count, MPI_DOUBLE, in, lens, places, MPI_DOUBLE, MPI_COMM_WORLD);
    return 0;
}

static long long alltoall(const struct batch *batch) {
    (void)batch;
    MPI_Alltoall(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD);
    return 0;
}

static long long alltoallv(const struct batch *batch) {
    (void)batch;
    MPI_Alltoallv(out, lens, places, MPI_DOUBLE, in, lens, places, MPI_DOUBLE, MPI_COMM_WORLD);
    return 0;
}

static long long reduce(const struct batch *batch) {
    (void)batch;
    MPI_Reduce(out, in, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return 0;
}

static long long allreduce(const struct batch *batch) {
    (void)batch;
    MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static long long scan(const struct batch *batch) {
    (void)batch;
    MPI_Scan(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static long long reduce_scatter_block(const struct batch *batch) {
    (void)batch;
    MPI_Reduce_scatter_block(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static long long reduce_scatter(const struct batch *batch) {
    (void)batch;
    MPI_Reduce_scatter(out, in, lens, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static long long iallreduce(const struct batch *batch) {
    (void)batch;
    MPI_Iallreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    return 0;
}

static long long ialltoall(const struct batch *batch) {
    (void)batch;
    MPI_Ialltoall(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD, requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    return 0;
}

#if MPI_VERSION >= 4
static long long persistent_allreduce(const struct batch *batch) {
    static MPI_Request kept = MPI_REQUEST_NULL;
    static char *from, *into;
    static int elements;
    (void)batch;
    if (from != out || into != in || elements != count) {
        if (kept != MPI_REQUEST_NULL)
            MPI_Request_free(&kept);
        from = out, into = in, elements = count;
        MPI_Allreduce_init(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    }
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    return 0;
}
#endif

static long long neighbor_alltoall(const struct batch *batch) {
    static MPI_Comm ring = MPI_COMM_NULL;
    (void)batch;
    if (ring == MPI_COMM_NULL) {
        int is_periodic = 1;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &is_periodic, 0, &ring);
    }
    MPI_Neighbor_alltoall(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, ring);
    return 0;
}

/* Computes while a request is under way, and tests it between the units. */
static void compute_beside(const struct batch *batch) {
    uint64_t state = rank;
    int done = 0;
    for (int unit = 0; unit < batch->each; unit++) {
        state = compute(state);
        if (!done)
            MPI_Test(requests, &done, MPI_STATUS_IGNORE);
    }
    computed = state;
    if (!done)
        MPI_Wait(requests, MPI_STATUS_IGNORE);
}

static long long overlap(const struct batch *batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    long long start = now_ns();
    if (rank < partner)
        MPI_Isend(out, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD, requests);
    else
        MPI_Irecv(in, count, MPI_CHAR, partner, DATA, MPI_COMM_WORLD, requests);
    compute_beside(batch);
    return now_ns() - start;
}

static long long overlap_iallreduce(const struct batch *batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    long long start = now_ns();
    MPI_Iallreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
    compute_beside(batch);
    return now_ns() - start;
}

static long long compute_alone(const struct batch *batch) {
    uint64_t state = rank;
    for (int unit = 0; unit < batch->each; unit++)
        state = compute(state);
    computed = state;
    return 0;
}

/* Element `i` of what a rank has in the end. */

static double of_partner(size_t i) {
    return value(partner, i);
}

static double of_neighbours(size_t i) {
    return value(i < (size_t)count ? left : right, i);
}

static double for_this_of_neighbours(size_t i) {
    return i < (size_t)count ? value(left, count + i) : value(right, i - count);
}

static double of_root(size_t i) {
    return value(0, i);
}

static double of_each(size_t i) {
    return value((int)(i / count), i % count);
}

static double for_this(size_t i) {
    return value(0, (size_t)rank * count + i);
}

static double for_this_of_each(size_t i) {
    return value((int)(i / count), (size_t)rank * count + i % count);
}

static double sum_of_all(size_t i) {
    return sum(size, i);
}

static double sum_until_this(size_t i) {
    return sum(rank + 1, i);
}

static double sum_for_this(size_t i) {
    return sum(size, (size_t)rank * count + i);
}

/* How many messages, blocks or vectors a rank gives and has, and the ranks that have any. */
enum amount { ONE, TWO, ALL, MANY };
enum holders { NONE, EACH, ROOT, OTHERS, RECEIVERS };

static const struct row {
    const char *name;
    long long (*turn)(const struct batch *);
    enum type type;
    enum amount gives, has;
    enum holders holders;
    double (*expected)(size_t);
} rows[] = {
    { "pingpong", pingpong, CHAR, ONE, ONE, EACH, of_partner },
    { "window", window, CHAR, MANY, MANY, RECEIVERS, of_partner },
    { "halo", halo, DOUBLE, TWO, TWO, EACH, of_neighbours },
    { "barrier", barrier, CHAR, ONE, ONE, NONE, NULL },
    { "bcast", bcast, CHAR, ONE, ONE, OTHERS, of_root },
    { "gather", gather, INT, ONE, ALL, ROOT, of_each },
    { "gatherv", gatherv, INT, ONE, ALL, ROOT, of_each },
    { "scatter", scatter, INT, ALL, ONE, EACH, for_this },
    { "scatterv", scatterv, INT, ALL, ONE, EACH, for_this },
    { "allgather", allgather, DOUBLE, ONE, ALL, EACH, of_each },
    { "allgatherv", allgatherv, DOUBLE, ONE, ALL, EACH, of_each },
    { "alltoall", alltoall, DOUBLE, ALL, ALL, EACH, for_this_of_each },
    { "alltoallv", alltoallv, DOUBLE, ALL, ALL, EACH, for_this_of_each },
    { "reduce", reduce, DOUBLE, ONE, ONE, ROOT, sum_of_all },
    { "allreduce", allreduce, DOUBLE, ONE, ONE, EACH, sum_of_all },
    { "scan", scan, INT, ONE, ONE, EACH, sum_until_this },
    { "reduce_scatter_block", reduce_scatter_block, DOUBLE, ALL, ONE, EACH, sum_for_this },
    { "reduce_scatter", reduce_scatter, DOUBLE, ALL, ONE, EACH, sum_for_this },
    { "iallreduce", iallreduce, DOUBLE, ONE, ONE, EACH, sum_of_all },
    { "ialltoall", ialltoall, DOUBLE, ALL, ALL, EACH, for_this_of_each },
#if MPI_VERSION >= 4
    { "persistent_allreduce", persistent_allreduce, DOUBLE, ONE, ONE, EACH, sum_of_all },
#endif
    { "neighbor_alltoall", neighbor_alltoall, DOUBLE, TWO, TWO, EACH, for_this_of_neighbours },
    { "overlap", overlap, CHAR, ONE, ONE, RECEIVERS, of_partner },
    { "overlap_iallreduce", overlap_iallreduce, DOUBLE, ONE, ONE, EACH, sum_of_all },
    { "compute", compute_alone, CHAR, ONE, ONE, NONE, NULL },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static size_t elements(enum amount amount) {
    return (size_t)count * (amount == ONE ? 1 : amount == TWO ? 2 : amount == ALL ? size : WINDOW);
}

static int holds(enum holders holders) {
    switch (holders) {
    case EACH: return 1;
    case ROOT: return rank == 0;
    case OTHERS: return rank != 0;
    case RECEIVERS: return rank > partner;
    default: return 0;
    }
}

/* Memory of that size, written anew: no batch finds what the one before it left. */
static void prepare(const struct row *row) {
    static size_t given_len, had_len;
    size_t gives = elements(row->gives), has = elements(row->has);
    if (lens == NULL) {
        lens = pages(2 * size * sizeof *lens);
        places = lens + size;
    }
    for (int i = 0; i < size; i++)
        lens[i] = count, places[i] = i * count;
    if ((gives + 1) * width[row->type] > given_len) {
        free(out);
        out = pages(given_len = (gives + 1) * width[row->type]);
    }
    if ((has + 1) * width[row->type] > had_len) {
        free(in);
        in = pages(had_len = (has + 1) * width[row->type]);
    }
    for (size_t i = 0; i < gives; i++)
        set(out, row->type, i, value(rank, i));
    memset(in, 0, has * width[row->type]);
}

/* Negative if an element is not what it must be. */
static int look(const struct row *row, char *wrong, size_t len) {
    if (!holds(row->holders) || count == 0)
        return 0;
    size_t has = elements(row->has);
    if (is_spoilt)
        in[has * width[row->type] - 1] ^= 1;
    is_spoilt = 0;
    for (size_t i = 0; i < has; i++) {
        double found = get(in, row->type, i), expected = row->expected(i);
        if (found != expected) {
            snprintf(wrong, len, "%s of %zu B: element %zu of rank %d is %g instead of %g", row->name,
                     count * width[row->type], i, rank, found, expected);
            return -1;
        }
    }
    return 0;
}

long long call(const struct batch *batch, char *wrong, size_t len) {
    int which = 0;
    while (which < ROWS && strcmp(rows[which].name, batch->workload) != 0)
        which++;
    if (which == ROWS || batch->turns < 1)
        fail("an unknown row, or no turns");
    const struct row *row = &rows[which];
    partner = rank ^ 1, left = (rank + size - 1) % size, right = (rank + 1) % size;
    if (partner >= size)
        fail("a rank without a partner");
    count = batch->bytes / (int)width[row->type];
    prepare(row);
    for (int i = 0; i < (batch->turns + 9) / 10; i++)
        row->turn(batch);
    MPI_Barrier(MPI_COMM_WORLD);
    long long start = now_ns(), parts = 0;
    for (int i = 0; i < batch->turns; i++)
        parts += row->turn(batch);
    long long elapsed = parts > 0 ? parts : now_ns() - start;
    return look(row, wrong, len) < 0 ? -1 : elapsed;
}
