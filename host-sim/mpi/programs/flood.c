/* Rank 1 sends as fast as it can while rank 0 makes progress and receives nothing: rank 0 must not grow by it. Then rank 0 receives
   everything. Says how much memory rank 0 took, over any implementation of MPI on Linux; with the argument "any" it does not judge. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define MESSAGES 200000
#define BYTES 1024
#define SECONDS 1.0
#define GROWTH_MAX_KIB 4096

/* The most memory that this process ever had, in KiB. */
static long peak(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
    if (status != NULL) fclose(status);
    return kib;
}

/* Makes progress for a while; its memory grows by so many KiB. */
static long flooded(void) {
    long before = peak();
    int flag;
    double start = MPI_Wtime();
    while (MPI_Wtime() - start < SECONDS) MPI_Iprobe(1, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return peak() - before;
}

int main(int argc, char **argv) {
    static int data[BYTES / sizeof(int)];
    int rank, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        long growth = flooded();
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Recv(data, BYTES / sizeof(int), MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            wrong += data[0] != i;
        }
        int judges = argc < 2 || strcmp(argv[1], "any") != 0;
        if (wrong > 0) printf("%d messages came out of order\n", wrong);
        else if (judges && growth > GROWTH_MAX_KIB) printf("grew by %ld KiB\n", growth), wrong = 1;
        else printf("ok, grew by %ld KiB\n", growth);
    } else if (rank == 1) {
        for (int i = 0; i < MESSAGES; i++) {
            data[0] = i;
            MPI_Send(data, BYTES / sizeof(int), MPI_INT, 0, 1, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return wrong > 0;
}
