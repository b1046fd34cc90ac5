/* Sends that are cancelled, with a receive and without: the wait ends, and each message is cancelled or received, as both sides know.
   The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { LONG = 1000000, WINDOW = 50, TAG = 7, TOLD = 8 };

static char out[LONG], in[LONG];
static const int lengths[] = {0, 1, 100, 10000, LONG};

/* How a message is sent, and what is done before it is cancelled. */
enum { STANDARD, SYNCHRONOUS, PERSISTENT, MODES };

static void start(int mode, int length, int to, MPI_Request *request) {
    if (mode == STANDARD) MPI_Isend(out, length, MPI_CHAR, to, TAG, MPI_COMM_WORLD, request);
    if (mode == SYNCHRONOUS) MPI_Issend(out, length, MPI_CHAR, to, TAG, MPI_COMM_WORLD, request);
    if (mode == PERSISTENT) {
        MPI_Send_init(out, length, MPI_CHAR, to, TAG, MPI_COMM_WORLD, request);
        MPI_Start(request);
    }
}

static int was_cancelled(MPI_Request *request) {
    MPI_Status status;
    int cancelled = -1;
    MPI_Cancel(request);
    MPI_Wait(request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled == 0 || cancelled == 1);
    return cancelled;
}

static void sender(int mode, int length, int looks, int to) {
    MPI_Request request;
    int flag;
    memset(out, length % 251, length);
    start(mode, length, to, &request);
    for (int i = 0; i < looks; i++) MPI_Iprobe(to, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    int cancelled = was_cancelled(&request);
    if (mode == PERSISTENT) MPI_Request_free(&request);
    MPI_Send(&cancelled, 1, MPI_INT, to, TOLD, MPI_COMM_WORLD);
}

static void receiver(int length, int posted, int from) {
    MPI_Request request;
    MPI_Status status;
    int cancelled = -1, count = -1, flag = -1;
    memset(in, 252, length);
    if (posted) MPI_Irecv(in, LONG, MPI_CHAR, from, TAG, MPI_COMM_WORLD, &request);
    MPI_Recv(&cancelled, 1, MPI_INT, from, TOLD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (cancelled) {
        MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        if (posted) CHECK(was_cancelled(&request));
        return;
    }
    if (!posted) MPI_Irecv(in, LONG, MPI_CHAR, from, TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_CHAR, &count);
    CHECK(count == length);
    for (int i = 0; i < length; i++) {
        if (in[i] != (char)(length % 251)) {
            CHECK(!"the message's bytes");
            break;
        }
    }
}

/* Many at a time, more than a receiver has envelopes for, and one among them that is received. */
static void window(int to) {
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    int told[WINDOW];
    for (int i = 0; i < WINDOW; i++) MPI_Issend(out, LONG, MPI_CHAR, to, TAG + 2 + i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < WINDOW; i++) {
        if (i != WINDOW / 2) MPI_Cancel(&requests[i]);
    }
    MPI_Waitall(WINDOW, requests, statuses);
    for (int i = 0; i < WINDOW; i++) MPI_Test_cancelled(&statuses[i], &told[i]);
    CHECK(!told[WINDOW / 2]);
    MPI_Send(told, WINDOW, MPI_INT, to, TOLD, MPI_COMM_WORLD);
}

static void taker(int from) {
    int told[WINDOW];
    MPI_Recv(in, LONG, MPI_CHAR, from, TAG + 2 + WINDOW / 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(told, WINDOW, MPI_INT, from, TOLD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < WINDOW; i++) {
        if (i == WINDOW / 2) continue;
        if (!told[i]) MPI_Recv(in, LONG, MPI_CHAR, from, TAG + 2 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    int flag = -1;
    MPI_Iprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
}

/* A message to oneself is cancelled at once: programs look, and receive what is not. */
static void to_oneself(int mode, int length) {
    MPI_Request request;
    MPI_Status status;
    int flag = 0, cancelled = 0;
    start(mode, length, rank, &request);
    MPI_Cancel(&request);
    MPI_Request_get_status(request, &flag, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(flag);
    if (flag && !cancelled) MPI_Recv(in, LONG, MPI_CHAR, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (mode == PERSISTENT) MPI_Request_free(&request);
    MPI_Iprobe(rank, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int mode = 0; mode < MODES; mode++) {
        for (int each = 0; each < (int)(sizeof lengths / sizeof *lengths); each++) {
            to_oneself(mode, lengths[each]);
            for (int looks = 0; looks < 40; looks += 13) {
                for (int posted = 0; posted < 2; posted++) {
                    if (rank == size - 1) receiver(lengths[each], posted, 0);
                    if (rank == 0) sender(mode, lengths[each], looks, size - 1);
                    MPI_Barrier(MPI_COMM_WORLD);
                }
            }
        }
    }
    if (rank == 0) window(size - 1);
    if (rank == size - 1) taker(0);
    int all = 0;
    MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && all == 0) printf("ok\n");
    MPI_Finalize();
    return failures != 0;
}
