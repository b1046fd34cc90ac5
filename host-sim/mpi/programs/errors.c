/* Programs that go wrong, each as its argument says: under MPI_ERRORS_ARE_FATAL the job ends with what is wrong. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank;
    long long data = 0;
    const char *what = argc > 1 ? argv[1] : "";
    /* Of a process without MPI_Init: the initial error handler hears of it. */
    if (strcmp(what, "early") == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(what, "rank") == 0 && rank == 0) MPI_Send(&data, 1, MPI_LONG_LONG, 7, 0, MPI_COMM_WORLD);
    if (strcmp(what, "freed") == 0) {
        MPI_Comm one, same;
        MPI_Comm_dup(MPI_COMM_WORLD, &one);
        same = one;
        MPI_Comm_free(&one);
        MPI_Barrier(same);
    }
    if (strcmp(what, "truncated") == 0) {
        if (rank == 0) MPI_Send(&data, 1, MPI_LONG_LONG, 1, 0, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(&data, 4, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (strcmp(what, "unsupported") == 0) {
        MPI_Win window;
        MPI_Win_create(&data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    /* Nobody comes further in a job that ends. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
