/* Datatypes: made, sent, packed, and asked what they were made of. The last line of a good run is "ok". */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "check.h"

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

static void has(MPI_Status *status, MPI_Datatype of, int count, int elements, int line) {
    int found, parts;
    MPI_Count wide;
    MPI_Get_count(status, of, &found);
    MPI_Get_elements(status, of, &parts);
    MPI_Get_elements_c(status, of, &wide);
    check(found == count && parts == elements && wide == elements, "count and elements", line);
}

/* A pair is two elements, a complex number one, wherever it is; what is set is found. */
static void elements(void) {
    struct { double value; int place; } given[2] = {{1.5, 1}, {2.5, 2}}, taken[3];
    MPI_Datatype pair = MPI_DOUBLE_INT, mixed, nested, outer, large;
    MPI_Datatype parts[3] = {MPI_C_DOUBLE_COMPLEX, MPI_DOUBLE_INT, MPI_SHORT};
    int lengths[3] = {2, 1, 3};
    MPI_Aint places[3] = {0, 32, 48};
    MPI_Status status;
    shift(given, 2, pair, taken, 3, pair, &status);
    has(&status, pair, 2, 4, __LINE__);
    MPI_Type_create_struct(3, lengths, places, parts, &mixed);
    MPI_Type_contiguous(3, mixed, &nested);
    MPI_Type_create_resized(nested, 0, 1000, &outer);
    MPI_Type_commit(&outer);
    /* One of `mixed` is 2 complex numbers, 1 pair and 3 shorts: 7 elements in 50 bytes. */
    for (int i = 0; i <= 50; i++) {
        int found, bytes, whole = i / 7, rest = i % 7;
        MPI_Status_set_elements(&status, outer, i);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        int within[] = {0, 16, 32, 40, 44, 46, 48};
        CHECK(bytes == 50 * whole + within[rest]);
        MPI_Get_elements(&status, outer, &found);
        CHECK(found == i);
        MPI_Get_count(&status, outer, &found);
        CHECK(found == (i % 21 == 0 ? i / 21 : MPI_UNDEFINED));
    }
    MPI_Status_set_elements(&status, MPI_BYTE, 50 + 33);
    has(&status, outer, MPI_UNDEFINED, MPI_UNDEFINED, __LINE__);
    MPI_Type_contiguous_c((MPI_Count)1 << 40, mixed, &large);
    MPI_Count wide, all = 7 * ((MPI_Count)1 << 40);
    MPI_Status_set_elements_c(&status, large, all + 3);
    MPI_Get_elements_c(&status, large, &wide);
    CHECK(wide == all + 3);
    int narrow;
    MPI_Get_elements(&status, large, &narrow);
    CHECK(narrow == MPI_UNDEFINED);
    MPI_Type_free(&mixed), MPI_Type_free(&nested), MPI_Type_free(&outer), MPI_Type_free(&large);
}

/* Structures with a long double, and with pairs, end where C's do. */
static void aligned(void) {
    struct { long double value; int place; } one;
    struct { char kind; long double value[2]; short last; } two;
    struct { struct { double value; int place; } pair; double behind; } three;
    MPI_Datatype made, parts[3] = {MPI_LONG_DOUBLE, MPI_INT, MPI_SHORT};
    int lengths[3] = {1, 1, 1}, bytes;
    MPI_Aint lower, extent, places[3] = {0, (char *)&one.place - (char *)&one, 0};
    MPI_Type_get_extent(MPI_LONG_DOUBLE_INT, &lower, &extent);
    MPI_Type_size(MPI_LONG_DOUBLE_INT, &bytes);
    CHECK(lower == 0 && extent == sizeof one && bytes == sizeof(long double) + sizeof(int));
    MPI_Type_create_struct(2, lengths, places, parts, &made);
    MPI_Type_get_extent(made, &lower, &extent), MPI_Type_free(&made);
    CHECK(lower == 0 && extent == sizeof one);
    parts[0] = MPI_CHAR, parts[1] = MPI_LONG_DOUBLE, lengths[1] = 2;
    places[1] = (char *)two.value - (char *)&two, places[2] = (char *)&two.last - (char *)&two;
    MPI_Type_create_struct(3, lengths, places, parts, &made);
    MPI_Type_get_extent(made, &lower, &extent), MPI_Type_free(&made);
    CHECK(lower == 0 && extent == sizeof two);
    parts[0] = MPI_DOUBLE_INT, parts[1] = MPI_DOUBLE, lengths[1] = 1, places[1] = (char *)&three.behind - (char *)&three;
    MPI_Type_create_struct(2, lengths, places, parts, &made);
    MPI_Type_get_extent(made, &lower, &extent), MPI_Type_free(&made);
    CHECK(lower == 0 && extent == sizeof three);
}

/* What both MPICH and Open MPI reduce beside what the standard says. */
static void reduced(void) {
    wchar_t letter = (wchar_t)(L'a' + rank), last = 0;
    double place[2] = {rank % 2, rank}, found[2];
    long long truth = rank == 0 ? 2 : 0, any = 0;
    signed char none = 4, every = 0;
    MPI_Allreduce(&letter, &last, 1, MPI_WCHAR, MPI_MAX, MPI_COMM_WORLD);
    CHECK(last == (wchar_t)(L'a' + size - 1));
    MPI_Allreduce(place, found, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD);
    CHECK(found[0] == (size > 1) && found[1] == (size > 1));
    float near[2] = {-rank, rank}, least[2];
    MPI_Allreduce(near, least, 1, MPI_2REAL, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(least[0] == 1 - size && least[1] == size - 1);
    if (sizeof truth == 8) MPI_Allreduce(&truth, &any, 1, MPI_LOGICAL8, MPI_LOR, MPI_COMM_WORLD), CHECK(size == 1 || any == 1);
    MPI_Allreduce(&none, &every, 1, MPI_LOGICAL1, MPI_LAND, MPI_COMM_WORLD);
    CHECK(size == 1 || every == 1);
}

/* Elements that are sent in another order than they lie in, without a gap between them. */
static void reversed(void) {
    int lengths[3] = {1, 1, 1}, given[6] = {3, 2, 1, 6, 5, 4}, taken[6] = {0}, root[6], position = 0;
    MPI_Aint places[3] = {2 * sizeof(int), sizeof(int), 0}, extent, lower;
    MPI_Datatype parts[3] = {MPI_INT, MPI_INT, MPI_INT}, backwards;
    char packed[6 * sizeof(int)];
    MPI_Type_create_struct(3, lengths, places, parts, &backwards);
    MPI_Type_commit(&backwards);
    MPI_Type_get_extent(backwards, &lower, &extent);
    CHECK(extent == 3 * sizeof(int));
    shift(given, 2, backwards, taken, 6, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < 6; i++) CHECK(taken[i] == i + 1);
    memcpy(root, given, sizeof root);
    MPI_Bcast(root, rank == 0 ? 2 : 6, rank == 0 ? backwards : MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 6; i++) CHECK(root[i] == (rank == 0 ? given[i] : i + 1));
    MPI_Pack(given, 2, backwards, packed, sizeof packed, &position, MPI_COMM_WORLD);
    position = 0;
    MPI_Unpack(packed, sizeof packed, &position, taken, 6, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < 6; i++) CHECK(taken[i] == i + 1);
    MPI_Type_free(&backwards);
}

/* Numbers whose width in external32 is another than here (MPI 5.0, 14.5.2). */
static void external(void) {
    long given[2] = {-2, 0x01020304}, taken[2] = {0};
    const unsigned char expected[8] = {0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4};
    unsigned char packed[16];
    MPI_Aint bytes = 0, position = 0;
    MPI_Pack_external_size("external32", 2, MPI_LONG, &bytes);
    CHECK(bytes == 8);
    MPI_Pack_external("external32", given, 2, MPI_LONG, packed, sizeof packed, &position);
    CHECK(position == 8 && memcmp(packed, expected, 8) == 0);
    position = 0;
    MPI_Unpack_external("external32", packed, 8, &position, taken, 2, MPI_LONG);
    CHECK(taken[0] == given[0] && taken[1] == given[1]);
    MPI_Pack_external_size("external32", 2, MPI_INT64_T, &bytes);
    CHECK(bytes == 16);
    /* In messages both are the same. */
    shift(given, 2, MPI_LONG, taken, 2, MPI_INT64_T, MPI_STATUS_IGNORE);
    CHECK(taken[0] == given[0] && taken[1] == given[1]);
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

/* The part of an array that a process of a grid has. */
static void distributed(void) {
    int array[6][4], taken[6], sizes[2] = {6, 4}, ways[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, bytes;
    int each[2] = {1, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 2};
    MPI_Datatype part;
    for (int i = 0; i < 24; i++) array[i / 4][i % 4] = i;
    /* The process at (1, 0): every other row from the second on, the first half of it. */
    MPI_Type_create_darray(4, 2, 2, sizes, ways, each, grid, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_commit(&part);
    MPI_Type_size(part, &bytes);
    CHECK(bytes == 6 * (int)sizeof(int));
    shift(array, 1, part, taken, 6, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(taken[0] == 4 && taken[1] == 5 && taken[2] == 12 && taken[5] == 21);
    int integers, addresses, types, combiner, numbers[12];
    MPI_Datatype of;
    MPI_Type_get_envelope(part, &integers, &addresses, &types, &combiner);
    CHECK(integers == 12 && addresses == 0 && types == 1 && combiner == MPI_COMBINER_DARRAY);
    MPI_Type_get_contents(part, 12, 0, 1, numbers, NULL, &of);
    CHECK(numbers[1] == 2 && numbers[3] == 6 && numbers[5] == MPI_DISTRIBUTE_CYCLIC && numbers[9] == 2 && of == MPI_INT);
    MPI_Type_free(&part);
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* Types that are asked for by what they are to hold; errors are returned. */
static void asked_for(void) {
    MPI_Datatype one, other, none;
    int bytes, integers, addresses, types, combiner, numbers[2];
    MPI_Type_create_f90_real(6, 30, &one);
    MPI_Type_create_f90_real(6, 30, &other);
    MPI_Type_size(one, &bytes);
    CHECK(one == other && bytes == 4);
    MPI_Type_get_envelope(one, &integers, &addresses, &types, &combiner);
    CHECK(integers == 2 && addresses == 0 && types == 0 && combiner == MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(one, 2, 0, 0, numbers, NULL, NULL);
    CHECK(numbers[0] == 6 && numbers[1] == 30);
    MPI_Type_create_f90_complex(7, MPI_UNDEFINED, &other);
    MPI_Type_size(other, &bytes);
    CHECK(bytes == 16);
    MPI_Type_create_f90_integer(9, &other);
    MPI_Type_size(other, &bytes);
    CHECK(bytes == 4);
    CHECK(class_of(MPI_Type_create_f90_integer(40, &none)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_free(&one)) == MPI_ERR_TYPE);
    float given = rank + 1, taken = 0;
    shift(&given, 1, one, &taken, 1, one, MPI_STATUS_IGNORE);
    CHECK(taken == (rank + size - 1) % size + 1);
}

/* Places anywhere in memory, each by its address, behind MPI_BOTTOM. */
static void absolute(void) {
    static double far[2];
    static int taken_far[2];
    int near = 100 + rank, lengths[2] = {1, 2}, previous = (rank + size - 1) % size, place = 0;
    struct { int near, far[2]; } packed, all[2];
    MPI_Aint places[2];
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, given, taken, numbers;
    MPI_Request request;
    far[0] = 0.5, far[1] = 1.5 + rank;
    MPI_Get_address(&near, &places[0]);
    MPI_Get_address(far, &places[1]);
    MPI_Type_create_struct(2, lengths, places, parts, &given);
    MPI_Type_commit(&given);
    int taken_number = 0;
    double taken_far_doubles[2] = {0, 0};
    MPI_Get_address(&taken_number, &places[0]);
    MPI_Get_address(taken_far_doubles, &places[1]);
    MPI_Type_create_struct(2, lengths, places, parts, &taken);
    MPI_Type_commit(&taken);
    shift(MPI_BOTTOM, 1, given, MPI_BOTTOM, 1, taken, MPI_STATUS_IGNORE);
    CHECK(taken_number == 100 + previous && taken_far_doubles[0] == 0.5 && taken_far_doubles[1] == 1.5 + previous);
    taken_number = 0, taken_far_doubles[1] = 0;
    MPI_Irecv(MPI_BOTTOM, 1, taken, previous, 1, MPI_COMM_WORLD, &request);
    MPI_Send(MPI_BOTTOM, 1, given, (rank + 1) % size, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(taken_number == 100 + previous && taken_far_doubles[1] == 1.5 + previous);
    /* The same bytes of both sides of a broadcast, though at other addresses on each. */
    MPI_Bcast(MPI_BOTTOM, 1, rank == 0 ? given : taken, 0, MPI_COMM_WORLD);
    CHECK(rank == 0 || (taken_number == 100 && taken_far_doubles[1] == 1.5));
    MPI_Type_free(&taken);
    MPI_Type_free(&given);
    /* Packed, gathered from there, and scattered to there. */
    MPI_Get_address(&near, &places[0]);
    MPI_Get_address(taken_far, &places[1]);
    taken_far[0] = rank, taken_far[1] = -rank;
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &numbers);
    MPI_Type_commit(&numbers);
    MPI_Pack(MPI_BOTTOM, 1, numbers, &packed, sizeof packed, &place, MPI_COMM_WORLD);
    CHECK(place == sizeof packed && packed.near == near && packed.far[1] == -rank);
    if (size <= 2) {
        MPI_Gather(MPI_BOTTOM, 1, numbers, all, 3, MPI_INT, 0, MPI_COMM_WORLD);
        CHECK(rank != 0 || (all[size - 1].near == 99 + size && all[size - 1].far[1] == 1 - size));
        MPI_Scatter(all, 3, MPI_INT, MPI_BOTTOM, 1, numbers, 0, MPI_COMM_WORLD);
    }
    place = near = 0;
    MPI_Unpack(&packed, sizeof packed, &place, MPI_BOTTOM, 1, numbers, MPI_COMM_WORLD);
    CHECK(near == 100 + rank && taken_far[0] == rank);
    /* A null pointer with displacements from it is none with data. */
    CHECK(class_of(MPI_Send(NULL, 1, MPI_INT, rank, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    MPI_Type_free(&numbers);
}

static void first_of(void *in, void *into, int *count, MPI_Datatype *of) {
    (void)in, (void)into, (void)count, (void)of;
}

/* Elements that lie over each other are not reduced: there is no memory of their own for them. */
static void overlapping(void) {
    int matrix[16] = {0};
    MPI_Datatype column, narrow;
    MPI_Op op;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &narrow);
    MPI_Type_commit(&narrow);
    MPI_Op_create(first_of, 1, &op);
    CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, matrix, 4, narrow, op, MPI_COMM_SELF)) == MPI_ERR_TYPE);
    MPI_Op_free(&op);
    MPI_Type_free(&narrow);
    MPI_Type_free(&column);
}

/* Types with two names have the one to which the standard calls the other a synonym. */
static void named(void) {
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Type_get_name(MPI_LONG_LONG, name, &len);
    CHECK(strcmp(name, "MPI_LONG_LONG_INT") == 0 && len == 17);
    MPI_Type_get_name(MPI_C_FLOAT_COMPLEX, name, &len);
    CHECK(strcmp(name, "MPI_C_COMPLEX") == 0 && len == 13);
    MPI_Type_get_name(MPI_LONG, name, &len);
    CHECK(strcmp(name, "MPI_LONG") == 0);
}

int main(int argc, char **argv) {
    int all, code;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    named();
    elements();
    aligned();
    reduced();
    structures();
    reversed();
    external();
    columns();
    distributed();
    /* What is sent as one type and received as another is told. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    asked_for();
    overlapping();
    absolute();
    float number = 1;
    int other = (rank + 1) % size, taken;
    MPI_Request request;
    MPI_Isend(&number, 1, MPI_FLOAT, other, 4, MPI_COMM_WORLD, &request);
    code = MPI_Recv(&taken, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TYPE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
