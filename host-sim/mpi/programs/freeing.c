/* Communicators that are freed while something uses them, and by ranks that do not wait for each other, checked on every rank. The
   last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

enum { ROUNDS = 1500, LONG = 1 << 18 };

static int right, left;

#define WORLD MPI_COMM_WORLD

static MPI_Comm copy(void) {
    MPI_Comm made;
    MPI_Comm_dup(WORLD, &made);
    return made;
}

/* Communicators that take the slots of freed ones, with messages that would meet any receive. */
static void churn(void) {
    MPI_Comm others[3];
    int in = -1, out = 12345;
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(WORLD, &others[i]);
        MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, others[i], MPI_STATUS_IGNORE);
        CHECK(in == out);
    }
    for (int i = 0; i < 3; i++) MPI_Comm_free(&others[i]);
}

static void is_gone(MPI_Comm freed) {
    int number, error;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    error = MPI_Comm_size(freed, &number);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    CHECK(error != MPI_SUCCESS);
}

/* Two ranks, two communicators, two orders. */
static void opposite(void) {
    MPI_Comm one = copy(), other = copy();
    MPI_Comm_free(rank % 2 ? &one : &other);
    MPI_Comm_free(rank % 2 ? &other : &one);
    CHECK(one == MPI_COMM_NULL && other == MPI_COMM_NULL);
}

/* Some free before a barrier, the others behind it. */
static void before_barrier(void) {
    for (int first = 0; first < size; first++) {
        MPI_Comm comm = copy();
        if (rank == first) MPI_Comm_free(&comm);
        MPI_Barrier(WORLD);
        if (rank != first) MPI_Comm_free(&comm);
    }
}

/* Receives that are posted when their communicator is freed, and messages that come when the sender still has it. */
static void receives(void) {
    static int in[4][LONG], out[LONG];
    MPI_Comm comm = copy(), old = comm;
    MPI_Request requests[4];
    MPI_Status status;
    for (int i = 0; i < LONG; i++) out[i] = rank + i;
    MPI_Irecv(in[0], LONG, MPI_INT, left, 1, comm, &requests[0]);
    MPI_Irecv(in[1], LONG, MPI_INT, MPI_ANY_SOURCE, 2, comm, &requests[1]);
    MPI_Recv_init(in[2], LONG, MPI_INT, left, 3, comm, &requests[2]);
    MPI_Start(&requests[2]);
    MPI_Recv_init(in[3], 1, MPI_INT, left, 4, comm, &requests[3]);
    if (rank % 2 == 0) {
        MPI_Comm_free(&comm);
        is_gone(old);
        MPI_Start(&requests[3]);
    }
    churn();
    if (rank % 2 == 0) {
        /* What it sends goes by requests of before. */
        CHECK(comm == MPI_COMM_NULL);
    }
    MPI_Barrier(WORLD);
    if (rank % 2 == 1) {
        MPI_Send(out, LONG, MPI_INT, right, 1, comm);
        MPI_Ssend(out, 1, MPI_INT, right, 2, comm);
        MPI_Send(out, LONG, MPI_INT, right, 3, comm);
        MPI_Send(out, 1, MPI_INT, right, 4, comm);
    }
    for (int i = 0; i < 4; i++) {
        if (rank % 2 == 0 && left % 2 == 1) {
            MPI_Wait(&requests[i], &status);
            CHECK(in[i][0] == left && status.MPI_SOURCE == left);
            if (i % 2 == 0) CHECK(in[i][LONG - 1] == left + LONG - 1);
        } else if (requests[i] != MPI_REQUEST_NULL && !(rank % 2 && i == 3)) {
            MPI_Cancel(&requests[i]);
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
    }
    for (int i = 2; i < 4; i++) MPI_Request_free(&requests[i]);
    if (rank % 2 == 1) MPI_Comm_free(&comm);
}

/* Sends, kept, partitioned and matched messages, all started before or after the communicator is gone on all ranks. */
static void messages(void) {
    static int in[3][LONG], out[3][LONG];
    int matched = -1, word = rank, flag = 0;
    MPI_Comm comm = copy();
    MPI_Request requests[6], probed;
    MPI_Message message;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < LONG; j++) out[i][j] = rank + i + j, in[i][j] = -1;
    MPI_Isend(&word, 1, MPI_INT, right, 9, comm, &probed);
    MPI_Mprobe(left, 9, comm, &message, MPI_STATUS_IGNORE);
    MPI_Irecv(in[0], LONG, MPI_INT, left, 1, comm, &requests[0]);
    MPI_Recv_init(in[1], LONG, MPI_INT, left, 2, comm, &requests[1]);
    MPI_Precv_init(in[2], 2, LONG / 2, MPI_INT, left, 3, comm, MPI_INFO_NULL, &requests[2]);
    MPI_Isend(out[0], LONG, MPI_INT, right, 1, comm, &requests[3]);
    MPI_Send_init(out[1], LONG, MPI_INT, right, 2, comm, &requests[4]);
    MPI_Psend_init(out[2], 2, LONG / 2, MPI_INT, right, 3, comm, MPI_INFO_NULL, &requests[5]);
    MPI_Comm_free(&comm);
    churn();
    MPI_Mrecv(&matched, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(matched == left);
    MPI_Wait(&probed, MPI_STATUS_IGNORE);
    for (int round = 0; round < 2; round++) {
        MPI_Start(&requests[1]), MPI_Start(&requests[2]), MPI_Start(&requests[4]), MPI_Start(&requests[5]);
        MPI_Pready(0, requests[5]), MPI_Pready(1, requests[5]);
        MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 3; i++) CHECK(in[i][0] == left + i && in[i][LONG - 1] == left + i + LONG - 1);
        churn();
    }
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    CHECK(flag && requests[0] == MPI_REQUEST_NULL);
    MPI_Request_free(&requests[1]), MPI_Request_free(&requests[2]), MPI_Request_free(&requests[4]), MPI_Request_free(&requests[5]);
}

/* Collectives under way, kept ones, and copies that are made of what is freed. */
static void collectives(void) {
    int sum = 0, kept = 0, word = rank == 0 ? 77 : 0, *all = malloc(size * sizeof(int));
    int pair = 1, sums = size * (size - 1) / 2;
    MPI_Comm comm = copy(), made;
    MPI_Request requests[6];
    MPI_Ibarrier(comm, &requests[0]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
    MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &requests[2]);
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm, &requests[3]);
    MPI_Comm_idup(comm, &made, &requests[4]);
    MPI_Allreduce_init(&rank, &kept, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[5]);
    MPI_Comm_free(&comm);
    if (rank % 2) churn();
    MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
    if (rank % 2 == 0) churn();
    CHECK(sum == sums && word == 77 && all[size - 1] == size - 1);
    for (int round = 0; round < 3; round++) {
        kept = 0;
        MPI_Start(&requests[5]);
        MPI_Wait(&requests[5], MPI_STATUS_IGNORE);
        CHECK(kept == sums);
        churn();
    }
    MPI_Request_free(&requests[5]);
    MPI_Allreduce(MPI_IN_PLACE, &pair, 1, MPI_INT, MPI_SUM, made);
    CHECK(pair == size);
    MPI_Comm_disconnect(&made);
    CHECK(made == MPI_COMM_NULL);
    free(all);
}

/* Over a topology, and over two groups. */
static void other_kinds(void) {
    int period = 1, in[2] = {-1, -1}, out[2] = {rank, rank}, kept[2] = {-1, -1}, sum = 0, others = 0;
    MPI_Comm ring, half, between;
    MPI_Request requests[4];
    MPI_Cart_create(WORLD, 1, &size, &period, 0, &ring);
    MPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring, &requests[0]);
    MPI_Neighbor_allgather_init(&rank, 1, MPI_INT, kept, 1, MPI_INT, ring, MPI_INFO_NULL, &requests[1]);
    MPI_Comm_free(&ring);
    churn();
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(in[0] == left && in[1] == right && kept[0] == left && kept[1] == right);
    MPI_Request_free(&requests[1]);
    if (size == 1) return;
    MPI_Comm_split(WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, WORLD, 1 - rank % 2, 4, &between);
    MPI_Comm_free(&half);
    for (int i = 1 - rank % 2; i < size; i += 2) others += i;
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, between, &requests[2]);
    MPI_Ibarrier(between, &requests[3]);
    MPI_Comm_free(&between);
    churn();
    MPI_Waitall(2, &requests[2], MPI_STATUSES_IGNORE);
    CHECK(sum == others);
}

/* A root that does not wait goes on to other communicators, with some of the ranks, before the others have read what it said; more
   often than there are communicators at a time. */
static void ahead(void) {
    int few[2] = {0, size - 1}, is_among = rank == 0 || rank == size - 1;
    MPI_Group all, pair;
    MPI_Comm_group(WORLD, &all);
    MPI_Group_incl(all, size > 1 ? 2 : 1, few, &pair);
    for (int round = 0; round < ROUNDS; round++) {
        int word = rank == 0 ? round : -1, other = -1, token = 0;
        MPI_Comm comm = copy(), among;
        if (rank == 0) {
            MPI_Bcast(&word, 1, MPI_INT, 0, comm);
            MPI_Comm_free(&comm);
        }
        /* Those between come to the broadcast when the others are done with the next communicator. */
        if (rank == size - 1 && size > 1) MPI_Bcast(&word, 1, MPI_INT, 0, comm), MPI_Comm_free(&comm);
        if (is_among) {
            MPI_Comm_create_group(WORLD, pair, 5, &among);
            other = rank == 0 ? -round : 0;
            MPI_Bcast(&other, 1, MPI_INT, 0, among);
            CHECK(other == -round);
            MPI_Comm_free(&among);
        }
        if (rank == 0)
            for (int i = 1; i < size - 1; i++) MPI_Send(&token, 1, MPI_INT, i, 7, WORLD);
        if (!is_among) {
            MPI_Recv(&token, 1, MPI_INT, 0, 7, WORLD, MPI_STATUS_IGNORE);
            MPI_Bcast(&word, 1, MPI_INT, 0, comm);
            MPI_Comm_free(&comm);
        }
        CHECK(word == round);
    }
    MPI_Group_free(&all), MPI_Group_free(&pair);
}

/* A root frees before the others have read, and looks again when these have gone on to communicators without it. */
static void behind(void) {
    int first = 0, token = 0;
    MPI_Group all, rest;
    MPI_Comm_group(WORLD, &all);
    MPI_Group_excl(all, 1, &first, &rest);
    for (int round = 0; round < ROUNDS; round++) {
        int word = rank == 0 ? round : -1;
        MPI_Comm comm = copy(), among;
        if (rank > 0) MPI_Recv(&token, 1, MPI_INT, 0, 8, WORLD, MPI_STATUS_IGNORE);
        MPI_Bcast(&word, 1, MPI_INT, 0, comm);
        MPI_Comm_free(&comm);
        CHECK(word == round);
        if (rank > 0) {
            MPI_Comm_create_group(WORLD, rest, 6, &among);
            MPI_Bcast(&word, 1, MPI_INT, 0, among);
            MPI_Comm_free(&among);
        } else {
            for (int i = 1; i < size; i++) MPI_Send(&token, 1, MPI_INT, i, 8, WORLD);
        }
        MPI_Barrier(WORLD);
    }
    MPI_Group_free(&all), MPI_Group_free(&rest);
}

static int told;

static void tell(MPI_Comm *comm, int *code, ...) {
    int class;
    (void)comm;
    MPI_Error_class(*code, &class);
    told += class == MPI_ERR_TRUNCATE;
}

/* The error handler of a communicator hears of what fails on it when both are freed. */
static void handlers(void) {
    int in, out[2] = {1, 2};
    MPI_Errhandler handler;
    MPI_Comm comm = copy();
    MPI_Request request;
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Irecv(&in, 1, MPI_INT, left, 1, comm, &request);
    MPI_Send(out, 2, MPI_INT, right, 1, comm);
    MPI_Comm_free(&comm);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    CHECK(told == 1);
}

static int deleted;

/* Frees the key that it is of, as whoever made it may. */
static int delete_key(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)value, (void)extra;
    deleted++;
    return MPI_Comm_free_keyval(&key);
}

static int refuse_type(MPI_Datatype type, int key, void *extra, void *value, void *copy, int *flag) {
    (void)type, (void)key, (void)extra, (void)value, (void)copy, (void)flag;
    return MPI_ERR_OTHER;
}

static int is_stubborn;

static int stay(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return is_stubborn ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int stay_with_type(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type;
    return stay(WORLD, key, value, extra);
}

/* What a delete function refuses to free stays, with the attribute. */
static void kept(void) {
    int key, type_key, value = 7, flag, *found;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Comm_dup(WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stay, &key, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, stay_with_type, &type_key, NULL);
    MPI_Comm_set_attr(comm, key, &value);
    MPI_Type_set_attr(type, type_key, &value);
    is_stubborn = 1;
    CHECK(MPI_Comm_free(&comm) != MPI_SUCCESS && comm != MPI_COMM_NULL);
    CHECK(MPI_Type_free(&type) != MPI_SUCCESS && type != MPI_DATATYPE_NULL);
    is_stubborn = 0;
    CHECK(MPI_Comm_get_attr(comm, key, &found, &flag) == MPI_SUCCESS && flag && found == &value);
    CHECK(MPI_Type_get_attr(type, type_key, &found, &flag) == MPI_SUCCESS && flag && found == &value);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
    CHECK(MPI_Type_free(&type) == MPI_SUCCESS && type == MPI_DATATYPE_NULL);
    MPI_Comm_free_keyval(&key);
    MPI_Type_free_keyval(&type_key);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* A key that objects have is freed by several, and goes with the last of its attributes. */
static void keys(void) {
    int key, same, value = 7, flag, *found;
    MPI_Comm one, other;
    MPI_Datatype type, copy = MPI_INT;
    MPI_Comm_dup(WORLD, &one);
    MPI_Comm_dup(WORLD, &other);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_key, &key, NULL);
    same = key;
    MPI_Comm_set_attr(one, key, &value);
    MPI_Comm_set_attr(other, key, &value);
    MPI_Comm_free(&one);
    CHECK(deleted == 1);
    MPI_Comm_get_attr(other, same, &found, &flag);
    CHECK(flag && found == &value);
    CHECK(MPI_Comm_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID);
    CHECK(MPI_Comm_free_keyval(&same) == MPI_SUCCESS && same == MPI_KEYVAL_INVALID);
    MPI_Comm_free(&other);
    CHECK(deleted == 2);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_create_keyval(refuse_type, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, key, &value);
    CHECK(MPI_Type_dup(type, &copy) != MPI_SUCCESS && copy == MPI_DATATYPE_NULL);
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&key);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    int total;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    right = (rank + 1) % size, left = (rank + size - 1) % size;
    opposite();
    before_barrier();
    kept();
    receives();
    messages();
    collectives();
    other_kinds();
    ahead();
    behind();
    handlers();
    keys();
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, WORLD);
    if (rank == 0 && total == 0) printf("ok\n");
    MPI_Finalize();
    return total != 0;
}
