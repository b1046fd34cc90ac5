/* Datatypes and other objects that are freed while they are in use, and more requests and datatypes than small tables have, checked on every rank. The
   last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

enum { MANY = 20000, TYPES = 3000, BLOCKS = 16384, COMMS = 1500, LONG = 1 << 20 };

static int right, left;

/* Every second int of four, made of a type that is gone. */
static MPI_Datatype apart(void) {
    MPI_Datatype pair, made;
    MPI_Type_contiguous(1, MPI_INT, &pair);
    MPI_Type_vector(2, 1, 2, pair, &made);
    MPI_Type_free(&pair);
    MPI_Type_commit(&made);
    return made;
}

/* Types that take the slots and words of freed ones. */
static void churn(void) {
    MPI_Datatype others[20];
    for (int i = 0; i < 20; i++) MPI_Type_vector(i + 1, 2, 5, MPI_DOUBLE, &others[i]);
    for (int i = 0; i < 20; i++) MPI_Type_free(&others[i]);
}

static void is_gone(MPI_Datatype freed) {
    int bytes, error;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    error = MPI_Type_size(freed, &bytes);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    CHECK(error != MPI_SUCCESS);
}

static int holds(const int *four, int value) {
    return four[0] == value && four[1] == -1 && four[2] == value && four[3] == -1;
}

static void fill(int *four, int value) {
    four[0] = four[2] = value, four[1] = four[3] = -1;
}

static void messages(void) {
    for (int kept = 0; kept < 2; kept++) {
        int in[4], out[4];
        MPI_Request requests[2];
        MPI_Datatype type = apart(), old = type;
        if (kept) {
            MPI_Recv_init(in, 1, type, left, 1, MPI_COMM_WORLD, &requests[0]);
            MPI_Send_init(out, 1, type, right, 1, MPI_COMM_WORLD, &requests[1]);
            MPI_Type_free(&type);
        }
        for (int round = 0; round < 3; round++) {
            fill(in, -2), fill(out, 10 * rank + round);
            if (kept) {
                MPI_Startall(2, requests);
            } else {
                type = old = apart();
                MPI_Irecv(in, 1, type, left, 1, MPI_COMM_WORLD, &requests[0]);
                MPI_Isend(out, 1, type, right, 1, MPI_COMM_WORLD, &requests[1]);
                MPI_Type_free(&type);
            }
            churn();
            is_gone(old);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            CHECK(holds(in, 10 * left + round));
        }
        if (kept) MPI_Request_free(&requests[0]), MPI_Request_free(&requests[1]);
    }
}

static void buffered(void) {
    int in[4], out[4], bytes;
    char memory[4096], *back;
    MPI_Request request;
    MPI_Datatype type = apart(), other = apart();
    MPI_Buffer_attach(memory, sizeof memory);
    MPI_Bsend_init(out, 1, type, right, 2, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    for (int round = 0; round < 3; round++) {
        churn();
        fill(in, -2), fill(out, rank + round);
        MPI_Start(&request);
        MPI_Recv(in, 1, other, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(holds(in, left + round));
    }
    MPI_Request_free(&request);
    MPI_Buffer_detach(&back, &bytes);
    MPI_Type_free(&other);
}

/* Adds elements of a type that it asks about. */
static void add(void *from, void *into, int *count, MPI_Datatype *of) {
    MPI_Aint low, extent;
    CHECK(MPI_Type_get_extent(*of, &low, &extent) == MPI_SUCCESS && extent == 3 * (MPI_Aint)sizeof(int));
    for (int i = 0; i < *count; i++)
        for (int j = 0; j < 3; j += 2) ((int *)into)[3 * i + j] += ((int *)from)[3 * i + j];
}

/* Nonblocking ones, and persistent ones three times. */
static void collectives(void) {
    int sums = size * (size - 1) / 2;
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    for (int kept = 0; kept < 2; kept++) {
        int *in = malloc(8 * size * sizeof(int)), *all = malloc(8 * size * sizeof(int)), sum[4], own[4], cast[4];
        int *wide = malloc(8 * size * sizeof(int)), *gathered = malloc(8 * size * sizeof(int));
        int *lens = malloc(size * sizeof(int)), *places = malloc(size * sizeof(int)), *bytes = malloc(size * sizeof(int));
        MPI_Datatype *types = malloc(size * sizeof(MPI_Datatype)), type = apart(), wider, old;
        MPI_Request requests[5];
        MPI_Type_create_resized(type, 0, 4 * sizeof(int), &wider);
        MPI_Type_commit(&wider);
        old = wider;
        for (int i = 0; i < size; i++) lens[i] = 1, places[i] = i, bytes[i] = 16 * i, types[i] = wider;
        for (int round = 0; round < (kept ? 3 : 1); round++) {
            fill(own, rank + round), fill(sum, 0), fill(cast, rank == size - 1 ? 7 + round : -2);
            for (int i = 0; i < size; i++)
                fill(in + 4 * i, rank * size + i + round), fill(all + 4 * i, -2), fill(gathered + 4 * i, -2), fill(wide + 4 * i, -2);
            if (round == 0 && kept) {
                MPI_Alltoallw_init(in, lens, bytes, types, all, lens, bytes, types, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
                MPI_Gatherv_init(own, 1, type, gathered, lens, places, wider, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
                MPI_Allreduce_init(own, sum, 1, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
                MPI_Bcast_init(cast, 1, type, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
                MPI_Allgather_init(own, 1, wider, wide, 1, wider, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[4]);
            } else if (!kept) {
                MPI_Ialltoallw(in, lens, bytes, types, all, lens, bytes, types, MPI_COMM_WORLD, &requests[0]);
                MPI_Igatherv(own, 1, type, gathered, lens, places, wider, 0, MPI_COMM_WORLD, &requests[1]);
                MPI_Iallreduce(own, sum, 1, type, op, MPI_COMM_WORLD, &requests[2]);
                MPI_Ibcast(cast, 1, type, size - 1, MPI_COMM_WORLD, &requests[3]);
                MPI_Iallgather(own, 1, wider, wide, 1, wider, MPI_COMM_WORLD, &requests[4]);
            }
            if (round == 0) MPI_Type_free(&type), MPI_Type_free(&wider);
            churn();
            is_gone(old);
            if (kept) MPI_Startall(5, requests);
            MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < size; i++) {
                CHECK(holds(all + 4 * i, i * size + rank + round));
                CHECK(holds(wide + 4 * i, i + round));
                if (rank == 0) CHECK(holds(gathered + 4 * i, i + round));
            }
            CHECK(holds(sum, sums + size * round) && holds(cast, 7 + round));
        }
        for (int i = 0; kept && i < 5; i++) MPI_Request_free(&requests[i]);
        free(in), free(all), free(wide), free(gathered), free(lens), free(places), free(bytes), free(types);
    }
    MPI_Op_free(&op);
}

static void largest(void *from, void *into, int *count, MPI_Datatype *of) {
    (void)of;
    for (int i = 0; i < *count; i++)
        if (((int *)from)[i] > ((int *)into)[i]) ((int *)into)[i] = ((int *)from)[i];
}

static void no_operation(void *from, void *into, int *count, MPI_Datatype *of) {
    (void)from, (void)of;
    for (int i = 0; i < *count; i++) ((int *)into)[i] = -99;
}

/* Operations that are freed while reductions are under way, or are kept; others take their places. */
static void operations(void) {
    int started = -1, kept = -1, scanned = -1;
    MPI_Op op, others[4];
    MPI_Request requests[3];
    MPI_Op_create(largest, 1, &op);
    MPI_Iallreduce(&rank, &started, 1, MPI_INT, op, MPI_COMM_WORLD, &requests[0]);
    MPI_Iscan(&rank, &scanned, 1, MPI_INT, op, MPI_COMM_WORLD, &requests[1]);
    MPI_Allreduce_init(&rank, &kept, 1, MPI_INT, op, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    for (int i = 0; i < 4; i++) MPI_Op_create(no_operation, 1, &others[i]);
    for (int round = 0; round < 3; round++) {
        kept = -1;
        MPI_Start(&requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        CHECK(started == size - 1 && scanned == rank && kept == size - 1);
    }
    MPI_Request_free(&requests[2]);
    for (int i = 0; i < 4; i++) MPI_Op_free(&others[i]);
}

static int copies, deletions, told, told_wrongly;

static int copied(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)key, (void)extra;
    *(void **)copy = value, *flag = 1, copies++;
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    deletions += value == (void *)&copies;
    return MPI_SUCCESS;
}

static void tell(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    told++;
}

static void tell_wrongly(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    told_wrongly++;
}

/* Keys, error handlers and hints that are freed while communicators have them. */
static void kept_with_communicators(void) {
    int key, same, other, flag = 0;
    char value[8] = "";
    MPI_Comm comm, twin;
    MPI_Info hints, back;
    MPI_Errhandler handler, others[4], found;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_keyval(copied, deleted, &key, NULL);
    same = key;
    MPI_Comm_set_attr(comm, key, &copies);
    MPI_Comm_free_keyval(&key);
    /* A key lives as long as something has it. */
    CHECK(MPI_Comm_set_attr(comm, same, &copies) == MPI_SUCCESS && deletions == 1);
    deletions = 0;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL);
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "mpi_assert_exact_length", "false");
    MPI_Info_set(hints, "mine", "ignored");
    MPI_Comm_set_info(comm, hints);
    MPI_Info_set(hints, "mpi_assert_exact_length", "true");
    MPI_Info_free(&hints);
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    for (int i = 0; i < 4; i++) MPI_Comm_create_errhandler(tell_wrongly, &others[i]);
    MPI_Comm_dup(comm, &twin);
    CHECK(MPI_Send(&rank, 1, MPI_INT, size, 0, comm) != MPI_SUCCESS && told == 1);
    CHECK(MPI_Send(&rank, 1, MPI_INT, size, 0, twin) != MPI_SUCCESS && told == 2);
    MPI_Comm_get_errhandler(comm, &found);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, found);
    MPI_Errhandler_free(&found);
    CHECK(MPI_Send(&rank, 1, MPI_INT, size, 0, comm) != MPI_SUCCESS && told == 3 && told_wrongly == 0);
    MPI_Comm_get_info(comm, &back);
    MPI_Info_get(back, "mpi_assert_exact_length", 7, value, &flag);
    CHECK(flag && value[0] == 'f');
    MPI_Info_get(back, "mine", 7, value, &flag);
    CHECK(!flag);
    MPI_Info_free(&back);
    CHECK(copies == 1 && deletions == 0);
    MPI_Comm_free(&comm);
    CHECK(deletions == 1);
    MPI_Comm_free(&twin);
    CHECK(deletions == 2);
    MPI_Comm_free_keyval(&other);
    for (int i = 0; i < 4; i++) MPI_Errhandler_free(&others[i]);
}

/* Groups that outlive their communicators, and communicators that outlive their groups. */
static void groups(void) {
    int number, last = size - 1, sum = 1;
    MPI_Comm comm, made;
    MPI_Group all, one, same;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_group(comm, &all);
    MPI_Comm_free(&comm);
    churn();
    MPI_Group_size(all, &number);
    CHECK(number == size);
    MPI_Group_incl(all, 1, &last, &one);
    MPI_Comm_create_group(MPI_COMM_WORLD, all, 3, &made);
    MPI_Group_free(&all);
    CHECK(all == MPI_GROUP_NULL);
    MPI_Group_size(one, &number);
    CHECK(number == 1);
    MPI_Group_free(&one);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK(sum == size);
    MPI_Comm_group(made, &same);
    MPI_Group_rank(same, &number);
    CHECK(number == rank);
    MPI_Group_free(&same);
    MPI_Comm_free(&made);
}

/* So many requests and types at a time. */
static void many(void) {
    static int in[MANY], out[MANY], lens[BLOCKS], places[BLOCKS];
    static MPI_Request requests[2 * MANY];
    static MPI_Datatype types[TYPES];
    MPI_Datatype large;
    int bytes, wrong = 0;
    for (int i = 0; i < MANY; i++) MPI_Irecv(&in[i], 1, MPI_INT, left, i % 1000, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < MANY; i++) {
        out[i] = rank + i;
        MPI_Isend(&out[i], 1, MPI_INT, right, i % 1000, MPI_COMM_WORLD, &requests[MANY + i]);
    }
    CHECK(MPI_Request_toint(requests[MANY - 1]) > 0);
    CHECK(MPI_Request_fromint(MPI_Request_toint(requests[MANY - 1])) == requests[MANY - 1]);
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) wrong += in[i] != left + i;
    CHECK(wrong == 0);
    for (int i = 0; i < BLOCKS; i++) lens[i] = 1, places[i] = 2 * i + (i & 1);
    MPI_Type_indexed(BLOCKS, lens, places, MPI_INT, &large);
    MPI_Type_size(large, &bytes);
    CHECK(bytes == 4 * BLOCKS);
    for (int i = 0; i < TYPES; i++) MPI_Type_vector(3, 2, i + 3, MPI_INT, &types[i]);
    for (int i = 0; i < TYPES; i++) MPI_Type_free(&types[i]);
    MPI_Type_free(&large);
}

/* So many communicators at a time, of which the last is agreed on behind all others. */
static void many_communicators(void) {
    static MPI_Comm comms[COMMS];
    MPI_Comm last;
    int sum = 0;
    for (int i = 0; i < COMMS; i++) MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &last);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, last);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &sum, 1, MPI_INT, 0, 1, comms[COMMS - 1], MPI_STATUS_IGNORE);
    CHECK(sum == rank);
    MPI_Comm_free(&last);
    for (int i = 0; i < COMMS; i++) MPI_Comm_free(&comms[i]);
}

/* Requests that are freed and not over: receives that nothing is sent for, and messages that go on until the job ends. */
static int last_out[LONG], last_in[LONG];

static void left_over(void) {
    static int never[6];
    MPI_Request requests[6];
    MPI_Irecv(&never[0], 1, MPI_INT, left, 900, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&never[1], 1, MPI_INT, MPI_ANY_SOURCE, 901, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&never[2], 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF, &requests[2]);
    MPI_Recv_init(&never[3], 1, MPI_INT, right, 902, MPI_COMM_WORLD, &requests[3]);
    MPI_Start(&requests[3]);
    for (int i = 0; i < 4; i++) MPI_Request_free(&requests[i]);
    for (int i = 0; i < LONG; i++) last_out[i] = rank + i;
    MPI_Irecv(last_in, LONG, MPI_INT, left, 903, MPI_COMM_WORLD, &requests[4]);
    MPI_Request_free(&requests[4]);
    MPI_Isend(last_out, LONG, MPI_INT, right, 903, MPI_COMM_WORLD, &requests[5]);
    MPI_Request_free(&requests[5]);
}

int main(int argc, char **argv) {
    int total;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size, left = (rank + size - 1) % size;
    messages();
    buffered();
    collectives();
    operations();
    kept_with_communicators();
    groups();
    many();
    many_communicators();
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    left_over();
    MPI_Finalize();
    for (int i = 0; i < LONG; i++) total += last_in[i] != left + i;
    if (rank == 0 && total == 0) printf("ok\n");
    return total != 0;
}
