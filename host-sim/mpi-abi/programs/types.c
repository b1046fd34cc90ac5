/* Datatypes: made, sent, packed, and asked what they were made of. The last line of a good run is "ok". */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int failures, rank, size;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int holds, const char *condition, int line) {
    if (holds) return;
    printf("rank %d, line %d: %s\n", rank, line, condition);
    failures++;
}

struct particle {
    char kind;
    double place[3];
    int number;
};

/* Sends to the next rank, and receives from the one before. */
static void shift(const void *given, int gives, MPI_Datatype of, void *taken, int takes, MPI_Datatype to, MPI_Status *status) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Sendrecv(given, gives, of, next, 0, taken, takes, to, previous, 0, MPI_COMM_WORLD, status);
}

static void structures(void) {
    int lengths[3] = {1, 3, 1}, count, elements;
    MPI_Aint places[3] = {offsetof(struct particle, kind), offsetof(struct particle, place), offsetof(struct particle, number)};
    MPI_Datatype parts[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, plain, particle;
    struct particle given[5], taken[5];
    MPI_Aint lower, extent;
    MPI_Status status;
    MPI_Type_create_struct(3, lengths, places, parts, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct particle), &particle);
    MPI_Type_commit(&particle);
    MPI_Type_get_extent(particle, &lower, &extent);
    CHECK(lower == 0 && extent == (MPI_Aint)sizeof(struct particle));
    memset(taken, 0, sizeof taken);
    for (int i = 0; i < 5; i++) given[i] = (struct particle){'a' + i, {i, rank, 0.5}, 10 * i};
    shift(given, 3, particle, taken, 5, particle, &status);
    MPI_Get_count(&status, particle, &count);
    MPI_Get_elements(&status, particle, &elements);
    CHECK(count == 3 && elements == 15);
    CHECK(taken[2].kind == 'c' && taken[2].place[1] == (rank + size - 1) % size && taken[2].number == 20 && taken[3].number == 0);
    int integers, addresses, types, combiner, numbers[4];
    MPI_Aint found[3];
    MPI_Datatype made_of[3];
    MPI_Type_get_envelope(plain, &integers, &addresses, &types, &combiner);
    CHECK(integers == 4 && addresses == 3 && types == 3 && combiner == MPI_COMBINER_STRUCT);
    MPI_Type_get_contents(plain, 4, 3, 3, numbers, found, made_of);
    CHECK(numbers[0] == 3 && numbers[2] == 3 && found[2] == places[2] && made_of[1] == MPI_DOUBLE);
    MPI_Type_free(&plain);
    MPI_Type_free(&particle);
}

static void columns(void) {
    int matrix[4][4], taken[4], sizes[2] = {4, 4}, parts[2] = {2, 2}, starts[2] = {1, 2}, bytes, position = 0;
    char stream[64];
    MPI_Datatype column, corner;
    MPI_Status status;
    for (int i = 0; i < 16; i++) matrix[i / 4][i % 4] = 100 * rank + i;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    shift(&matrix[0][1], 1, column, taken, 4, MPI_INT, &status);
    CHECK(taken[0] % 100 == 1 && taken[3] % 100 == 13);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &corner);
    MPI_Type_commit(&corner);
    MPI_Type_size(corner, &bytes);
    CHECK(bytes == 16);
    MPI_Pack(matrix, 1, corner, stream, sizeof stream, &position, MPI_COMM_SELF);
    CHECK(position == 16);
    position = 0;
    MPI_Unpack(stream, sizeof stream, &position, taken, 4, MPI_INT, MPI_COMM_SELF);
    CHECK(taken[0] == 100 * rank + 6 && taken[3] == 100 * rank + 11);
    if (rank != 0) memset(matrix, 0, sizeof matrix);
    MPI_Bcast(matrix, 1, corner, 0, MPI_COMM_WORLD);
    CHECK(matrix[1][2] == 6 && matrix[2][3] == 11 && (rank == 0 || matrix[0][0] == 0));
    MPI_Type_free(&column);
    MPI_Type_free(&corner);
}

int main(int argc, char **argv) {
    int all, code, class;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    structures();
    columns();
    /* What is sent as one type and received as another is told. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    float number = 1;
    int other = (rank + 1) % size, taken;
    MPI_Request request;
    MPI_Isend(&number, 1, MPI_FLOAT, other, 4, MPI_COMM_WORLD, &request);
    code = MPI_Recv(&taken, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TYPE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
