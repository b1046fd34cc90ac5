/* Who hears of errors, and what a call that fails leaves behind. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>

#include "check.h"

static int heard;
static MPI_Comm by;

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)code;
    by = *comm;
    heard++;
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* A message longer than its buffer, which the right rank and tag are told of. */
static void truncated(void) {
    int data[2] = {1, 2}, into[4] = {0}, left = (rank + size - 1) % size, right = (rank + 1) % size, count, done;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    MPI_Irecv(&into[0], 1, MPI_INT, left, 10, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&into[1], 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&into[2], 1, MPI_INT, left, 12, MPI_COMM_WORLD, &requests[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(data, 1, MPI_INT, right, 10, MPI_COMM_WORLD);
    MPI_Send(data, 2, MPI_INT, right, 11, MPI_COMM_WORLD);
    MPI_Send(data, 2, MPI_INT, right, 12, MPI_COMM_WORLD);
    /* Which of them are over at a time is nobody's promise. */
    for (int i = 0; i < 3; i++) statuses[i].MPI_ERROR = MPI_ERR_PENDING;
    CHECK(MPI_Waitall(2, requests, statuses) == MPI_ERR_IN_STATUS);
    CHECK(statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == 10 && statuses[0].MPI_ERROR == MPI_SUCCESS);
    MPI_Get_count(&statuses[0], MPI_INT, &count);
    CHECK(count == 1);
    CHECK(statuses[1].MPI_SOURCE == left && statuses[1].MPI_TAG == 11 && class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    CHECK(class_of(MPI_Waitany(1, &requests[2], &done, &statuses[2])) == MPI_ERR_TRUNCATE);
    CHECK(statuses[2].MPI_SOURCE == left && statuses[2].MPI_TAG == 12 && requests[2] == MPI_REQUEST_NULL);
}

/* The same of calls that wait by themselves, and of messages of which only part is there at first. */
static void cut_short(void) {
    static char data[1 << 20], into[1 << 20];
    int left = (rank + size - 1) % size, right = (rank + 1) % size, count;
    int most[] = {2, 4000, 1 << 20};
    MPI_Request request;
    MPI_Message message;
    for (int i = 0; i < 12; i++) {
        int error, bytes = most[i % 3];
        MPI_Status status = {.MPI_SOURCE = -77, .MPI_TAG = -77, .MPI_ERROR = -77};
        into[bytes / 2] = 'x';
        MPI_Isend(data, bytes, MPI_CHAR, i / 3 < 2 ? right : MPI_PROC_NULL, 20, MPI_COMM_WORLD, &request);
        switch (i / 3) {
        case 0:
            error = MPI_Recv(into, bytes / 2, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            break;
        case 1:
            MPI_Mprobe(left, 20, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            error = MPI_Mrecv(into, bytes / 2, MPI_CHAR, &message, &status);
            break;
        case 2:
            error = MPI_Sendrecv(data, bytes, MPI_CHAR, right, 20, into, bytes / 2, MPI_CHAR, left, 20, MPI_COMM_WORLD, &status);
            break;
        default:
            error = MPI_Sendrecv_replace(into, rank == 0 ? bytes : bytes / 2, MPI_CHAR, right, 20, left, 20, MPI_COMM_WORLD, &status);
            if (rank != 1 % size || size == 1) error = MPI_ERR_TRUNCATE, status.MPI_SOURCE = left, status.MPI_TAG = 20;
        }
        CHECK(class_of(error) == MPI_ERR_TRUNCATE && (into[bytes / 2] == 'x' || i / 3 == 3));
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 20 && (i / 3 == 3 || status.MPI_ERROR == -77));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        /* What comes behind it is whole. */
        MPI_Sendrecv(&rank, 1, MPI_INT, right, 20, &count, 1, MPI_INT, left, 20, MPI_COMM_WORLD, &status);
        CHECK(count == left);
    }
    MPI_Status untouched = {.MPI_SOURCE = -77, .MPI_TAG = -77};
    CHECK(class_of(MPI_Recv(data, -1, MPI_CHAR, left, 0, MPI_COMM_WORLD, &untouched)) == MPI_ERR_COUNT);
    CHECK(untouched.MPI_SOURCE == -77 && untouched.MPI_TAG == -77);
}

/* A block of the root's that is too long: the others' calls, and what comes next, are as they were. */
static void too_long(void) {
    int own[10] = {0}, all[64], one = 1, sum = 0;
    int code = MPI_Gather(own, 10, MPI_INT, all, rank == 0 ? 1 : 10, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(rank != 0 || class_of(code) == MPI_ERR_TRUNCATE);
    CHECK(MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS && (rank != 0 || sum == size));
}

/* A communicator that is not made is none. */
static void nothing_made(void) {
    MPI_Comm made[5] = {MPI_COMM_WORLD, MPI_COMM_WORLD, MPI_COMM_WORLD, MPI_COMM_WORLD, MPI_COMM_WORLD};
    int dims[1] = {size + 1}, periods[1] = {0};
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, -7, 0, &made[0]) != MPI_SUCCESS && made[0] == MPI_COMM_NULL);
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made[1]) != MPI_SUCCESS && made[1] == MPI_COMM_NULL);
    CHECK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &made[2]) != MPI_SUCCESS && made[2] == MPI_COMM_NULL);
    CHECK(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &made[3]) != MPI_SUCCESS && made[3] == MPI_COMM_NULL);
    MPI_Request request;
    MPI_Comm copies[2] = {MPI_COMM_WORLD, MPI_COMM_WORLD};
    CHECK(MPI_Comm_idup(MPI_COMM_NULL, &copies[0], &request) != MPI_SUCCESS && copies[0] == MPI_COMM_NULL);
    CHECK(MPI_Comm_idup_with_info(MPI_COMM_NULL, MPI_INFO_NULL, &copies[1], &request) != MPI_SUCCESS && copies[1] == MPI_COMM_NULL);
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, 12345, 0, MPI_INFO_NULL, &made[4]) != MPI_SUCCESS && made[4] == MPI_COMM_NULL);
}

/* Names that MPI 3.0 removed: the library has them, for programs that have not followed. */
int MPI_Address(void *, MPI_Aint *);
int MPI_Errhandler_create(MPI_Comm_errhandler_function *, MPI_Errhandler *);
int MPI_Errhandler_get(MPI_Comm, MPI_Errhandler *);
int MPI_Errhandler_set(MPI_Comm, MPI_Errhandler);
int MPI_Type_extent(MPI_Datatype, MPI_Aint *);
int MPI_Type_hindexed(int, int *, MPI_Aint *, MPI_Datatype, MPI_Datatype *);
int MPI_Type_hvector(int, int, MPI_Aint, MPI_Datatype, MPI_Datatype *);
int MPI_Type_lb(MPI_Datatype, MPI_Aint *);
int MPI_Type_struct(int, int *, MPI_Aint *, MPI_Datatype *, MPI_Datatype *);
int MPI_Type_ub(MPI_Datatype, MPI_Aint *);

static void removed(void) {
    struct { int number; double value; } pair;
    int lengths[2] = {1, 1};
    MPI_Aint places[2], extent, lower, upper;
    MPI_Datatype kinds[2] = {MPI_INT, MPI_DOUBLE}, made;
    MPI_Errhandler own, before;
    MPI_Comm other;
    MPI_Address(&pair.number, &places[0]);
    MPI_Address(&pair.value, &places[1]);
    places[1] -= places[0], places[0] = 0;
    MPI_Type_struct(2, lengths, places, kinds, &made);
    MPI_Type_extent(made, &extent), MPI_Type_lb(made, &lower), MPI_Type_ub(made, &upper);
    CHECK(extent == sizeof pair && lower == 0 && upper == extent);
    MPI_Type_free(&made);
    MPI_Type_hvector(2, 1, 12, MPI_INT, &made), MPI_Type_extent(made, &extent), MPI_Type_free(&made);
    CHECK(extent == 16);
    places[0] = 4, places[1] = 16;
    MPI_Type_hindexed(2, lengths, places, MPI_INT, &made), MPI_Type_lb(made, &lower), MPI_Type_ub(made, &upper);
    CHECK(lower == 4 && upper == 20);
    MPI_Type_free(&made);
    CHECK(class_of(MPI_Type_extent(MPI_DATATYPE_NULL, &extent)) == MPI_ERR_TYPE);
    MPI_Comm_dup(MPI_COMM_SELF, &other);
    MPI_Errhandler_create(hear, &own);
    MPI_Errhandler_set(other, own), MPI_Errhandler_get(other, &before);
    CHECK(before == own && class_of(MPI_Send(lengths, 1, MPI_INT, 5, 0, other)) == MPI_ERR_RANK && heard == 1);
    heard = 0;
    MPI_Errhandler_free(&own), MPI_Errhandler_free(&before), MPI_Comm_free(&other);
}

int main(void) {
    int all = 0;
    MPI_Errhandler own;
    MPI_Comm freed, early;
    MPI_Group group;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &early);
    MPI_Comm_group(early, &group);
    /* World's handler alone is given: it hears of errors of no communicator. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Type_contiguous(-1, MPI_INT, &(MPI_Datatype){MPI_DATATYPE_NULL})) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &all)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Barrier(MPI_COMM_NULL)) == MPI_ERR_COMM);
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    MPI_Comm copy = freed;
    MPI_Comm_free(&freed);
    CHECK(class_of(MPI_Barrier(copy)) == MPI_ERR_COMM);
    int data[3] = {1, 2, 3};
    CHECK(class_of(MPI_Reduce_local(data, &data[1], 2, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER && data[1] == 2);
    CHECK(MPI_Reduce_local(data, &data[1], 1, MPI_INT, MPI_SUM) == MPI_SUCCESS && data[1] == 3);
    /* An argument that cannot be, on communicators with the handler that all begin with. */
    CHECK(class_of(MPI_Comm_create(early, group, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_create_group(early, group, 0, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_split(early, 0, 0, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_split_type(early, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_range_incl(group, 1, (int[1][3]){{1, 0, 1}}, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_range_excl(group, 1, (int[1][3]){{1, 0, 1}}, NULL)) == MPI_ERR_ARG);
    MPI_Group_free(&group);
    MPI_Comm_free(&early);
    removed();
    truncated();
    cut_short();
    too_long();
    nothing_made();
    /* Once self has one that was given, it is that. */
    MPI_Comm_create_errhandler(hear, &own);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, own);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &all)) == MPI_ERR_GROUP && heard == 1 && by == MPI_COMM_SELF);
    CHECK(class_of(MPI_Send(&all, 1, MPI_INT, size, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK && heard == 1);
    MPI_Errhandler_free(&own);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
