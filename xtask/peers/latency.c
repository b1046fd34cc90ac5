/* The peers' side of `cargo xtask bench latency --peers`: tests/src/bench.rs over MPI.
 * Arguments: SOCKET CORE0 CORE1. Between batches both ranks sleep in read(). */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 20 };

static void fail(const char *what) {
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
static void join(const char *path, int rank, FILE **commands, FILE **answers) {
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

static void turn(int rank, char *out, char *in, int bytes) {
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4 || size != 2) {
        fprintf(stderr, "usage: two ranks, SOCKET CORE0 CORE1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin(atoi(argv[2 + rank]));
    FILE *commands, *answers;
    join(argv[1], rank, &commands, &answers);

    char *out = NULL, *in = NULL;
    int capacity = -1, round_trips, bytes;
    char line[64];
    while (fgets(line, sizeof line, commands) != NULL) {
        if (sscanf(line, "go %d %d", &round_trips, &bytes) != 2)
            fail("not a batch");
        if (bytes > capacity) {
            free(out), free(in);
            capacity = bytes;
            out = malloc(bytes + 1), in = malloc(bytes + 1);
            if (out == NULL || in == NULL)
                fail("malloc");
            memset(out, rank + 1, bytes + 1), memset(in, 0, bytes + 1);
        }
        for (int i = 0; i < WARM_UP; i++)
            turn(rank, out, in, bytes);
        long long start = now_ns();
        for (int i = 0; i < round_trips; i++)
            turn(rank, out, in, bytes);
        long long elapsed = now_ns() - start;
        if (rank == 0) {
            fprintf(answers, "%lld\n", elapsed);
            fflush(answers);
        }
    }
    MPI_Finalize();
    return 0;
}
