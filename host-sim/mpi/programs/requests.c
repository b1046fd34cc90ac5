/* Requests that are started again, persistent collectives, those of the program's, messages in parts, checked on every rank. The last
   line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>

#include "check.h"

static int freed, cancelled;

static void persistent(void) {
    int sums = size * (size - 1) / 2, value, sum, all[64], blocks[128], part, flag, spread[4] = {0, -1, 0, -1};
    MPI_Request requests[6], first, second;
    MPI_Datatype apart;
    MPI_Type_vector(2, 1, 2, MPI_INT, &apart);
    MPI_Type_commit(&apart);
    MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(spread, 1, apart, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Allgather_init(&value, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
    MPI_Reduce_scatter_block_init(blocks, &part, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[4]);
    MPI_Gather_init(&value, 1, MPI_INT, blocks + 64, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[5]);
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    CHECK(flag && requests[0] != MPI_REQUEST_NULL);
    for (int round = 0; round < 4; round++) {
        value = rank + round, sum = part = -1;
        spread[0] = spread[2] = rank == size - 1 ? round : -2;
        for (int i = 0; i < size; i++) blocks[i] = rank + i + round, all[i] = -1;
        MPI_Startall(6, requests);
        MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
        CHECK(sum == sums + size * round && part == size - 1 + rank + round);
        CHECK(spread[0] == round && spread[2] == round && spread[1] == -1 && spread[3] == -1);
        for (int i = 0; i < size; i++) CHECK(all[i] == i + round);
        for (int i = 0; i < size && rank == 0; i++) CHECK(blocks[64 + i] == i + round);
    }
    for (int i = 0; i < 6; i++) MPI_Request_free(&requests[i]);
    /* Made in one order everywhere, started in any. */
    MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
    MPI_Allreduce_init(&value, &part, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &second);
    value = rank;
    MPI_Start(rank % 2 ? &first : &second);
    MPI_Start(rank % 2 ? &second : &first);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    CHECK(sum == sums && part == size - 1);
    MPI_Request_free(&first);
    MPI_Request_free(&second);
    /* What was packed stays until a nonblocking call is over. */
    int rows[128];
    MPI_Request request;
    for (int i = 0; i < 2 * size; i++) rows[i] = -1;
    MPI_Datatype even;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &even);
    MPI_Type_commit(&even);
    MPI_Iallgather(&rank, 1, MPI_INT, rows, 1, even, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; i++) CHECK(rows[2 * i] == i && rows[2 * i + 1] == -1);
    MPI_Type_free(&even);
    MPI_Type_free(&apart);
}

/* Half of the ranks wait for one collective before they call others, the other half thereafter. */
static void overlapped(void) {
    int sums = size * (size - 1) / 2, sum, all[64];
    MPI_Request request;
    for (int round = 0; round < 50; round++) {
        sum = all[0] = -1;
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        if (rank % 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank % 2 == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(sum == sums && all[0] == 0 && all[size - 1] == size - 1);
    }
}

static void exchanges(void) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, from = -1, here = rank, flag, index, found, at[2], count;
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    MPI_Isendrecv(&rank, 1, MPI_INT, next, 1, &from, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isendrecv_replace(&here, 1, MPI_INT, next, 2, previous, 2, MPI_COMM_WORLD, &requests[1]);
    do MPI_Request_get_status_all(2, requests, &flag, statuses);
    while (!flag);
    CHECK(requests[0] != MPI_REQUEST_NULL && statuses[1].MPI_TAG == 2 && from == previous && here == previous);
    MPI_Request_get_status_any(2, requests, &index, &flag, &status);
    CHECK(flag && index == 0 && status.MPI_SOURCE == previous);
    MPI_Request_get_status_some(2, requests, &found, at, statuses);
    CHECK(found == 2 && at[0] == 0 && at[1] == 1);
    MPI_Waitall(2, requests, statuses);
    MPI_Get_count(&statuses[0], MPI_INT, &count);
    CHECK(requests[0] == MPI_REQUEST_NULL && statuses[1].MPI_SOURCE == previous && count == 1);
    MPI_Request_get_status_some(2, requests, &found, at, statuses);
    CHECK(found == MPI_UNDEFINED);
    static char buffer[4096];
    void *attached;
    MPI_Buffer_attach(buffer, sizeof buffer);
    MPI_Bsend_init(&rank, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]);
    for (int round = 0; round < 3; round++) {
        MPI_Start(&requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Recv(&from, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(from == previous && requests[0] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Buffer_iflush(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&attached, &count);
    CHECK(attached == buffer && count == (int)sizeof buffer);
    MPI_Comm copy;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Barrier(copy);
    /* A buffer of this communicator alone, with room for two numbers. */
    int many[1000] = {0}, class;
    MPI_Comm_attach_buffer(copy, buffer, 2 * (MPI_BSEND_OVERHEAD + (int)sizeof rank));
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Bsend(many, 1000, MPI_INT, next, 4, copy), &class);
    CHECK(class == MPI_ERR_BUFFER);
    for (int i = 0; i < 2; i++) CHECK(MPI_Bsend(&rank, 1, MPI_INT, next, 4, copy) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        MPI_Recv(&from, 1, MPI_INT, previous, 4, copy, MPI_STATUS_IGNORE);
        CHECK(from == previous);
    }
    MPI_Comm_flush_buffer(copy);
    MPI_Comm_detach_buffer(copy, &attached, &count);
    CHECK(attached == buffer && count == 2 * (MPI_BSEND_OVERHEAD + (int)sizeof rank));
    MPI_Error_class(MPI_Comm_detach_buffer(copy, &attached, &count), &class);
    CHECK(class == MPI_ERR_BUFFER);
    MPI_Comm_attach_buffer(copy, MPI_BUFFER_AUTOMATIC, 0);
    MPI_Bsend(many, 1000, MPI_INT, next, 5, copy);
    MPI_Recv(many, 1000, MPI_INT, previous, 5, copy, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
}

static int query(void *extra, MPI_Status *status) {
    MPI_Status_set_elements(status, MPI_INT, *(int *)extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 11;
    status->MPI_TAG = 12;
    return MPI_SUCCESS;
}

static int let_go(void *extra) {
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    cancelled += *(int *)extra + 100 * complete;
    return MPI_SUCCESS;
}

static void general(void) {
    int extra = 3, flag, count;
    MPI_Request request, left;
    MPI_Status status;
    MPI_Grequest_start(query, let_go, cancel, &extra, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag && freed == 0);
    MPI_Cancel(&request);
    CHECK(cancelled == 3);
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(flag && status.MPI_TAG == 12 && freed == 0);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(request == MPI_REQUEST_NULL && status.MPI_SOURCE == 11 && count == 3 && freed == 3);
    MPI_Grequest_start(query, let_go, cancel, &extra, &request);
    left = request;
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL && freed == 3);
    MPI_Grequest_complete(left);
    CHECK(freed == 6);
}

static void parts(void) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, given[8], taken[8], list[2] = {0, 3}, there;
    MPI_Request requests[2];
    MPI_Psend_init(given, 4, 2, MPI_INT, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(taken, 4, 2, MPI_INT, previous, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        there = 0;
        MPI_Parrived(requests[1], 0, &there);
        CHECK(there);
        for (int i = 0; i < 8; i++) given[i] = 100 * rank + 10 * round + i, taken[i] = -1;
        MPI_Startall(2, requests);
        MPI_Pready_list(2, list, requests[0]);
        MPI_Pready(1, requests[0]);
        MPI_Pready_range(2, 2, requests[0]);
        do MPI_Parrived(requests[1], 2, &there);
        while (!there);
        CHECK(taken[4] == 100 * previous + 10 * round + 4);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 8; i++) CHECK(taken[i] == 100 * previous + 10 * round + i);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* The same with gaps between the elements, of which the other side knows nothing. */
static void parts_apart(void) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, apart[16], packed[8], there;
    MPI_Datatype wide;
    MPI_Request requests[2];
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &wide);
    MPI_Type_commit(&wide);
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < 16; i++) apart[i] = way == 0 && i % 2 == 0 ? 100 * rank + i / 2 : -1;
        for (int i = 0; i < 8; i++) packed[i] = way == 0 ? -1 : 100 * rank + i;
        if (way == 0) {
            MPI_Psend_init(apart, 4, 2, wide, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
            MPI_Precv_init(packed, 2, 4, MPI_INT, previous, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        } else {
            MPI_Psend_init(packed, 4, 2, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
            MPI_Precv_init(apart, 2, 4, wide, previous, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        }
        MPI_Startall(2, requests);
        MPI_Pready_range(2, 3, requests[0]);
        do MPI_Parrived(requests[1], 1, &there);
        while (!there);
        CHECK((way == 0 ? packed[7] : apart[14]) == 100 * previous + 7);
        MPI_Pready_range(0, 1, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 8; i++) CHECK((way == 0 ? packed[i] : apart[2 * i]) == 100 * previous + i);
        for (int i = 0; i < 8; i++) CHECK(apart[2 * i + 1] == -1);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
    MPI_Type_free(&wide);
}

/* Blocking collectives of ranks of which some have a nonblocking one under way, that the others wait for already: all take one way, and
   what is under way goes on meanwhile. Up to a few MB, so that data are longer than what control slots take. */
static void beside(void) {
    enum { LONG = 1 << 18 };
    static long data[LONG], sums[LONG];
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int round = 0; round < 24; round++) {
        int count = round % 4 == 3 ? LONG : 1 << (3 * (round % 4)), root = round % size, is_ahead = (rank + round / 4) % 2;
        MPI_Request under_way;
        MPI_Ibarrier(other, &under_way);
        if (!is_ahead) MPI_Wait(&under_way, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) data[i] = rank == root ? i + round : -1;
        MPI_Bcast(data, count, MPI_LONG, root, MPI_COMM_WORLD);
        CHECK(data[0] == round && data[count - 1] == count - 1 + round);
        MPI_Allreduce(data, sums, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sums[0] == (long)round * size && sums[count - 1] == (long)(count - 1 + round) * size);
        MPI_Reduce(rank == root ? MPI_IN_PLACE : sums, sums, count, MPI_LONG, MPI_MAX, root, MPI_COMM_WORLD);
        CHECK(rank != root || sums[count - 1] == (long)(count - 1 + round) * size);
        if (is_ahead) MPI_Wait(&under_way, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&other);
}

/* A request that was completed before is refused, whatever stands in front of it. */
static void stale(void) {
    int value = 0, flag, class;
    MPI_Request requests[2], old;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_SELF, &old);
    requests[1] = old;
    MPI_Wait(&old, MPI_STATUS_IGNORE);
    MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Error_class(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Error_class(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* Handles of messages, those that are over at once among them, in all that takes handles. */
static void handles_of_messages(void) {
    enum { MANY = 300 };
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, in[MANY], out[MANY], flag, index, found, at[MANY], class, taken = 0;
    MPI_Request requests[2 * MANY], copy;
    MPI_Status status, statuses[2 * MANY];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < MANY; i++) out[i] = 1000 * rank + i + round, in[i] = -1;
        for (int i = 0; i < MANY; i++) {
            if (round % 2) MPI_Irecv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[2 * i + 1]);
        }
        for (int i = 0; i < MANY; i++) {
            if (round % 2 == 0) MPI_Irecv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &requests[2 * i]);
            CHECK(requests[2 * i] != MPI_REQUEST_NULL && requests[2 * i + 1] != MPI_REQUEST_NULL);
            CHECK(MPI_Request_fromint(MPI_Request_toint(requests[2 * i])) == requests[2 * i]);
            CHECK(MPI_Request_fromint(MPI_Request_toint(requests[2 * i + 1])) == requests[2 * i + 1]);
        }
        if (round < 2) MPI_Waitall(2 * MANY, requests, statuses);
        if (round == 2) do MPI_Testall(2 * MANY, requests, &flag, statuses); while (!flag);
        if (round == 3) for (int i = 0; i < 2 * MANY; i++) {
            MPI_Waitany(2 * MANY, requests, &index, &status);
            statuses[index] = status;
        }
        if (round == 4) for (taken = 0; taken < 2 * MANY; taken += found) {
            MPI_Status some[2 * MANY];
            int places[2 * MANY];
            MPI_Waitsome(2 * MANY, requests, &found, places, some);
            for (int i = 0; i < found; i++) statuses[places[i]] = some[i];
        }
        if (round == 5) for (int i = 0; i < 2 * MANY; i++) {
            do MPI_Request_get_status(requests[i], &flag, &statuses[i]); while (!flag);
            if (i % 2 == 0) CHECK(statuses[i].MPI_TAG == i / 2 && in[i / 2] == 1000 * previous + i / 2 + round);
            do MPI_Test(&requests[i], &flag, &statuses[i]); while (!flag);
        }
        for (int i = 0; i < MANY; i++) {
            MPI_Get_count(&statuses[2 * i], MPI_INT, &found);
            CHECK(in[i] == 1000 * previous + i + round && found == 1);
            CHECK(statuses[2 * i].MPI_SOURCE == previous && statuses[2 * i].MPI_TAG == i);
            CHECK(requests[2 * i] == MPI_REQUEST_NULL && requests[2 * i + 1] == MPI_REQUEST_NULL);
            MPI_Test_cancelled(&statuses[2 * i + 1], &flag);
            CHECK(!flag);
        }
    }
    MPI_Waitany(2 * MANY, requests, &index, &status);
    MPI_Waitsome(2 * MANY, requests, &found, at, statuses);
    CHECK(index == MPI_UNDEFINED && found == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    /* Cancelled before it is matched, and told so also before it is waited for. */
    MPI_Irecv(in, 1, MPI_INT, previous, 77, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Request_get_status(requests[0], &flag, &status);
    MPI_Test_cancelled(&status, &found);
    CHECK(flag && found && requests[0] != MPI_REQUEST_NULL);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &found);
    CHECK(found && requests[0] == MPI_REQUEST_NULL);
    /* Freed, one before it is matched. */
    MPI_Irecv(&in[0], 1, MPI_INT, previous, 78, MPI_COMM_WORLD, &requests[0]);
    copy = requests[0];
    MPI_Request_free(&requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, next, 78, MPI_COMM_WORLD, &requests[1]);
    MPI_Cancel(&requests[1]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Wait(&copy, MPI_STATUS_IGNORE), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Error_class(MPI_Test(&copy, &flag, MPI_STATUS_IGNORE), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Error_class(MPI_Cancel(&copy), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Error_class(MPI_Request_free(&copy), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Irecv(&in[1], 1, MPI_INT, previous, 79, MPI_COMM_WORLD, &requests[0]);
    MPI_Error_class(MPI_Start(&requests[0]), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Send(&rank, 1, MPI_INT, next, 79, MPI_COMM_WORLD);
    MPI_Waitany(1, requests, &index, &status);
    CHECK(index == 0 && status.MPI_TAG == 79 && in[1] == previous);
    copy = MPI_REQUEST_NULL;
    MPI_Error_class(MPI_Request_free(&copy), &class);
    CHECK(class == MPI_ERR_REQUEST);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    /* Too long for its receive: told by the handler of its communicator, with its status. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int way = 0; way < 2; way++) {
        MPI_Irecv(in, 1, MPI_INT, previous, 80, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&in[1], 1, MPI_INT, previous, 81, MPI_COMM_WORLD, &requests[1]);
        MPI_Send(out, 2, MPI_INT, next, 80, MPI_COMM_WORLD);
        MPI_Send(out, 1, MPI_INT, next, 81, MPI_COMM_WORLD);
        if (way == 0) {
            MPI_Error_class(MPI_Wait(&requests[0], &status), &class);
            CHECK(class == MPI_ERR_TRUNCATE && status.MPI_SOURCE == previous && status.MPI_TAG == 80);
            CHECK(MPI_Wait(&requests[1], &status) == MPI_SUCCESS);
        } else {
            MPI_Error_class(MPI_Waitall(2, requests, statuses), &class);
            CHECK(class == MPI_ERR_IN_STATUS && statuses[1].MPI_ERROR == MPI_SUCCESS && statuses[1].MPI_TAG == 81);
            MPI_Error_class(statuses[0].MPI_ERROR, &class);
            CHECK(class == MPI_ERR_TRUNCATE && statuses[0].MPI_TAG == 80);
        }
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* More parts than go by themselves, as many or others on both sides, ready in any order, round after round. */
static void many_parts(void) {
    static const int counts[5][2] = {{512, 512}, {4096, 512}, {67, 67}, {65, 5}, {3, 4095}};
    static int out[8190], in[8190];
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int which = 0; which < 5; which++) {
        int sent = counts[which][0], received = counts[which][1], flag;
        int total = sent == received ? sent : sent == 4096 ? 4096 : sent == 65 ? 65 : 4095;
        MPI_Request requests[2];
        MPI_Precv_init(in, received, total / received, MPI_INT, from, which, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Psend_init(out, sent, total / sent, MPI_INT, to, which, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < total; i++) in[i] = -1, out[i] = rank * 10000 + i + round;
            MPI_Startall(2, requests);
            for (int i = sent / 2; i < sent; i++) MPI_Pready(i, requests[1]);
            if (sent > 1) MPI_Pready_range(0, sent / 2 - 1, requests[1]);
            for (int i = received - 1; i >= 0; i--) {
                do MPI_Parrived(requests[0], i, &flag); while (!flag);
                CHECK(in[i * (total / received)] == from * 10000 + i * (total / received) + round);
            }
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < total; i++) CHECK(in[i] == from * 10000 + i + round);
        }
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        if (sent > 64) {
            CHECK(MPI_Pready(0, requests[1]) != MPI_SUCCESS);
            MPI_Startall(2, requests);
            MPI_Pready(1, requests[1]);
            CHECK(MPI_Pready(1, requests[1]) != MPI_SUCCESS);
            CHECK(MPI_Pready(sent, requests[1]) != MPI_SUCCESS);
            CHECK(MPI_Pready(-1, requests[1]) != MPI_SUCCESS);
            MPI_Pready(0, requests[1]);
            for (int i = 2; i < sent; i++) MPI_Pready(i, requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        if (received > 64) CHECK(MPI_Pready(0, requests[0]) != MPI_SUCCESS);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

/* A request that is told to be over has its result, also before it is waited for, however it is asked. */
static void asked_before_waited(void) {
    MPI_Datatype apart;
    MPI_Type_vector(2, 1, 2, MPI_INT, &apart);
    MPI_Type_commit(&apart);
    for (int way = 0; way < 8; way++) {
        int given[4] = {rank, -1, rank, -1}, spread[4] = {rank ? 0 : 7, -1, rank ? 0 : 9, -1}, got[256], flag = 0, at;
        MPI_Request request;
        for (int i = 0; i < 4 * size; i++) got[i] = -5;
        if (way < 4) MPI_Ibcast(spread, 1, apart, 0, MPI_COMM_WORLD, &request);
        else MPI_Iallgather(given, 1, apart, got, 1, apart, MPI_COMM_WORLD, &request);
        while (!flag) {
            int found;
            if (way % 4 == 0) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
            if (way % 4 == 1) MPI_Request_get_status_all(1, &request, &flag, MPI_STATUSES_IGNORE);
            if (way % 4 == 2) MPI_Request_get_status_any(1, &request, &at, &flag, MPI_STATUS_IGNORE);
            if (way % 4 == 3) {
                MPI_Request_get_status_some(1, &request, &found, &at, MPI_STATUSES_IGNORE);
                flag = found > 0;
            }
        }
        for (int look = 0; look < 2; look++) {
            if (way < 4) CHECK(spread[0] == 7 && spread[1] == -1 && spread[2] == 9 && spread[3] == -1);
            else for (int i = 0; i < size; i++)
                CHECK(got[3 * i] == i && got[3 * i + 2] == i && got[3 * i + 1] == -5);
            if (look == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        CHECK(request == MPI_REQUEST_NULL);
    }
    MPI_Type_free(&apart);
}

int main(int argc, char **argv) {
    int all;
    MPI_Datatype matched;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    persistent();
    overlapped();
    exchanges();
    general();
    parts();
    parts_apart();
    beside();
    stale();
    handles_of_messages();
    asked_before_waited();
    many_parts();
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &matched);
    CHECK(matched == MPI_REAL8);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &matched);
    CHECK(matched == MPI_DOUBLE_INT);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
