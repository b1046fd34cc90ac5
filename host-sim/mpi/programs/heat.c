/* Heat on a plate that is cut into strips, one a rank: each step exchanges the strips' edges. The sum of all cells is compared with
 * that of the same plate computed by one rank.
 *   aldis-mpicc -O2 heat.c -o heat && aldis-mpiexec -n 4 ./heat */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 64, HEIGHT = 64, STEPS = 200 };

/* Takes `rows` rows between two edges through the steps. */
static double solve(int rows, int first, MPI_Comm comm, int above, int below) {
    double *now = calloc((size_t)(rows + 2) * WIDTH, sizeof *now);
    double *next = calloc((size_t)(rows + 2) * WIDTH, sizeof *next);
    if (now == NULL || next == NULL) MPI_Abort(comm, 1);
    for (int y = 1; y <= rows; y++)
        for (int x = 0; x < WIDTH; x++) now[y * WIDTH + x] = (first + y - 1) * 0.5 + x % 7;
    for (int step = 0; step < STEPS; step++) {
        MPI_Request requests[4];
        MPI_Irecv(now, WIDTH, MPI_DOUBLE, above, 0, comm, &requests[0]);
        MPI_Irecv(now + (rows + 1) * WIDTH, WIDTH, MPI_DOUBLE, below, 1, comm, &requests[1]);
        MPI_Isend(now + rows * WIDTH, WIDTH, MPI_DOUBLE, below, 0, comm, &requests[2]);
        MPI_Isend(now + WIDTH, WIDTH, MPI_DOUBLE, above, 1, comm, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int y = 1; y <= rows; y++)
            for (int x = 0; x < WIDTH; x++) {
                int west = x == 0 ? x : x - 1, east = x == WIDTH - 1 ? x : x + 1;
                next[y * WIDTH + x] = 0.25 * (now[(y - 1) * WIDTH + x] + now[(y + 1) * WIDTH + x]
                                              + now[y * WIDTH + west] + now[y * WIDTH + east]);
            }
        double *old = now;
        now = next;
        next = old;
    }
    double sum = 0;
    for (int cell = WIDTH; cell < (rows + 1) * WIDTH; cell++) sum += now[cell];
    free(now);
    free(next);
    return sum;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (HEIGHT % size != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    int rows = HEIGHT / size;
    int above = rank == 0 ? MPI_PROC_NULL : rank - 1, below = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
    double own = solve(rows, rank * rows, MPI_COMM_WORLD, above, below), all;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    int differs = 0;
    if (rank == 0) {
        double alone = solve(HEIGHT, 0, MPI_COMM_SELF, MPI_PROC_NULL, MPI_PROC_NULL);
        differs = fabs(all - alone) > 1e-6 * fabs(alone);
        printf("%d strips: %.6f, uncut %.6f\n", size, all, alone);
    }
    MPI_Bcast(&differs, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return differs;
}
