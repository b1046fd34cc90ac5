/* Messages, collectives, communicators and errors, checked on every rank. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

/* An element is a map of numbers of 16 bits, x to a * x + b, with a above b: the left map, then the right one. That is associative,
   as MPI has it, and not commutative; and the function looks at the datatype. */
static unsigned composed(unsigned first, unsigned then) {
    unsigned a = (then >> 16) * (first >> 16), b = (then >> 16) * (first & 0xffff) + (then & 0xffff);
    return a << 16 | (b & 0xffff);
}

static unsigned map_of(int rank) { return (unsigned)(2 * rank + 3) << 16 | (unsigned)(rank + 1); }

static void compose(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    unsigned *left = in, *right = inout;
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*datatype, &lower, &extent);
    CHECK(lower == 0 && extent == (MPI_Aint)sizeof(unsigned));
    for (int i = 0; i < *count; i++) right[i] = composed(left[i], right[i]);
}

static void messages(void) {
    static double given[100000], taken[100000];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, count, flag, from = -1;
    MPI_Status status, statuses[2];
    MPI_Request requests[2];
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 7, &from, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, &status);
    CHECK(from == previous && status.MPI_SOURCE == previous && status.MPI_TAG == 7);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1);
    for (int i = 0; i < 100000; i++) given[i] = rank + i;
    MPI_Irecv(taken, 100000, MPI_DOUBLE, previous, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(given, 100000, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    CHECK(taken[99999] == previous + 99999 && statuses[0].MPI_SOURCE == previous);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    MPI_Send_init(&rank, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&from, 1, MPI_INT, previous, 2, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < 3; round++) {
        from = -1;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(from == previous && requests[1] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Issend(&rank, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == previous);
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    MPI_Message message;
    MPI_Mprobe(previous, 3, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(&from, 1, MPI_INT, &message, &status);
    CHECK(from == previous && message == MPI_MESSAGE_NULL);
    if (!flag) MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Recv(&from, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
}

/* More than a control slot holds, to the first rank and the last: operands apart, at an odd address, and in place at the root. */
static void long_reductions(MPI_Op op, unsigned expected) {
    enum { MOST = 50000 };
    static unsigned given[MOST + 1], result[MOST];
    static const int counts[] = {2049, 4096, 5000, MOST};
    for (int turn = 0; turn < 24; turn++) {
        int count = counts[turn / 6], root = turn % 2 ? size - 1 : 0, form = turn / 2 % 3;
        unsigned map = map_of(rank), *operand = form == 1 ? (unsigned *)((char *)given + 1) : given;
        for (int i = 0; i < count; i++) memcpy((char *)operand + i * sizeof map, &map, sizeof map);
        memset(result, 0, sizeof result);
        if (form == 2 && rank == root) {
            memcpy(result, given, count * sizeof map);
            MPI_Reduce(MPI_IN_PLACE, result, count, MPI_UNSIGNED, op, root, MPI_COMM_WORLD);
        } else {
            MPI_Reduce(operand, result, count, MPI_UNSIGNED, op, root, MPI_COMM_WORLD);
        }
        unsigned last = rank == root ? expected : 0;
        CHECK(result[0] == last && result[count / 2] == last && result[count - 1] == last);
        CHECK(count == MOST || result[count] == 0);
        CHECK(memcmp((char *)operand + (count - 1) * sizeof map, &map, sizeof map) == 0);
    }
}

static void collectives(void) {
    int given[64], taken[64], sums = size * (size - 1) / 2, value = rank == 0 ? 42 : 0, sum, part = -1;
    double own = rank, most = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(value == 42);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == sums);
    MPI_Reduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, size - 1, MPI_COMM_WORLD);
    CHECK(most == (rank == size - 1 ? size - 1 : -1));
    MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == rank * (rank + 1) / 2);
    MPI_Allgather(&rank, 1, MPI_INT, taken, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(taken[i] == i);
    MPI_Scatter(taken, 1, MPI_INT, &part, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(part == rank);
    memset(taken, 0, sizeof taken);
    MPI_Gather(&rank, 1, MPI_INT, taken, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < size && rank == 0; i++) CHECK(taken[i] == i);
    for (int i = 0; i < size; i++) given[i] = 100 * rank + i;
    MPI_Alltoall(given, 1, MPI_INT, taken, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(taken[i] == 100 * i + rank);
    MPI_Reduce_scatter_block(given, &part, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(part == 100 * sums + size * rank);
    int counts[64], places[64];
    for (int i = 0; i < size; i++) counts[i] = i + 1, places[i] = 8 * i;
    for (int i = 0; i <= rank; i++) given[i] = 10 * rank + i;
    MPI_Allgatherv(given, rank + 1, MPI_INT, taken, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(taken[8 * i + i] == 11 * i);
    /* One behind the other, without gaps; a rank without a block is none. */
    for (int i = 0; i < size; i++) counts[i] = i, places[i] = 5 + i * (i - 1) / 2;
    memset(taken, -1, sizeof taken);
    MPI_Allgatherv(given, rank, MPI_INT, taken, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int i = 1; i < size; i++) CHECK(taken[places[i]] == 10 * i && taken[places[i] + i - 1] == 11 * i - 1);
    CHECK(taken[4] == -1 && taken[5 + size * (size - 1) / 2] == -1);
    for (int i = 0; i < size; i++) counts[i] = i + 1;
    /* In place and backwards, while the first rank alone has something else under way. */
    MPI_Request meanwhile;
    MPI_Ibarrier(MPI_COMM_WORLD, &meanwhile);
    if (rank > 0) MPI_Wait(&meanwhile, MPI_STATUS_IGNORE);
    int *end = &taken[8 * (size - 1)];
    for (int i = 0; i < size; i++) places[i] = -8 * i;
    memset(taken, -1, sizeof taken);
    for (int i = 0; i <= rank; i++) end[places[rank] + i] = given[i];
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INT, end, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) CHECK(end[places[i] + i] == 11 * i && end[places[i]] == 10 * i);
    int all[64 * 65 / 2], mine[64], total = size * (size + 1) / 2, before = rank * (rank + 1) / 2;
    for (int i = 0; i < total; i++) all[i] = i + rank;
    MPI_Reduce_scatter(all, mine, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i <= rank; i++) CHECK(mine[i] == size * (before + i) + sums);
    if (rank == 0) MPI_Wait(&meanwhile, MPI_STATUS_IGNORE);
    MPI_Op op;
    unsigned map = map_of(rank), maps = 0, expected = map_of(0);
    for (int i = 1; i < size; i++) expected = composed(expected, map_of(i));
    MPI_Op_create(compose, 0, &op);
    MPI_Allreduce(&map, &maps, 1, MPI_UNSIGNED, op, MPI_COMM_WORLD);
    CHECK(maps == expected);
    /* Without communication: the input is the first operand, wherever the two stand. */
    unsigned first = map_of(1), last = map_of(2);
    MPI_Reduce_local(&first, &last, 1, MPI_UNSIGNED, op);
    CHECK(last == composed(map_of(1), map_of(2)));
    long_reductions(op, expected);
    MPI_Op_free(&op);
    char unaligned[2 * sizeof(int) + 1];
    memcpy(unaligned + 1, (int[]){7, 8}, 2 * sizeof(int));
    MPI_Reduce_local((int[]){30, 40}, unaligned + 1, 2, MPI_INT, MPI_SUM);
    CHECK(memcmp(unaligned + 1, (int[]){37, 48}, 2 * sizeof(int)) == 0);
    /* A collective goes on while a rank waits for a message. */
    MPI_Request request;
    int token = 5;
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (rank == size - 1 && size > 1) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(&token, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    } else if (rank == 0 && size > 1) {
        MPI_Recv(&token, 1, MPI_INT, size - 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == sums);
}

static void communicators(void) {
    MPI_Comm copy, half;
    MPI_Group group, odd;
    int own, compared, range[1][3] = {{0, size - 1, 2}}, color = rank % 2, found, *bound;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_compare(copy, MPI_COMM_WORLD, &compared);
    CHECK(compared == MPI_CONGRUENT);
    MPI_Comm_split(copy, color, -rank, &half);
    MPI_Comm_size(half, &own);
    CHECK(own == (size + 1 - color) / 2);
    MPI_Comm_free(&half);
    CHECK(half == MPI_COMM_NULL);
    MPI_Comm_group(copy, &group);
    MPI_Group_range_incl(group, 1, range, &odd);
    MPI_Group_size(odd, &own);
    CHECK(own == (size + 1) / 2);
    MPI_Comm_create(copy, odd, &half);
    CHECK((half == MPI_COMM_NULL) == (rank % 2 == 1));
    if (half != MPI_COMM_NULL) MPI_Comm_free(&half);
    MPI_Group_free(&odd);
    MPI_Group_free(&group);
    MPI_Comm_get_attr(copy, MPI_TAG_UB, &bound, &found);
    CHECK(found && *bound >= 32767);
    MPI_Comm_free(&copy);
}

static void errors(void) {
    MPI_Comm own;
    MPI_Datatype uncommitted;
    int code, class, length, value[2] = {1, 2};
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    code = MPI_Send(value, 1, MPI_INT, size + 3, 0, own);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == MPI_ERR_RANK && length == (int)strlen(text) && strstr(text, "MPI_ERR_RANK") != NULL);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Error_class(MPI_Send(value, 1, uncommitted, 0, 0, own), &class);
    CHECK(class == MPI_ERR_TYPE);
    MPI_Type_free(&uncommitted);
    MPI_Error_class(MPI_Bcast(value, 1, MPI_INT, size, own), &class);
    CHECK(class == MPI_ERR_ROOT);
    MPI_Error_class(MPI_Send(value, -1, MPI_INT, 0, 0, own), &class);
    CHECK(class == MPI_ERR_COUNT);
    if (size > 1 && rank == 0) MPI_Send(value, 2, MPI_INT, 1, 5, own);
    if (size > 1 && rank == 1) {
        MPI_Error_class(MPI_Recv(value, 1, MPI_INT, 0, 5, own, MPI_STATUS_IGNORE), &class);
        CHECK(class == MPI_ERR_TRUNCATE);
    }
    MPI_Comm_free(&own);
}

/* Messages of no elements may be of no type, and so may those with no peer. */
static void nothing(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size, count = -1, value = 7;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, from, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(&value, 0, MPI_INT, to, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, to, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv(&value, 1, MPI_INT, from, 3, MPI_COMM_WORLD, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0 && value == 7);
    MPI_Send_init(NULL, 0, MPI_DATATYPE_NULL, to, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(NULL, 0, MPI_DATATYPE_NULL, from, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* The interface of tools has no variables, and its errors are not fatal. */
static void tools(void) {
    int provided, count = -1;
    MPI_T_pvar_session session;
    CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED && count == -1);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS && provided == MPI_THREAD_SINGLE);
    CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS && count == 0);
    CHECK(MPI_T_pvar_get_num(&count) == MPI_SUCCESS && count == 0);
    CHECK(MPI_T_category_get_num(&count) == MPI_SUCCESS && count == 0);
    CHECK(MPI_T_cvar_get_index("eager_limit", &count) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS && session != MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_HANDLE_NULL) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
    CHECK(MPI_T_finalize() == MPI_SUCCESS && MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
}

int main(int argc, char **argv) {
    int flag, length, all;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Initialized(&flag);
    CHECK(!flag);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    CHECK(length == (int)strlen(name));
    tools();
    messages();
    nothing();
    collectives();
    communicators();
    errors();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
