/* Many buffered sends at a time, by the process's buffer and by those of a communicator, drained in other orders than they were sent
   in, checked on every rank. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

enum { MANY = 2000, INTS = 15 };

static int right, left;

/* Sends all of them, each with a tag of its own. */
static void fill(MPI_Comm comm) {
    int data[INTS];
    for (int i = 0; i < MANY; i++) {
        for (int j = 0; j < INTS; j++) data[j] = rank * MANY + i + j;
        MPI_Bsend(data, i % INTS, MPI_INT, right, i, comm);
    }
}

/* Receives all of them, in steps that have no factor in common with how many there are. */
static void drain(MPI_Comm comm, int step) {
    int data[INTS], count, wrong = 0;
    MPI_Status status;
    for (int i = 0, tag = step % MANY; i < MANY; i++, tag = (tag + step) % MANY) {
        MPI_Recv(data, INTS, MPI_INT, left, tag, comm, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        wrong += count != tag % INTS;
        for (int j = 0; j < count; j++) wrong += data[j] != left * MANY + tag + j;
    }
    CHECK(wrong == 0);
}

/* Refused while the buffer is full, and taken as soon as anything in it has gone. */
static void full(void) {
    char message[1000] = {0}, in[1000];
    void *buffer = malloc(2 * (sizeof message + MPI_BSEND_OVERHEAD)), *detached;
    int bytes, error, sent = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Buffer_attach(buffer, 2 * (sizeof message + MPI_BSEND_OVERHEAD));
    /* A message that nobody receives yet leaves for as long as there are credits. */
    while ((error = MPI_Bsend(message, sizeof message, MPI_BYTE, right, 1, MPI_COMM_WORLD)) == MPI_SUCCESS) sent++;
    MPI_Error_class(error, &error);
    CHECK(error == MPI_ERR_BUFFER && sent >= 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(&sent, 1, MPI_INT, right, 2, &error, 1, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (error-- > 0) MPI_Recv(in, sizeof in, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_flush();
    MPI_Bsend(message, sizeof message, MPI_BYTE, right, 1, MPI_COMM_WORLD);
    MPI_Recv(in, sizeof in, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&detached, &bytes);
    CHECK(detached == buffer && bytes == 2 * ((int)sizeof message + MPI_BSEND_OVERHEAD));
    free(buffer);
}

int main(int argc, char **argv) {
    static const int steps[] = {1, MANY - 1, 1499, 777};
    int room = MANY * (INTS * (int)sizeof(int) + MPI_BSEND_OVERHEAD), bytes, all;
    void *buffer, *detached;
    MPI_Comm copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size, left = (rank + size - 1) % size;
    buffer = malloc(room);
    MPI_Buffer_attach(buffer, room);
    for (int i = 0; i < 4; i++) {
        fill(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        drain(MPI_COMM_WORLD, steps[i]);
    }
    MPI_Buffer_detach(&detached, &bytes);
    CHECK(detached == buffer && bytes == room);
    /* An automatic one of the process, twice, with a flush that is waited for like any request. */
    for (int i = 0; i < 2; i++) {
        MPI_Request flush;
        MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
        fill(MPI_COMM_WORLD);
        MPI_Buffer_iflush(&flush);
        MPI_Barrier(MPI_COMM_WORLD);
        drain(MPI_COMM_WORLD, steps[i]);
        MPI_Wait(&flush, MPI_STATUS_IGNORE);
        MPI_Buffer_flush();
        MPI_Buffer_detach(&detached, &bytes);
        CHECK(detached == MPI_BUFFER_AUTOMATIC);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int automatic = 0; automatic < 2; automatic++) {
        if (automatic) MPI_Comm_attach_buffer(copy, MPI_BUFFER_AUTOMATIC, 0);
        else MPI_Comm_attach_buffer(copy, buffer, room);
        fill(copy);
        MPI_Barrier(MPI_COMM_WORLD);
        drain(copy, steps[2 + automatic]);
        MPI_Comm_detach_buffer(copy, &detached, &bytes);
        CHECK(automatic ? detached == MPI_BUFFER_AUTOMATIC : detached == buffer && bytes == room);
    }
    MPI_Comm_free(&copy);
    free(buffer);
    full();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) puts(all ? "failed" : "ok");
    return all != 0;
}
