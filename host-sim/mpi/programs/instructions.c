/* Makes a call of MPI over and over on each of two ranks, for callgrind to count: `measured` holds nothing else.
 *
 *   instructions CALL byte|char|double FOLDER
 *
 * Two ranks take turns, by two pipes in a folder of their own, so that what a call finds is the same
 * in every run: a message is in the ring before it is received, and nobody waits while it is counted. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WARM = 128, COUNTED = 512, BYTES = 8, ANSWER = 1, NO_MESSAGE = 2, WINDOW = 64 };

/* Processor time in the collective after which a rank has published what it has. */
static const long PUBLISHED_NS = 2000000;

static int rank, count, turns_from[2];
static double data, result, all[2];
static MPI_Datatype type = MPI_DATATYPE_NULL;
static MPI_Op op = MPI_SUM;
static MPI_Request request = MPI_REQUEST_NULL, window[WINDOW];
static double window_data[WINDOW];
static struct timespec began;
static volatile sig_atomic_t has_turn;

static void call_send(void) { MPI_Send(&data, count, type, 1, 0, MPI_COMM_WORLD); }
static void call_isend(void) { MPI_Isend(&data, count, type, 1, 0, MPI_COMM_WORLD, &request); }
static void call_recv(void) { MPI_Recv(&data, count, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static void call_irecv(void) { MPI_Irecv(&data, count, type, 0, 0, MPI_COMM_WORLD, &request); }
static void call_wait(void) { MPI_Wait(&request, MPI_STATUS_IGNORE); }
static void call_waitall(void) { MPI_Waitall(WINDOW, window, MPI_STATUSES_IGNORE); }
static void call_bcast(void) { MPI_Bcast(&data, count, type, 0, MPI_COMM_WORLD); }
static void call_allreduce(void) { MPI_Allreduce(&data, &result, count, type, op, MPI_COMM_WORLD); }
static void call_iallreduce(void) { MPI_Iallreduce(&data, &result, count, type, op, MPI_COMM_WORLD, &request); }
static void call_iallreduce_and_wait(void) { call_iallreduce(); call_wait(); }
static void call_gather(void) { MPI_Gather(&data, count, type, all, count, type, 1, MPI_COMM_WORLD); }
static void call_scatter(void) { MPI_Scatter(all, count, type, &data, count, type, 0, MPI_COMM_WORLD); }
static void call_reduce(void) { MPI_Reduce(&data, &result, count, type, op, 1, MPI_COMM_WORLD); }
static void call_scan(void) { MPI_Scan(&data, &result, count, type, op, MPI_COMM_WORLD); }
static void call_start(void) { MPI_Start(&request); }
static void call_start_and_wait(void) { call_start(); call_wait(); }
static void call_nothing(void) {}

static void call_sends(void) {
    for (int at = 0; at < WINDOW; at++) call_send();
}

static void call_irecvs(void) {
    for (int at = 0; at < WINDOW; at++)
        MPI_Irecv(&window_data[at], count, type, 0, 0, MPI_COMM_WORLD, &window[at]);
}

/* Looks for what never comes: all that has come is taken in. */
static void take_in(void) {
    for (int at = 0, found; at < WINDOW; at++)
        MPI_Iprobe(0, NO_MESSAGE, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

typedef void (*Call)(void);

/* What is done in a round: by rank 1, then by rank 0, then by rank 1 again. Rank 0's call is counted, and of rank 1's the last, or
 * the first if `is_before`. Between its two, rank 1 sends an answer to the round before, so that rank 0 looks for messages as
 * programs do, and finds the room that it has been given back. */
static const struct Row {
    const char *name;
    Call before, first, then;
    int is_before;
} ROWS[] = {
    {"send", call_nothing, call_send, call_recv, 0},
    {"isend", call_nothing, call_isend, call_recv, 0},
    {"irecv", call_irecv, call_send, call_wait, 1},
    {"wait", call_irecv, call_send, call_wait, 0},
    {"waitall", call_irecvs, call_sends, call_waitall, 0},
    {"bcast", call_nothing, call_bcast, call_bcast, 0},
    {"allreduce", call_nothing, call_allreduce, call_allreduce, 0},
    {"iallreduce", call_nothing, call_iallreduce, call_iallreduce_and_wait, 0},
    {"gather", call_nothing, call_gather, call_gather, 0},
    {"scatter", call_nothing, call_scatter, call_scatter, 0},
    {"reduce", call_nothing, call_reduce, call_reduce, 0},
    {"scan", call_nothing, call_scan, call_scan, 0},
    {"start", call_nothing, call_start, call_start_and_wait, 0},
};

static void fail(const char *why) {
    fprintf(stderr, "instructions: %s\n", why);
    exit(EXIT_FAILURE);
}

__attribute__((noinline)) static void measured(Call call) {
    call();
    __asm__ volatile("" ::: "memory");
}

static void pass_turn(void) {
    if (write(turns_from[rank], "", 1) != 1) fail("a turn cannot be passed");
}

static void await_turn(void) {
    char turn;
    if (read(turns_from[1 - rank], &turn, 1) != 1) fail("no turn comes");
}

/* Passes the turn from inside a collective, once what this rank gives is there to be read. */
static void pass_inside(int signal) {
    static const struct itimerval NEVER;
    struct timespec now;
    (void)signal;
    if (!has_turn) return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    if ((now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < PUBLISHED_NS) return;
    setitimer(ITIMER_REAL, &NEVER, NULL);
    has_turn = 0;
    pass_turn();
}

static void run_first(const struct Row *row, int is_counted) {
    static const struct itimerval SOON = {{0, 500}, {0, 500}};
    await_turn();
    MPI_Recv(NULL, 0, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (row->first == call_allreduce) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
        has_turn = 1;
        setitimer(ITIMER_REAL, &SOON, NULL);
        row->first();
        return;
    }
    if (is_counted) measured(row->first);
    else row->first();
    /* A collective waits for the other rank. */
    if (row->first != call_iallreduce && row->first != call_start && request != MPI_REQUEST_NULL) call_wait();
    pass_turn();
    if (request != MPI_REQUEST_NULL) call_wait();
}

static void run_then(const struct Row *row, int is_counted) {
    if (is_counted && row->is_before) measured(row->before);
    else row->before();
    MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
    pass_turn();
    await_turn();
    if (row->then == call_waitall) take_in();
    if (is_counted && !row->is_before) measured(row->then);
    else row->then();
}

static void open_pipes(const char *folder) {
    for (int from = 0; from < 2; from++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/turns-from-%d", folder, from);
        mkfifo(path, 0600);
        turns_from[from] = open(path, O_RDWR);
        if (turns_from[from] < 0) fail("a pipe cannot be opened");
    }
}

int main(int argc, char **argv) {
    const struct Row *row = NULL;
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4 || size != 2) fail("two ranks: CALL byte|char|double FOLDER");
    for (size_t at = 0; at < sizeof ROWS / sizeof *ROWS; at++)
        if (!strcmp(argv[1], ROWS[at].name)) row = &ROWS[at];
    if (!strcmp(argv[2], "byte")) type = MPI_BYTE, count = BYTES, op = MPI_BOR;
    if (!strcmp(argv[2], "char")) type = MPI_CHAR, count = BYTES;
    if (!strcmp(argv[2], "double")) type = MPI_DOUBLE, count = BYTES / sizeof(double);
    if (!row || !count) fail("no such call, or no such type");
    open_pipes(argv[3]);
    signal(SIGALRM, pass_inside);
    if (row->first == call_start)
        MPI_Allreduce_init(&data, &result, count, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = -WARM; round < COUNTED; round++) {
        if (rank == 0) run_first(row, round >= 0);
        else run_then(row, round >= 0);
    }
    if (row->first == call_start) MPI_Request_free(&request);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
