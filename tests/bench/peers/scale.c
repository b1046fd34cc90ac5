/* What a job of many ranks costs: a few calls that most programs make, each looked at, and what a rank then holds of the machine. The
 * first rank says it in one line of JSON. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 3, LONG = 64 << 10, HALO = 1 << 10 };

static int rank, size;
static char longs[LONG];
static int *given, *taken;
static double halo[4][HALO / sizeof(double)];

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void wrong(const char *what) {
    fprintf(stderr, "%s: wrong data at rank %d\n", what, rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void barrier(int turn) {
    (void)turn;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int turn) {
    double one = rank + turn, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (all != (double)size * (size - 1) / 2 + (double)size * turn)
        wrong("allreduce");
}

static void bcast(int turn) {
    if (rank == 0)
        memset(longs, turn + 1, LONG);
    MPI_Bcast(longs, LONG, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < LONG; i++)
        if (longs[i] != turn + 1)
            wrong("bcast");
}

static void gather(int turn) {
    int mine[2] = { rank, turn };
    MPI_Gather(mine, 2, MPI_INT, taken, 2, MPI_INT, 0, MPI_COMM_WORLD);
    for (int of = 0; rank == 0 && of < size; of++)
        if (taken[2 * of] != of || taken[2 * of + 1] != turn)
            wrong("gather");
}

static void alltoall(int turn) {
    for (int to = 0; to < size; to++) {
        given[2 * to] = rank * size + to;
        given[2 * to + 1] = turn;
    }
    MPI_Alltoall(given, 2, MPI_INT, taken, 2, MPI_INT, MPI_COMM_WORLD);
    for (int of = 0; of < size; of++)
        if (taken[2 * of] != of * size + rank || taken[2 * of + 1] != turn)
            wrong("alltoall");
}

static void exchange(int turn) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, count = HALO / sizeof(double);
    MPI_Request requests[4];
    for (int i = 0; i < count; i++)
        halo[0][i] = halo[1][i] = rank * 1000.0 + turn;
    MPI_Irecv(halo[2], count, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(halo[3], count, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(halo[0], count, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(halo[1], count, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++)
        if (halo[2][i] != left * 1000.0 + turn || halo[3][i] != right * 1000.0 + turn)
            wrong("halo");
}

static const struct {
    const char *name;
    void (*turn)(int);
} calls[] = {
    { "barrier", barrier }, { "allreduce", allreduce }, { "bcast", bcast },
    { "gather", gather },   { "alltoall", alltoall },   { "halo", exchange },
};

/* A line of /proc/self/smaps_rollup, in bytes. */
static double memory(const char *name) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %ld", &kib);
    if (file)
        fclose(file);
    return (double)kib * 1024;
}

static double descriptors(void) {
    double count = -3; /* itself, and the two names of folders */
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    given = malloc(sizeof(int) * 2 * size);
    taken = malloc(sizeof(int) * 2 * size);
    double mean[sizeof calls / sizeof *calls], slowest[sizeof calls / sizeof *calls];
    if (argc > 1 && strcmp(argv[1], "hello") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    for (size_t of = 0; of < sizeof calls / sizeof *calls; of++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double before = now_us();
        for (int turn = 0; turn < TURNS; turn++)
            calls[of].turn(turn);
        mean[of] = (now_us() - before) / TURNS;
    }
    MPI_Reduce(mean, slowest, sizeof calls / sizeof *calls, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double own[3] = { memory("Pss"), memory("Pss_Shmem"), descriptors() }, sums[3], most[3];
    MPI_Reduce(own, sums, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(own, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        for (size_t of = 0; of < sizeof calls / sizeof *calls; of++)
            printf("%s\"%s_us\":%.1f", of ? "," : "{", calls[of].name, slowest[of]);
        printf(",\"pss_bytes\":%.0f,\"shared_bytes\":%.0f,\"descriptors\":%.0f}\n", sums[0] / size, sums[1], most[2]);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
