/* Half of a round trip of small messages between two ranks.
 *   aldis-mpicc -O2 pingpong.c -o pingpong && aldis-mpiexec -n 2 ./pingpong */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20000, WARM = 2000, LARGEST = 4096 };

int main(int argc, char **argv) {
    int rank, size;
    static char data[LARGEST];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        if (rank == 0) fprintf(stderr, "two ranks are needed\n");
        MPI_Finalize();
        return EXIT_FAILURE;
    }
    for (int bytes = 8; bytes <= LARGEST; bytes *= 8) {
        double start = 0;
        for (int round = -WARM; round < ROUNDS; round++) {
            if (round == 0) start = MPI_Wtime();
            if (rank == 0) {
                MPI_Send(data, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(data, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(data, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(data, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            }
        }
        if (rank == 0) printf("%d bytes: %.0f ns one way\n", bytes, (MPI_Wtime() - start) / ROUNDS / 2 * 1e9);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
