/* Several threads in calls of MPI at a time (MPI_THREAD_MULTIPLE). The last line of a good run is "ok". */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 80

static atomic_int failures;
static int rank, size;
static MPI_Comm comms[THREADS];

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int holds, const char *condition, int line) {
    if (holds) return;
    printf("rank %d, line %d: %s\n", rank, line, condition);
    failures++;
}

/* Messages around the ranks, in every way of waiting, of threads that use one communicator. */
static void around(int me, int round) {
    static const int lengths[] = {1, 100, 3000, 100000};
    int tag = 100 * me + round % 7, length = lengths[(round + me) % 4], flag = 0, index;
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    static _Thread_local int data[100000], into[100000];
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Status status;
    for (int i = 0; i < length; i++) data[i] = i + rank + me;
    switch (round % 6) {
    case 0:
        MPI_Sendrecv(data, length, MPI_INT, next, tag, into, length, MPI_INT, previous, tag, MPI_COMM_WORLD, &status);
        break;
    case 1:
        MPI_Isend(data, length, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Recv(into, length, MPI_INT, previous, tag, MPI_COMM_WORLD, &status);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Irecv(into, length, MPI_INT, previous, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Ssend(data, length, MPI_INT, next, tag, MPI_COMM_WORLD);
        while (!flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        break;
    case 3:
        MPI_Isend(data, length, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Mprobe(previous, tag, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(into, length, MPI_INT, &message, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 4:
        MPI_Irecv(into, length, MPI_INT, previous, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(data, length, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        break;
    default:
        MPI_Isend(data, length, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Probe(previous, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &index);
        CHECK(index == length);
        MPI_Recv(into, length, MPI_INT, previous, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    CHECK(into[0] == previous + me && into[length - 1] == length - 1 + previous + me);
}

/* Collectives on a communicator of the thread's own, and communicators that are made of it while other threads make theirs. */
static void together(int me, int round) {
    int sum = 0, word = rank == round % size ? round : -1;
    MPI_Comm made;
    MPI_Request request;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comms[me]);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Bcast(&word, 1, MPI_INT, round % size, comms[me]);
    CHECK(word == round);
    if (round % 2) {
        MPI_Comm_dup(comms[me], &made);
    } else {
        MPI_Comm_idup(comms[me], &made, &request);
        MPI_Barrier(comms[me]);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, made);
    CHECK(sum == size - 1);
    MPI_Comm_free(&made);
    MPI_Comm_split(comms[me], rank % 2, -rank, &made);
    MPI_Comm_free(&made);
}

/* One thread waits for what another one of this process sends: whoever waits lets the others in. */
static void for_another(int me, int round) {
    int got = -1, tag = 1000 + me / 2;
    if (me % 2) {
        MPI_Recv(&got, 1, MPI_INT, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        CHECK(got == round);
    } else {
        MPI_Ssend(&round, 1, MPI_INT, 0, tag, MPI_COMM_SELF);
    }
}

static void *work(void *number) {
    int me = (int)(MPI_Aint)number, is_main;
    MPI_Is_thread_main(&is_main);
    CHECK(is_main == (me == 0));
    for (int round = 0; round < ROUNDS; round++) {
        around(me, round);
        together(me, round);
        for_another(me, round);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, level, all, mine;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Query_thread(&level);
    CHECK(provided == MPI_THREAD_MULTIPLE && level == provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 1; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(MPI_Aint)i);
    work(NULL);
    for (int i = 1; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    mine = failures;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
