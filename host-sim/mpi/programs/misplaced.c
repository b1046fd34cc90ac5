/* MPI_IN_PLACE where it is not allowed, in each call that takes a buffer: MPI_ERR_BUFFER, and a text that names the argument. Checked
   on every rank. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures, rank, size;

static void refused(int error, const char *argument, int line) {
    int class = MPI_SUCCESS, len;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Error_class(error, &class);
    if (error != MPI_SUCCESS) MPI_Error_string(error, text, &len);
    if (class == MPI_ERR_BUFFER && strstr(text, "MPI_IN_PLACE") && strstr(text, argument)) return;
    printf("rank %d, line %d: class %d, \"%s\", which is to name %s\n", rank, line, class, text, argument);
    failures++;
}

#define REFUSED(call, argument) refused((call), argument, __LINE__)
#define HERE MPI_IN_PLACE
#define WORLD MPI_COMM_WORLD

static MPI_Request request;
static int in[64], out[64], ones[64], starts[64];

/* Elements in one piece, and elements with gaps. */
static void collectives(MPI_Datatype type) {
    int me = rank, other = (rank + 1) % size;
    REFUSED(MPI_Bcast(HERE, 1, type, 0, WORLD), "buffer");
    REFUSED(MPI_Ibcast(HERE, 1, type, 0, WORLD, &request), "buffer");
    REFUSED(MPI_Bcast_init(HERE, 1, type, 0, WORLD, MPI_INFO_NULL, &request), "buffer");
    /* At the root, what it receives or sends; elsewhere its own. */
    REFUSED(MPI_Gather(in, 1, type, HERE, 1, type, me, WORLD), "recvbuf");
    REFUSED(MPI_Igather(HERE, 1, type, HERE, 1, type, me, WORLD, &request), "recvbuf");
    REFUSED(MPI_Gatherv(in, 1, type, HERE, ones, starts, type, me, WORLD), "recvbuf");
    REFUSED(MPI_Scatter(HERE, 1, type, out, 1, type, me, WORLD), "sendbuf");
    REFUSED(MPI_Iscatter(HERE, 1, type, HERE, 1, type, me, WORLD, &request), "sendbuf");
    REFUSED(MPI_Scatterv(HERE, ones, starts, type, out, 1, type, me, WORLD), "sendbuf");
    if (other != me) {
        REFUSED(MPI_Gather(HERE, 1, type, out, 1, type, other, WORLD), "sendbuf");
        REFUSED(MPI_Igatherv(HERE, 1, type, out, ones, starts, type, other, WORLD, &request), "sendbuf");
        REFUSED(MPI_Scatter(in, 1, type, HERE, 1, type, other, WORLD), "recvbuf");
        REFUSED(MPI_Iscatterv(in, ones, starts, type, HERE, 1, type, other, WORLD, &request), "recvbuf");
    }
    REFUSED(MPI_Allgather(HERE, 1, type, HERE, 1, type, WORLD), "recvbuf");
    REFUSED(MPI_Iallgather(in, 1, type, HERE, 1, type, WORLD, &request), "recvbuf");
    REFUSED(MPI_Allgatherv(in, 1, type, HERE, ones, starts, type, WORLD), "recvbuf");
    REFUSED(MPI_Alltoall(in, 1, type, HERE, 1, type, WORLD), "recvbuf");
    REFUSED(MPI_Alltoall(HERE, 1, type, HERE, 1, type, WORLD), "recvbuf");
    REFUSED(MPI_Ialltoall(in, 1, type, HERE, 1, type, WORLD, &request), "recvbuf");
    REFUSED(MPI_Alltoallv(HERE, ones, starts, type, HERE, ones, starts, type, WORLD), "recvbuf");
}

static void reductions(MPI_Datatype type, MPI_Op op) {
    int me = rank, other = (rank + 1) % size;
    REFUSED(MPI_Allreduce(HERE, HERE, 1, type, op, WORLD), "recvbuf");
    REFUSED(MPI_Allreduce(in, HERE, 1, type, op, WORLD), "recvbuf");
    REFUSED(MPI_Iallreduce(HERE, HERE, 1, type, op, WORLD, &request), "recvbuf");
    REFUSED(MPI_Allreduce_init(in, HERE, 1, type, op, WORLD, MPI_INFO_NULL, &request), "recvbuf");
    REFUSED(MPI_Reduce(in, HERE, 1, type, op, me, WORLD), "recvbuf");
    REFUSED(MPI_Ireduce(HERE, HERE, 1, type, op, me, WORLD, &request), "recvbuf");
    if (other != me) {
        REFUSED(MPI_Reduce(HERE, out, 1, type, op, other, WORLD), "sendbuf");
        REFUSED(MPI_Ireduce(HERE, HERE, 1, type, op, other, WORLD, &request), "sendbuf");
    }
    REFUSED(MPI_Scan(HERE, HERE, 1, type, op, WORLD), "recvbuf");
    REFUSED(MPI_Iscan(in, HERE, 1, type, op, WORLD, &request), "recvbuf");
    REFUSED(MPI_Exscan(HERE, HERE, 1, type, op, WORLD), "recvbuf");
    REFUSED(MPI_Reduce_scatter(in, HERE, ones, type, op, WORLD), "recvbuf");
    REFUSED(MPI_Reduce_scatter_block(HERE, HERE, 1, type, op, WORLD), "recvbuf");
    REFUSED(MPI_Ireduce_scatter_block(in, HERE, 1, type, op, WORLD, &request), "recvbuf");
    REFUSED(MPI_Reduce_local(HERE, out, 1, type, op), "inbuf");
    REFUSED(MPI_Reduce_local(in, HERE, 1, type, op), "inoutbuf");
}

static void neighbours(MPI_Datatype type) {
    MPI_Comm ring;
    int period = 1;
    MPI_Cart_create(WORLD, 1, &size, &period, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    REFUSED(MPI_Neighbor_allgather(HERE, 1, type, out, 1, type, ring), "sendbuf");
    REFUSED(MPI_Ineighbor_allgather(in, 1, type, HERE, 1, type, ring, &request), "recvbuf");
    REFUSED(MPI_Neighbor_allgatherv(in, 1, type, HERE, ones, starts, type, ring), "recvbuf");
    REFUSED(MPI_Neighbor_alltoall(HERE, 1, type, out, 1, type, ring), "sendbuf");
    REFUSED(MPI_Neighbor_alltoall(in, 1, type, HERE, 1, type, ring), "recvbuf");
    REFUSED(MPI_Neighbor_alltoallv(in, ones, starts, type, HERE, ones, starts, type, ring), "recvbuf");
    MPI_Comm_free(&ring);
}

/* Messages have one buffer, or two. */
static void messages(MPI_Datatype type) {
    int bytes = 0;
    MPI_Status status;
    REFUSED(MPI_Send(HERE, 1, type, rank, 0, WORLD), "");
    REFUSED(MPI_Isend(HERE, 1, type, rank, 0, WORLD, &request), "");
    REFUSED(MPI_Ssend(HERE, 1, type, rank, 0, WORLD), "");
    REFUSED(MPI_Recv(HERE, 1, type, rank, 0, WORLD, &status), "");
    REFUSED(MPI_Irecv(HERE, 1, type, rank, 0, WORLD, &request), "");
    REFUSED(MPI_Send_init(HERE, 1, type, rank, 0, WORLD, &request), "");
    REFUSED(MPI_Recv_init(HERE, 1, type, rank, 0, WORLD, &request), "");
    REFUSED(MPI_Sendrecv(in, 1, type, MPI_PROC_NULL, 0, HERE, 1, type, MPI_PROC_NULL, 0, WORLD, &status), "");
    REFUSED(MPI_Sendrecv_replace(HERE, 1, type, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, WORLD, &status), "");
    REFUSED(MPI_Pack(HERE, 1, type, out, sizeof out, &bytes, WORLD), "");
    REFUSED(MPI_Unpack(in, sizeof in, &bytes, HERE, 1, type, WORLD), "");
}

static void add(void *from, void *into, int *count, MPI_Datatype *of) {
    (void)of;
    for (int i = 0; i < 2 * *count; i += 2) ((int *)into)[i] += ((int *)from)[i];
}

int main(int argc, char **argv) {
    int total, sum = 1;
    MPI_Datatype apart, far;
    MPI_Op op;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 64; i++) ones[i] = 1, starts[i] = i;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &apart);
    MPI_Type_commit(&apart);
    /* Beyond any page that is never there. */
    MPI_Type_create_indexed_block(1, 1, (int[]){1 << 20}, MPI_INT, &far);
    MPI_Type_commit(&far);
    MPI_Op_create(add, 1, &op);
    collectives(MPI_INT), collectives(MPI_BYTE), collectives(apart), collectives(far);
    reductions(MPI_INT, MPI_SUM), reductions(apart, op);
    neighbours(MPI_INT), neighbours(apart);
    messages(MPI_INT), messages(MPI_BYTE), messages(apart), messages(far);
    /* Where it is allowed, all is as it was. */
    MPI_Allreduce(HERE, &sum, 1, MPI_INT, MPI_SUM, WORLD);
    if (sum != size) failures++;
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, WORLD);
    if (rank == 0 && total == 0) printf("ok\n");
    MPI_Type_free(&apart), MPI_Type_free(&far), MPI_Op_free(&op);
    MPI_Finalize();
    return total != 0;
}
