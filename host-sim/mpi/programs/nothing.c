/* Null buffers, null datatypes and null lists where there is nothing to look at; null handles as numbers; what the interface says of
 * itself. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define WORLD MPI_COMM_WORLD
#define NONE MPI_DATATYPE_NULL
#define DONE(call) CHECK((call) == MPI_SUCCESS)

/* Messages without elements, and messages of no process. */
static void messages(void) {
    int position = 0, there = 0, nobody = MPI_PROC_NULL;
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    DONE(MPI_Send(NULL, 0, NONE, nobody, 0, WORLD));
    DONE(MPI_Send(NULL, 5, MPI_INT, nobody, 0, WORLD));
    DONE(MPI_Recv(NULL, 5, MPI_INT, nobody, 0, WORLD, &status));
    DONE(MPI_Isend(NULL, 0, NONE, nobody, 0, WORLD, &request));
    DONE(MPI_Wait(&request, &status));
    DONE(MPI_Irecv(NULL, 5, MPI_INT, nobody, 0, WORLD, &request));
    DONE(MPI_Wait(&request, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    DONE(MPI_Sendrecv(NULL, 0, MPI_INT, rank, 0, NULL, 0, MPI_INT, rank, 0, WORLD, &status));
    DONE(MPI_Sendrecv(NULL, 3, MPI_INT, nobody, 0, NULL, 3, MPI_INT, nobody, 0, WORLD, &status));
    DONE(MPI_Sendrecv_replace(NULL, 0, MPI_INT, nobody, 0, nobody, 0, WORLD, &status));
    DONE(MPI_Bsend(NULL, 0, MPI_INT, nobody, 0, WORLD));
    DONE(MPI_Mprobe(nobody, 0, WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    DONE(MPI_Mrecv(NULL, 4, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
    DONE(MPI_Mprobe(nobody, 0, WORLD, &message, &status));
    DONE(MPI_Imrecv(NULL, 4, MPI_INT, &message, &request));
    DONE(MPI_Wait(&request, &status));
    DONE(MPI_Psend_init(NULL, 1, 0, MPI_INT, nobody, 0, WORLD, MPI_INFO_NULL, &request));
    DONE(MPI_Request_free(&request));
    DONE(MPI_Psend_init(NULL, 4, 3, MPI_INT, nobody, 0, WORLD, MPI_INFO_NULL, &request));
    DONE(MPI_Start(&request));
    DONE(MPI_Pready_range(0, 3, request));
    DONE(MPI_Wait(&request, &status));
    DONE(MPI_Request_free(&request));
    DONE(MPI_Precv_init(NULL, 100, 3, MPI_INT, nobody, 0, WORLD, MPI_INFO_NULL, &request));
    DONE(MPI_Start(&request));
    DONE(MPI_Wait(&request, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    DONE(MPI_Request_free(&request));
    DONE(MPI_Parrived(MPI_REQUEST_NULL, 0, &there));
    CHECK(there == 1);
    DONE(MPI_Pack(NULL, 0, MPI_INT, NULL, 0, &position, WORLD));
    DONE(MPI_Unpack(NULL, 0, &position, NULL, 0, MPI_INT, WORLD));
}

static void collectives(void) {
    enum { MOST = 8 };
    int own[MOST] = {rank}, all[MOST], zeros[MOST] = {0}, ones[MOST], places[MOST];
    MPI_Datatype none[MOST], ints[MOST];
    int root = rank == 0;
    for (int i = 0; i < MOST; i++) none[i] = NONE, ints[i] = MPI_INT, ones[i] = 1, places[i] = 4 * i;
    DONE(MPI_Bcast(NULL, 0, MPI_INT, 0, WORLD));
    DONE(MPI_Bcast(NULL, 0, NONE, 0, WORLD));
    DONE(MPI_Reduce(NULL, NULL, 0, MPI_INT, MPI_SUM, 0, WORLD));
    DONE(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, WORLD));
    DONE(MPI_Exscan(NULL, NULL, 0, MPI_INT, MPI_SUM, WORLD));
    DONE(MPI_Reduce_scatter(NULL, NULL, zeros, MPI_INT, MPI_SUM, WORLD));
    DONE(MPI_Reduce_scatter_block(NULL, NULL, 0, MPI_INT, MPI_SUM, WORLD));
    DONE(MPI_Reduce_local(NULL, NULL, 0, MPI_INT, MPI_SUM));
    DONE(MPI_Gather(own, 1, MPI_INT, root ? all : NULL, root ? 1 : -3, root ? MPI_INT : NONE, 0, WORLD));
    CHECK(!root || all[size - 1] == size - 1);
    DONE(MPI_Scatter(root ? all : NULL, root, root ? MPI_INT : NONE, own, 1, MPI_INT, 0, WORLD));
    DONE(MPI_Gatherv(own, 1, MPI_INT, root ? all : NULL, root ? ones : NULL, root ? zeros : NULL, root ? MPI_INT : NONE, 0, WORLD));
    DONE(MPI_Allgather(NULL, 0, NONE, NULL, 0, NONE, WORLD));
    DONE(MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, WORLD));
    DONE(MPI_Alltoallv(NULL, zeros, zeros, MPI_INT, NULL, zeros, zeros, MPI_INT, WORLD));
    DONE(MPI_Alltoallw(NULL, zeros, zeros, none, NULL, zeros, zeros, none, WORLD));
    DONE(MPI_Allgather(MPI_IN_PLACE, 0, NONE, all, 1, MPI_INT, WORLD));
    DONE(MPI_Alltoall(MPI_IN_PLACE, 7, NONE, all, 1, MPI_INT, WORLD));
    DONE(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, all, ones, places, ints, WORLD));
}

static void lists(void) {
    int index, flag;
    MPI_Datatype made;
    MPI_Group group, part;
    MPI_Comm comm;
    DONE(MPI_Type_indexed(0, NULL, NULL, MPI_INT, &made));
    MPI_Type_free(&made);
    DONE(MPI_Type_create_struct(0, NULL, NULL, NULL, &made));
    MPI_Type_free(&made);
    DONE(MPI_Waitall(0, NULL, NULL));
    DONE(MPI_Testall(0, NULL, &flag, NULL));
    DONE(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    CHECK(flag && index == MPI_UNDEFINED);
    MPI_Comm_group(WORLD, &group);
    DONE(MPI_Group_incl(group, 0, NULL, &part));
    CHECK(part == MPI_GROUP_EMPTY);
    MPI_Group_free(&group);
    DONE(MPI_Dist_graph_create_adjacent(WORLD, 0, NULL, NULL, 0, NULL, NULL, MPI_INFO_NULL, 0, &comm));
    DONE(MPI_Neighbor_alltoallw(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, comm));
    DONE(MPI_Dist_graph_neighbors(comm, 0, NULL, NULL, 0, NULL, NULL));
    MPI_Comm_free(&comm);
}

#define NUMBER(kind, null) CHECK(MPI_##kind##_fromint(MPI_##kind##_toint(null)) == null)

static void numbers(void) {
    NUMBER(Comm, MPI_COMM_NULL);
    NUMBER(Errhandler, MPI_ERRHANDLER_NULL);
    NUMBER(File, MPI_FILE_NULL);
    NUMBER(Group, MPI_GROUP_NULL);
    NUMBER(Info, MPI_INFO_NULL);
    NUMBER(Message, MPI_MESSAGE_NULL);
    NUMBER(Message, MPI_MESSAGE_NO_PROC);
    NUMBER(Op, MPI_OP_NULL);
    NUMBER(Request, MPI_REQUEST_NULL);
    NUMBER(Session, MPI_SESSION_NULL);
    NUMBER(Type, MPI_DATATYPE_NULL);
    NUMBER(Win, MPI_WIN_NULL);
}

static int value_of(MPI_Info info, const char *key) {
    char text[32] = "";
    int flag, room = sizeof text;
    MPI_Info_get_string(info, key, &room, text, &flag);
    return flag ? atoi(text) : -1;
}

/* What is said of the binary interface is what C and the datatypes have. */
static void interface(void) {
    MPI_Info info;
    int bytes, when_true = -1, when_false = -1, is_set = 0;
    DONE(MPI_Abi_get_info(&info));
    CHECK(value_of(info, "mpi_aint_size") == sizeof(MPI_Aint) && value_of(info, "mpi_count_size") == sizeof(MPI_Count));
    CHECK(value_of(info, "mpi_offset_size") == sizeof(MPI_Offset) && value_of(info, "mpi_none_size") == -1);
    MPI_Info_free(&info);
    DONE(MPI_Abi_get_fortran_info(&info));
    MPI_Type_size(MPI_LOGICAL, &bytes);
    CHECK(value_of(info, "mpi_logical_size") == bytes);
    MPI_Type_size(MPI_DOUBLE_PRECISION, &bytes);
    CHECK(value_of(info, "mpi_double_precision_size") == bytes);
    DONE(MPI_Abi_set_fortran_info(info));
    MPI_Info_set(info, "mpi_integer_size", "8");
    int class;
    MPI_Error_class(MPI_Abi_set_fortran_info(info), &class);
    CHECK(class == MPI_ERR_ABI);
    MPI_Info_free(&info);
    DONE(MPI_Abi_get_fortran_booleans(sizeof when_true, &when_true, &when_false, &is_set));
    CHECK(is_set && when_true == 1 && when_false == 0);
    DONE(MPI_Abi_set_fortran_booleans(sizeof when_true, &when_true, &when_false));
}

int main(void) {
    int all = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    messages();
    collectives();
    lists();
    numbers();
    interface();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
