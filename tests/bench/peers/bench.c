/* The program in C of `cargo xtask bench --peers`, built with the mpicc of every implementation of MPI: the loops of programs
 * (client.c), and here the workloads of tests/bench/src/batches.rs and tests/bench/src/bin/bench_aldis over MPI.
 * Arguments: SOCKET CORE..., a core for each rank. Between batches all ranks sleep in read(). */
#define _GNU_SOURCE
#include "bench.h"

#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW_MAX = 64, TOKEN_BYTES = 8, DATA = 0, TOKEN = 1 };

int rank, size;
static int other;
static char *out, *in;
static double *sums;
static MPI_Request requests[2 * WINDOW_MAX];
/* The other way every other turn: all ranks in reversed order. */
static MPI_Comm reversed;
/* All ranks in a ring; blocks of unlike lengths for both neighbours, and of them. */
static MPI_Comm ring;
static int near_given[2], near_taken[2], near_places[2];
/* Of an operation on blocks: where they stand, their lengths by rank, and those of what this rank sends to each. */
static int *places, *lens, *lens_from_here;
static MPI_Datatype *types;

void fail(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("pin");
}

/* Connects to xtask and reports for duty; the two directions of the socket as two streams. */
static void join(const char *path, FILE **commands, FILE **answers) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    *commands = fdopen(fd, "r");
    *answers = fdopen(dup(fd), "w");
    if (*commands == NULL || *answers == NULL)
        fail("fdopen");
    fprintf(*answers, "ready %d\n", rank);
    fflush(*answers);
}

long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void token_to(void) {
    char token[TOKEN_BYTES] = { 0 };
    MPI_Send(token, TOKEN_BYTES, MPI_BYTE, other, TOKEN, MPI_COMM_WORLD);
}

static void token_from(void) {
    char token[TOKEN_BYTES];
    MPI_Recv(token, TOKEN_BYTES, MPI_BYTE, other, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Neither rank goes on before the other has come. */
static void together(void) {
    char to[TOKEN_BYTES] = { 0 }, from[TOKEN_BYTES];
    MPI_Sendrecv(to, TOKEN_BYTES, MPI_BYTE, other, TOKEN, from, TOKEN_BYTES, MPI_BYTE, other, TOKEN,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int mark(int number) {
    return (number & 0xFF) | 1;
}

static void post_receives(const struct batch *batch) {
    for (int i = 0; i < batch->each; i++)
        MPI_Irecv(in + (size_t)i * batch->bytes, batch->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &requests[i]);
}

static void start_sends(const struct batch *batch, MPI_Request *sends) {
    for (int i = 0; i < batch->each; i++)
        MPI_Isend(out + (size_t)i * batch->bytes, batch->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &sends[i]);
}

static void write_anew(const struct batch *batch, int number) {
    memset(out, mark(number), (size_t)batch->bytes * batch->each);
}

/* A window of messages, and its token back. */
static void push(const struct batch *batch) {
    start_sends(batch, requests);
    MPI_Waitall(batch->each, requests, MPI_STATUSES_IGNORE);
    token_from();
}

static void take(const struct batch *batch) {
    post_receives(batch);
    MPI_Waitall(batch->each, requests, MPI_STATUSES_IGNORE);
    token_to();
}

__attribute__((noinline)) uint64_t compute(uint64_t state) {
    for (int i = 0; i < 512; i++)
        state = state * 6364136223846793005u + 1442695040888963407u;
    return state;
}

static volatile uint64_t computed;

/* The turns. Each answers the nanoseconds of its measured part, or 0 if all of it is. */

static long long latency(const struct batch *batch, int number) {
    (void)number;
    if (rank == 0) {
        MPI_Send(out, batch->bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(in, batch->bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, batch->bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, batch->bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
    return 0;
}

static long long bandwidth(const struct batch *batch, int number) {
    if (rank != 0) {
        take(batch);
        return 0;
    }
    write_anew(batch, number);
    long long start = now_ns();
    push(batch);
    return now_ns() - start;
}

static long long consume_timed(const struct batch *batch, int number, int is_writing_timed) {
    uint64_t sum = 0, words = batch->bytes / 8;
    if (rank != 0) {
        const uint64_t *word = (const uint64_t *)in;
        MPI_Recv(in, batch->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (uint64_t i = 0; i < words; i++)
            sum += word[i];
        MPI_Send(&sum, TOKEN_BYTES, MPI_BYTE, other, TOKEN, MPI_COMM_WORLD);
        return 0;
    }
    long long start = now_ns();
    memset(out, mark(number), batch->bytes);
    if (!is_writing_timed)
        start = now_ns();
    MPI_Send(out, batch->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD);
    MPI_Recv(&sum, TOKEN_BYTES, MPI_BYTE, other, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long long elapsed = now_ns() - start;
    if (sum != (uint64_t)mark(number) * 0x0101010101010101u * words)
        fail("a message was added up to something else");
    return elapsed;
}

static long long consume(const struct batch *batch, int number) {
    return consume_timed(batch, number, 0);
}

static long long loaned(const struct batch *batch, int number) {
    return consume_timed(batch, number, 1);
}

static long long rate(const struct batch *batch, int number) {
    (void)number;
    if (rank == 0)
        push(batch);
    else
        take(batch);
    return 0;
}

static long long bibw(const struct batch *batch, int number) {
    write_anew(batch, number);
    post_receives(batch);
    together();
    long long start = now_ns();
    start_sends(batch, requests + batch->each);
    MPI_Waitall(2 * batch->each, requests, MPI_STATUSES_IGNORE);
    together();
    return now_ns() - start;
}

static long long overlap(const struct batch *batch, int number) {
    MPI_Request request;
    int done = 0;
    if (rank == 0)
        memset(out, mark(number), batch->bytes);
    together();
    long long start = now_ns();
    if (rank == 0)
        MPI_Isend(out, batch->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &request);
    else
        MPI_Irecv(in, batch->bytes, MPI_BYTE, other, DATA, MPI_COMM_WORLD, &request);
    uint64_t state = number;
    for (int unit = 0; unit < batch->each; unit++) {
        state = compute(state);
        if (!done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    computed = state;
    if (!done)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0)
        token_from();
    else
        token_to();
    return now_ns() - start;
}

static long long compute_alone(const struct batch *batch, int number) {
    uint64_t state = number;
    for (int unit = 0; unit < batch->each; unit++)
        state = compute(state);
    computed = state;
    return 0;
}

static long long barrier(const struct batch *batch, int number) {
    (void)batch, (void)number;
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static long long bcast(const struct batch *batch, int number) {
    MPI_Bcast(out, batch->bytes, MPI_BYTE, number % size, MPI_COMM_WORLD);
    return 0;
}

static long long reduce(const struct batch *batch, int number) {
    /* Not in place: MPICH 4.0.2 crashes with MPI_IN_PLACE at a root other than 0. */
    MPI_Reduce(sums, in, batch->bytes / 8, MPI_DOUBLE, MPI_SUM, number % size, MPI_COMM_WORLD);
    return 0;
}

static long long allreduce(const struct batch *batch, int number) {
    (void)number;
    MPI_Allreduce(MPI_IN_PLACE, sums, batch->bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static MPI_Comm way(int number) {
    return number % 2 == 0 ? MPI_COMM_WORLD : reversed;
}

static long long scan(const struct batch *batch, int number) {
    MPI_Scan(MPI_IN_PLACE, sums, batch->bytes / 8, MPI_DOUBLE, MPI_SUM, way(number));
    return 0;
}

static long long exscan(const struct batch *batch, int number) {
    MPI_Exscan(MPI_IN_PLACE, sums, batch->bytes / 8, MPI_DOUBLE, MPI_SUM, way(number));
    return 0;
}

static long long reduce_scatter_block(const struct batch *batch, int number) {
    int at, count = batch->bytes / 8;
    MPI_Reduce_scatter_block(sums, in, count, MPI_DOUBLE, MPI_SUM, way(number));
    MPI_Comm_rank(way(number), &at);
    memcpy(sums + (size_t)at * count, in, count * sizeof *sums);
    return 0;
}

static long long reduce_scatter(const struct batch *batch, int number) {
    int at, count = batch->bytes / 8;
    for (int i = 0; i < size; i++)
        lens[i] = count;
    MPI_Reduce_scatter(sums, in, lens, MPI_DOUBLE, MPI_SUM, way(number));
    MPI_Comm_rank(way(number), &at);
    memcpy(sums + (size_t)at * count, in, count * sizeof *sums);
    return 0;
}

/* The bytes of an uneven block: half and one and a half times as many by turns. */
static int uneven(int bytes, int number) {
    return number % 2 == 0 ? bytes / 2 : bytes + bytes / 2;
}

/* Blocks. What a rank sends to another is what it had from that one: see tests/bench/src/bin/bench_aldis/blocks.rs. */

static long long gather(const struct batch *batch, int number) {
    int root = number % size, len = batch->bytes;
    if (rank == root)
        MPI_Gather(MPI_IN_PLACE, 0, MPI_BYTE, out, len, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Gather(out + places[root], len, MPI_BYTE, NULL, 0, MPI_BYTE, root, MPI_COMM_WORLD);
    return 0;
}

static long long gatherv(const struct batch *batch, int number) {
    (void)batch;
    int root = number % size;
    if (rank == root)
        MPI_Gatherv(MPI_IN_PLACE, 0, MPI_BYTE, out, lens, places, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Gatherv(out + places[root], lens[rank], MPI_BYTE, NULL, NULL, NULL, MPI_BYTE, root, MPI_COMM_WORLD);
    return 0;
}

static long long scatter(const struct batch *batch, int number) {
    int root = number % size, len = batch->bytes;
    if (rank == root)
        MPI_Scatter(out, len, MPI_BYTE, MPI_IN_PLACE, 0, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Scatter(NULL, 0, MPI_BYTE, out + places[root], len, MPI_BYTE, root, MPI_COMM_WORLD);
    return 0;
}

static long long scatterv(const struct batch *batch, int number) {
    (void)batch;
    int root = number % size;
    if (rank == root)
        MPI_Scatterv(out, lens, places, MPI_BYTE, MPI_IN_PLACE, 0, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Scatterv(NULL, NULL, NULL, MPI_BYTE, out + places[root], lens[rank], MPI_BYTE, root, MPI_COMM_WORLD);
    return 0;
}

static long long allgather(const struct batch *batch, int number) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, out, batch->bytes, MPI_BYTE, way(number));
    return 0;
}

static long long allgatherv(const struct batch *batch, int number) {
    (void)batch;
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, out, lens, places, MPI_BYTE, way(number));
    return 0;
}

static long long alltoall(const struct batch *batch, int number) {
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Alltoall(from, batch->bytes, MPI_BYTE, into, batch->bytes, MPI_BYTE, MPI_COMM_WORLD);
    return 0;
}

static long long alltoallv(const struct batch *batch, int number) {
    (void)batch;
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Alltoallv(from, lens_from_here, places, MPI_BYTE, into, lens_from_here, places, MPI_BYTE, MPI_COMM_WORLD);
    return 0;
}

static long long alltoallw(const struct batch *batch, int number) {
    (void)batch;
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Alltoallw(from, lens_from_here, places, types, into, lens_from_here, places, types, MPI_COMM_WORLD);
    return 0;
}

static long long neighbor_allgather(const struct batch *batch, int number) {
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Neighbor_allgather(from, batch->bytes, MPI_BYTE, into, batch->bytes, MPI_BYTE, ring);
    return 0;
}

static long long neighbor_allgatherv(const struct batch *batch, int number) {
    (void)batch;
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Neighbor_allgatherv(from, near_given[0], MPI_BYTE, into, near_taken, near_places, MPI_BYTE, ring);
    return 0;
}

static long long neighbor_alltoall(const struct batch *batch, int number) {
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Neighbor_alltoall(from, batch->bytes, MPI_BYTE, into, batch->bytes, MPI_BYTE, ring);
    return 0;
}

static long long neighbor_alltoallv(const struct batch *batch, int number) {
    (void)batch;
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Neighbor_alltoallv(from, near_given, near_places, MPI_BYTE, into, near_taken, near_places, MPI_BYTE, ring);
    return 0;
}

static long long neighbor_alltoallw(const struct batch *batch, int number) {
    (void)batch;
    char *from = number % 2 == 0 ? out : in, *into = number % 2 == 0 ? in : out;
    MPI_Aint at[] = { near_places[0], near_places[1] };
    MPI_Neighbor_alltoallw(from, near_given, at, types, into, near_taken, at, types, ring);
    return 0;
}

static const struct {
    const char *name;
    long long (*turn)(const struct batch *, int);
    enum { WHOLE, PARTS, EVEN, UNEVEN } kind; /* what is measured of a turn, or how the blocks are */
} workloads[] = {
    { "latency", latency, WHOLE },     { "bandwidth", bandwidth, PARTS },    { "bibw", bibw, PARTS },
    { "rate", rate, WHOLE },           { "overlap", overlap, PARTS },        { "compute", compute_alone, WHOLE },
    { "barrier", barrier, WHOLE },     { "bcast", bcast, WHOLE },            { "allreduce", allreduce, WHOLE },
    { "reduce", reduce, WHOLE },       { "scan", scan, WHOLE },              { "exscan", exscan, WHOLE },
    { "gather", gather, EVEN },        { "gatherv", gatherv, UNEVEN },       { "scatter", scatter, EVEN },
    { "scatterv", scatterv, UNEVEN },  { "allgather", allgather, EVEN },     { "allgatherv", allgatherv, UNEVEN },
    { "alltoall", alltoall, EVEN },    { "alltoallv", alltoallv, UNEVEN }, { "consume", consume, PARTS },
    { "loaned", loaned, PARTS },
    { "reduce_scatter_block", reduce_scatter_block, EVEN }, { "reduce_scatter", reduce_scatter, EVEN },
    { "alltoallw", alltoallw, UNEVEN },
    { "neighbor_allgather", neighbor_allgather, EVEN }, { "neighbor_allgatherv", neighbor_allgatherv, UNEVEN },
    { "neighbor_alltoall", neighbor_alltoall, EVEN },   { "neighbor_alltoallv", neighbor_alltoallv, UNEVEN },
    { "neighbor_alltoallw", neighbor_alltoallw, UNEVEN },
};
enum { WORKLOADS = sizeof workloads / sizeof workloads[0] };

static void divide(const struct batch *batch, int is_even) {
    for (int i = 0; i < size; i++) {
        lens[i] = is_even ? batch->bytes : uneven(batch->bytes, i);
        lens_from_here[i] = is_even ? batch->bytes : uneven(batch->bytes, i + rank);
        places[i] = i * (is_even ? batch->bytes : uneven(batch->bytes, 1));
    }
    /* Of the one before, then of the one behind. As long both ways: where these are one rank, MPICH 4.0.2 mistakes the ways, and
       would cut the longer block off without an error. */
    for (int i = 0; i < 2; i++) {
        near_given[i] = uneven(batch->bytes, rank);
        near_taken[i] = uneven(batch->bytes, (rank + (i == 0 ? size - 1 : 1)) % size);
        near_places[i] = i * uneven(batch->bytes, 1);
    }
}

void *pages(size_t bytes) {
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory == NULL)
        fail("aligned_alloc");
    return memory;
}

/* Room for so many bytes, kept while it suffices. */
static void prepare(const struct batch *batch, size_t bytes) {
    static size_t capacity;
    size_t needed = bytes + 8;
    if (needed > capacity) {
        free(out), free(in), free(sums);
        capacity = needed;
        out = pages(needed), in = pages(needed), sums = pages(needed);
        memset(in, 0, needed);
    }
    memset(out, rank + 1, needed);
    for (size_t i = 0; i < bytes / 8; i++)
        sums[i] = 1.0;
}

static long long run(const struct batch *batch, int which) {
    int warm_up = (batch->turns + 9) / 10;
    for (int i = 0; i < warm_up; i++)
        workloads[which].turn(batch, i);
    long long start = now_ns(), parts = 0;
    for (int i = 0; i < batch->turns; i++)
        parts += workloads[which].turn(batch, i);
    return workloads[which].kind == PARTS ? parts : now_ns() - start;
}

static long long go(const struct batch *batch) {
    int which = 0;
    while (which < WORKLOADS && strcmp(workloads[which].name, batch->workload) != 0)
        which++;
    if (which == WORKLOADS || (batch->each > WINDOW_MAX && workloads[which].turn != overlap &&
                               workloads[which].turn != compute_alone))
        fail("an unknown workload, or too large a window");
    int windowed = workloads[which].turn == bandwidth || workloads[which].turn == rate || workloads[which].turn == bibw;
    int is_uneven = workloads[which].kind == UNEVEN, on_blocks = is_uneven || workloads[which].kind == EVEN;
    size_t len = is_uneven ? uneven(batch->bytes, 1) : batch->bytes;
    prepare(batch, len * (windowed ? batch->each : on_blocks ? size : 1));
    divide(batch, !is_uneven);
    return run(batch, which);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 + size) {
        fprintf(stderr, "usage: SOCKET CORE..., a core for each rank\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    other = 1 - rank;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &(int){ 1 }, 0, &ring);
    places = calloc(size, sizeof *places), lens = calloc(size, sizeof *lens);
    lens_from_here = calloc(size, sizeof *lens_from_here);
    types = calloc(size, sizeof *types);
    if (places == NULL || lens == NULL || lens_from_here == NULL || types == NULL)
        fail("calloc");
    for (int i = 0; i < size; i++)
        types[i] = MPI_BYTE;
    pin(atoi(argv[2 + rank]));
    FILE *commands, *answers;
    join(argv[1], &commands, &answers);

    char line[96], wrong[160];
    while (fgets(line, sizeof line, commands) != NULL) {
        struct batch batch;
        if (strcmp(line, "spoil\n") == 0) {
            spoil();
        } else if (sscanf(line, "call %31s %d %d %d", batch.workload, &batch.turns, &batch.bytes, &batch.each) == 4) {
            long long elapsed = call(&batch, wrong, sizeof wrong);
            if (elapsed < 0)
                fprintf(answers, "wrong: %s\n", wrong);
            else
                fprintf(answers, "%lld\n", elapsed);
        } else if (sscanf(line, "go %31s %d %d %d", batch.workload, &batch.turns, &batch.bytes, &batch.each) == 4) {
            long long elapsed = go(&batch);
            if (rank == 0)
                fprintf(answers, "%lld\n", elapsed);
        } else {
            fail("not a batch");
        }
        fflush(answers);
    }
    MPI_Finalize();
    return 0;
}
