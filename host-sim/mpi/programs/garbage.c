/* Every function of the interface with one argument that is garbage, and what is wrong for other reasons. A call is survived if the process
   goes on and still communicates with itself; it is right if it is refused by one of the classes that the standard has for it. The calls of
   the first kind are in garbage_calls.h, which xtask writes from the table of functions. A process makes them one after the other; when
   one ends it, or takes too long, another goes on behind it. The last line of a good run is "ok". */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 20000
#define SECONDS 20
#define WORLD MPI_COMM_WORLD
#define ANY (-1)
#define REFUSED (-2)
#ifdef MPI_ERR_ERRHANDLER
#define ERR_ERRHANDLER MPI_ERR_ERRHANDLER, MPI_ERR_ARG
#else
#define ERR_ERRHANDLER MPI_ERR_ARG
#endif

enum verdict { NOT_TRIED, RIGHT, OTHER_CLASS, TAKEN, BROKEN, CRASHED, HUNG };
static const char *const VERDICTS[] = {"not tried", "right", "of class", "taken", "broken afterwards", "crashed", "hung"};

struct tried {
    const char *function, *what;
    enum verdict verdict;
    int class;
    char text[MPI_MAX_ERROR_STRING];
};

/* What the processes share. */
static struct {
    int first, at, is_over;
    struct tried of[CALLS];
} *shared;

static int number_of_call;

/* Handles of any bits. */
#define BITS 0x5a5a5a5a5a5a5a50ull
#define AS(kind, bits) (*(kind *)memcpy(&(kind){0}, &(uint64_t){(bits)}, sizeof(kind)))
#define RANDOM(kind) AS(kind, BITS)
#define SMALL(kind) AS(kind, 3)
#define OTHER(kind) AS(kind, bits_of_another(#kind))

static MPI_Comm cart, graph, dist, buffered, marked, own, freed_MPI_Comm, new_MPI_Comm;
static MPI_Datatype vector, uncommitted, marked_type, own_type, freed_MPI_Datatype, new_MPI_Datatype, some_types[8], ints[3];
static MPI_Group group, own_group, freed_MPI_Group, new_MPI_Group;
static MPI_Op own_op, freed_MPI_Op, new_MPI_Op;
static MPI_Info info, own_info, freed_MPI_Info, new_MPI_Info;
#if MPI_VERSION >= 4
static MPI_Session session, own_session, buffered_session, freed_MPI_Session, new_MPI_Session;
#endif
static MPI_Errhandler own_handler, freed_MPI_Errhandler, new_MPI_Errhandler;
static MPI_Request general, arriving, leaving, persistent, receiving, own_request, no_request, freed_MPI_Request, new_MPI_Request;
static MPI_Request sending, matched, expected[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
static MPI_Message message, freed_MPI_Message, new_MPI_Message;
static MPI_Status status, statuses[4];
static MPI_Aint address, addresses[8];
static MPI_Count count, counts[8];
static int in[512], out[512], zeroes[8], numbers[8], number, comm_key, type_key, freed_key, own_comm_key, own_type_key;
static int added_code, added_class;
static int aside[64];
static char room[MPI_MAX_LIBRARY_VERSION_STRING + 4096], packed[512], long_text[8192], own_buffer[4096];
static void *pointer;

static uint64_t bits_of_another(const char *kind) {
    uint64_t bits = 0;
    if (strcmp(kind, "MPI_Datatype") == 0) memcpy(&bits, &cart, sizeof cart);
    else memcpy(&bits, &vector, sizeof vector);
    return bits;
}

static void add(void *from, void *into, int *len, MPI_Datatype *of) {
    (void)of;
    for (int i = 0; i < *len; i++) ((int *)into)[i] += ((int *)from)[i];
}

static void add_c(void *from, void *into, MPI_Count *len, MPI_Datatype *of) {
    int small = (int)*len;
    add(from, into, &small, of);
}

static void hear(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }
#if MPI_VERSION >= 4
static void hear_session(MPI_Session *of, int *code, ...) { (void)of, (void)code; }
#endif
static int query(void *extra, MPI_Status *of) { return (void)extra, MPI_Status_set_elements(of, MPI_INT, 0); }
static int let_go(void *extra) { return (void)extra, MPI_SUCCESS; }
static int cancel(void *extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }

/* Handles that were freed. */
static void begin_freed(void) {
    MPI_Comm_dup(MPI_COMM_WORLD, &freed_MPI_Comm), MPI_Comm_free(&(MPI_Comm){freed_MPI_Comm});
    MPI_Type_contiguous(2, MPI_INT, &freed_MPI_Datatype), MPI_Type_free(&(MPI_Datatype){freed_MPI_Datatype});
    MPI_Group_incl(group, 1, zeroes, &freed_MPI_Group), MPI_Group_free(&(MPI_Group){freed_MPI_Group});
    MPI_Op_create(add, 1, &freed_MPI_Op), MPI_Op_free(&(MPI_Op){freed_MPI_Op});
    MPI_Info_create(&freed_MPI_Info), MPI_Info_free(&(MPI_Info){freed_MPI_Info});
    MPI_Comm_create_errhandler(hear, &freed_MPI_Errhandler), MPI_Errhandler_free(&(MPI_Errhandler){freed_MPI_Errhandler});
#if MPI_VERSION >= 4
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &freed_MPI_Session), MPI_Session_finalize(&(MPI_Session){freed_MPI_Session});
#endif
    MPI_Send_init(in, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &freed_MPI_Request), MPI_Request_free(&(MPI_Request){freed_MPI_Request});
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &freed_key, NULL), MPI_Comm_free_keyval(&(int){freed_key});
    MPI_Isend(in, 1, MPI_INT, 0, 6, MPI_COMM_SELF, &sending);
    MPI_Mprobe(0, 6, MPI_COMM_SELF, &freed_MPI_Message, &status);
    MPI_Mrecv(out, 1, MPI_INT, &(MPI_Message){freed_MPI_Message}, &status);
    MPI_Wait(&sending, &status);
}

/* Objects that last as long as the process. */
static void begin_process(void) {
    int one = 1, zero = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &one, 0, &cart);
    MPI_Graph_create(MPI_COMM_WORLD, 1, &one, &zero, 0, &graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &zero, MPI_UNWEIGHTED, 1, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist);
    MPI_Type_vector(2, 1, 2, MPI_INT, &vector), MPI_Type_commit(&vector);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    for (int i = 0; i < 3; i++) ints[i] = MPI_INT;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Info_create(&info);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
#if MPI_VERSION >= 4
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &buffered_session);
#endif
    MPI_Comm_dup(MPI_COMM_WORLD, &buffered), MPI_Comm_dup(MPI_COMM_WORLD, &marked);
    MPI_Type_dup(MPI_INT, &marked_type);
    memset(long_text, 'x', sizeof long_text - 1);
    begin_freed();
}

/* Objects that a call uses up. */
static void prepare(void) {
    no_request = new_MPI_Request = MPI_REQUEST_NULL, new_MPI_Comm = MPI_COMM_NULL;
    memset(zeroes, 0, sizeof zeroes);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Type_dup(MPI_INT, &own_type);
    MPI_Comm_group(MPI_COMM_WORLD, &own_group);
    MPI_Op_create(add, 1, &own_op);
    MPI_Info_create(&own_info), MPI_Info_set(info, "key", "value");
    MPI_Comm_create_errhandler(hear, &own_handler);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &own_comm_key, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &own_type_key, NULL);
    MPI_Comm_set_attr(marked, comm_key, NULL), MPI_Type_set_attr(marked_type, type_key, NULL);
    MPI_Grequest_start(query, let_go, cancel, NULL, &general);
    MPI_Send_init(aside + 48, 1, MPI_INT, 0, 8, MPI_COMM_SELF, &persistent);
    MPI_Send_init(aside + 48, 1, MPI_INT, 0, 8, MPI_COMM_SELF, &own_request);
    MPI_Irecv(aside, 1, MPI_INT, 0, 99, MPI_COMM_SELF, &receiving);
    MPI_Add_error_class(&added_class), MPI_Add_error_code(MPI_ERR_OTHER, &added_code);
    MPI_Isend(aside + 48, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &matched);
    MPI_Mprobe(0, 7, MPI_COMM_SELF, &message, &status);
    MPI_Isend(aside + 48, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &sending);
#if MPI_VERSION >= 4
    MPI_Psend_init(aside + 16, 1, 1, MPI_INT, 0, 10, MPI_COMM_SELF, MPI_INFO_NULL, &leaving);
    MPI_Precv_init(aside + 8, 1, 1, MPI_INT, 0, 10, MPI_COMM_SELF, MPI_INFO_NULL, &arriving);
    MPI_Start(&arriving), MPI_Start(&leaving);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &own_session), new_MPI_Session = MPI_SESSION_NULL;
#endif
#if MPI_VERSION >= 5
    MPI_Comm_attach_buffer(buffered, room, sizeof room);
    MPI_Session_attach_buffer(buffered_session, room, sizeof room);
#endif
}

/* For a send that needs a receive: the first meets what is there already. */
static int with_receive(void) {
    for (int i = 0; i < 2; i++) MPI_Irecv(aside + 24 + 8 * i, 8, MPI_INT, 0, 5, MPI_COMM_WORLD, &expected[i]);
    return 0;
}

/* For a send that needs a buffer. */
static int with_buffer(void) { return MPI_Buffer_attach(own_buffer, sizeof own_buffer); }

/* Receives what is left. */
static void drain(MPI_Comm comm) {
    int flag = 1;
    MPI_Status found;
    for (int i = 0; i < 100 && flag; i++) {
        flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &found);
        if (flag) MPI_Recv(out, sizeof out, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found);
    }
}

static void end_request(MPI_Request *request) {
    int done = 0;
    for (int i = 0; i < 10 && !done && *request != MPI_REQUEST_NULL; i++) MPI_Test(request, &done, &status);
    if (*request == MPI_REQUEST_NULL) return;
    if (!done) MPI_Cancel(request);
    MPI_Request_free(request);
}

/* Lets go of them. */
static void clean(void) {
#if MPI_VERSION >= 4
    MPI_Pready(0, leaving);
    end_request(&leaving), end_request(&arriving);
    if (own_session != MPI_SESSION_NULL) MPI_Session_finalize(&own_session);
    if (new_MPI_Session != MPI_SESSION_NULL) MPI_Session_finalize(&new_MPI_Session);
#endif
    drain(MPI_COMM_WORLD), drain(MPI_COMM_SELF);
    end_request(&new_MPI_Request);
    if (message != MPI_MESSAGE_NULL) MPI_Mrecv(out, 1, MPI_INT, &message, &status);
    end_request(&matched), end_request(&sending), end_request(&expected[0]), end_request(&expected[1]);
    MPI_Buffer_detach(&pointer, &number);
#if MPI_VERSION >= 5
    MPI_Comm_detach_buffer(buffered, &pointer, &number);
    MPI_Session_detach_buffer(buffered_session, &pointer, &number);
#endif
    drain(MPI_COMM_WORLD), drain(MPI_COMM_SELF);
    end_request(&persistent), end_request(&own_request), end_request(&receiving);
    MPI_Grequest_complete(general), end_request(&general);
    if (own != MPI_COMM_NULL) MPI_Comm_free(&own);
    if (new_MPI_Comm != MPI_COMM_NULL) MPI_Comm_free(&new_MPI_Comm);
    if (own_type != MPI_DATATYPE_NULL) MPI_Type_free(&own_type);
    if (own_group != MPI_GROUP_NULL) MPI_Group_free(&own_group);
    if (own_op != MPI_OP_NULL) MPI_Op_free(&own_op);
    if (own_info != MPI_INFO_NULL) MPI_Info_free(&own_info);
    if (own_handler != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&own_handler);
    if (own_comm_key != MPI_KEYVAL_INVALID) MPI_Comm_free_keyval(&own_comm_key);
    if (own_type_key != MPI_KEYVAL_INVALID) MPI_Type_free_keyval(&own_type_key);
}

/* Whether the process still communicates. */
static int is_whole(void) {
    int given = 4711, got = 0, sum = 0;
    if (MPI_Sendrecv(&given, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &status) != MPI_SUCCESS) return 0;
    if (MPI_Allreduce(&given, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) return 0;
    return got == given && sum == given;
}

/* The next call: whether it is made here. */
__attribute__((noinline)) static int begin(const char *function, const char *what) {
    int here = number_of_call++;
    if (here < shared->first || here >= CALLS) return 0;
    shared->of[here].function = function, shared->of[here].what = what;
    shared->at = here;
    alarm(SECONDS);
    prepare();
    return 1;
}

/* What it has come to. */
__attribute__((noinline)) static void end(int code, const int *expected) {
    struct tried *tried = &shared->of[shared->at];
    int class = code;
    if (code != MPI_SUCCESS && *expected != ANY) MPI_Error_class(code, &class);
    enum verdict verdict = class == MPI_SUCCESS ? TAKEN : OTHER_CLASS;
    if (*expected == ANY || (*expected == REFUSED && class != MPI_SUCCESS)) verdict = RIGHT;
    for (int i = 0; i == 0 || expected[i] > MPI_SUCCESS; i++)
        if (class == expected[i]) verdict = RIGHT;
    if (verdict == OTHER_CLASS) MPI_Error_string(code, tried->text, &number);
    clean();
    tried->class = class;
    tried->verdict = is_whole() ? verdict : BROKEN;
}

/* Makes a call, if it is its turn. The classes by which it may be refused; MPI_SUCCESS alone if it is right. */
#define TRY(function, what, call, ...) \
    if (begin(function, what)) end((call), (const int[]){__VA_ARGS__, MPI_SUCCESS})

#include "garbage_calls.h"

/* A refused exchange leaves no receive behind, which would take a message of somebody else. */
static int exchange_in_vain(void) {
    int flag = 0;
    if (MPI_Sendrecv(in, 1, MPI_INT, 1, 33, out, 1, MPI_INT, 0, 33, WORLD, &status) == MPI_SUCCESS) return MPI_ERR_OTHER;
    MPI_Isend(in, 1, MPI_INT, 0, 33, WORLD, &new_MPI_Request);
    MPI_Iprobe(0, 33, WORLD, &flag, &status);
    return flag ? MPI_SUCCESS : MPI_ERR_PENDING;
}

/* Buffers that are one, or too short. */
static void try_buffers(void) {
    TRY("MPI_Allreduce", "buffers that overlap", MPI_Allreduce(in, in + 1, 4, MPI_INT, MPI_SUM, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Allreduce", "one buffer for both", MPI_Allreduce(in, in, 4, MPI_INT, MPI_SUM, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Scan", "one buffer for both", MPI_Scan(in, in, 1, MPI_INT, MPI_SUM, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Allgather", "one buffer for both", MPI_Allgather(in, 1, MPI_INT, in, 1, MPI_INT, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Alltoall", "one buffer for both", MPI_Alltoall(in, 1, MPI_INT, in, 1, MPI_INT, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Gather", "one buffer for both", MPI_Gather(in, 1, MPI_INT, in, 1, MPI_INT, 0, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Scatter", "one buffer for both", MPI_Scatter(in, 1, MPI_INT, in, 1, MPI_INT, 0, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Allgather", "more than its block", MPI_Allgather(in, 4, MPI_INT, out, 1, MPI_INT, WORLD), MPI_ERR_TRUNCATE);
    TRY("MPI_Alltoall", "more than its block", MPI_Alltoall(in, 4, MPI_INT, out, 1, MPI_INT, WORLD), MPI_ERR_TRUNCATE);
    TRY("MPI_Gather", "more than its block", MPI_Gather(in, 4, MPI_INT, out, 1, MPI_INT, 0, WORLD), MPI_ERR_TRUNCATE);
    TRY("MPI_Scatter", "more than its block", MPI_Scatter(in, 4, MPI_INT, out, 1, MPI_INT, 0, WORLD), MPI_ERR_TRUNCATE);
    TRY("MPI_Sendrecv", "more than there is room for", MPI_Sendrecv(in, 4, MPI_INT, 0, 4, out, 1, MPI_INT, 0, 4, WORLD, &status), MPI_ERR_TRUNCATE);
    TRY("MPI_Sendrecv", "to a rank that there is not", exchange_in_vain(), MPI_SUCCESS);
    TRY("MPI_Sendrecv", "one buffer for both", MPI_Sendrecv(in, 4, MPI_INT, 0, 4, in, 4, MPI_INT, 0, 4, WORLD, &status), ANY);
    TRY("MPI_Recv", "more than there is room for", MPI_Recv(out, 1, MPI_BYTE, 0, 5, WORLD, &status), MPI_ERR_TRUNCATE);
    TRY("MPI_Bsend", "no buffer", MPI_Bsend(in, 1, MPI_INT, 0, 5, WORLD), MPI_ERR_BUFFER);
    TRY("MPI_Bsend", "more than the buffer has", (MPI_Buffer_attach(own_buffer, 4), MPI_Bsend(in, 64, MPI_INT, 0, 5, WORLD)), MPI_ERR_BUFFER);
    TRY("MPI_Buffer_attach", "a second one", (MPI_Buffer_attach(own_buffer, 64), MPI_Buffer_attach(room, 64)), MPI_ERR_BUFFER);
    TRY("MPI_Unpack", "more than there is", MPI_Unpack(packed, 2, &(int){0}, out, 1, MPI_INT, WORLD), MPI_ERR_TRUNCATE, MPI_ERR_ARG);
    TRY("MPI_Pack", "more than there is room for", MPI_Pack(in, 4, MPI_INT, room, 2, &(int){0}, WORLD), MPI_ERR_TRUNCATE, MPI_ERR_ARG, MPI_ERR_OTHER);
#if MPI_VERSION >= 4
    TRY("MPI_Send_c", "more bytes than there are", MPI_Send_c(in, LONG_MAX, MPI_BYTE, 0, 5, WORLD), MPI_ERR_COUNT, MPI_ERR_BUFFER);
    TRY("MPI_Isend_c", "more bytes than there are", MPI_Isend_c(in, LONG_MAX / 8, MPI_INT, 0, 5, WORLD, &new_MPI_Request), MPI_ERR_COUNT, MPI_ERR_BUFFER);
    TRY("MPI_Recv_c", "more bytes than there are", MPI_Recv_c(out, LONG_MAX / 8, MPI_INT, 0, 5, WORLD, &status), MPI_ERR_COUNT, MPI_ERR_BUFFER);
    TRY("MPI_Bcast_c", "more bytes than there are", MPI_Bcast_c(in, LONG_MAX, MPI_BYTE, 0, WORLD), MPI_ERR_COUNT, MPI_ERR_BUFFER);
#endif
}

/* Objects that are not fit, or are used twice. */
static void try_objects(void) {
    TRY("MPI_Allreduce", "MPI_BAND of MPI_DOUBLE", MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_BAND, WORLD), MPI_ERR_OP);
    TRY("MPI_Allreduce", "MPI_REPLACE", MPI_Allreduce(in, out, 1, MPI_INT, MPI_REPLACE, WORLD), MPI_ERR_OP);
    TRY("MPI_Reduce", "MPI_NO_OP", MPI_Reduce(in, out, 1, MPI_INT, MPI_NO_OP, 0, WORLD), MPI_ERR_OP);
    TRY("MPI_Iscan", "MPI_NO_OP", MPI_Iscan(in, out, 1, MPI_INT, MPI_NO_OP, WORLD, &new_MPI_Request), MPI_ERR_OP);
    TRY("MPI_Allreduce", "MPI_SUM of a derived type", MPI_Allreduce(in, out, 1, vector, MPI_SUM, WORLD), MPI_ERR_OP, MPI_ERR_TYPE);
    TRY("MPI_Start", "a request that is under way", MPI_Start(&receiving), MPI_ERR_REQUEST);
    TRY("MPI_Startall", "a request twice", MPI_Startall(2, (MPI_Request[]){persistent, persistent}), MPI_ERR_REQUEST);
    TRY("MPI_Waitall", "one that is no request", MPI_Waitall(2, (MPI_Request[]){MPI_REQUEST_NULL, RANDOM(MPI_Request)}, statuses), MPI_ERR_REQUEST);
    TRY("MPI_Comm_free", "a second time", (MPI_Comm_free(&(MPI_Comm){own}), MPI_Comm_free(&own)), MPI_ERR_COMM);
    TRY("MPI_Type_free", "a second time", (MPI_Type_free(&(MPI_Datatype){own_type}), MPI_Type_free(&own_type)), MPI_ERR_TYPE);
    TRY("MPI_Info_free", "a second time", (MPI_Info_free(&(MPI_Info){own_info}), MPI_Info_free(&own_info)), MPI_ERR_INFO);
    TRY("MPI_Request_free", "a second time", (MPI_Request_free(&(MPI_Request){own_request}), MPI_Request_free(&own_request)), MPI_ERR_REQUEST);
    TRY("MPI_Mrecv", "a second time", (MPI_Mrecv(out, 1, MPI_INT, &(MPI_Message){message}, &status), MPI_Mrecv(out, 1, MPI_INT, &message, &status)), MPI_ERR_REQUEST);
    TRY("MPI_Grequest_complete", "a second time", (MPI_Grequest_complete(general), MPI_Grequest_complete(general)), MPI_ERR_REQUEST);
    TRY("MPI_Init", "a second time", MPI_Init(NULL, NULL), MPI_ERR_OTHER);
#if MPI_VERSION >= 4
    TRY("MPI_Pready", "a second time", (MPI_Pready(0, leaving), MPI_Pready(0, leaving)), MPI_ERR_ARG, MPI_ERR_REQUEST);
    TRY("MPI_Pready", "the request of a receive", MPI_Pready(0, arriving), MPI_ERR_REQUEST, MPI_ERR_ARG);
    TRY("MPI_Pready_range", "an end before the beginning", MPI_Pready_range(1, 0, leaving), MPI_ERR_ARG);
    TRY("MPI_Psend_init", "more than memory has", MPI_Psend_init(in, INT_MAX, LONG_MAX, MPI_INT, 0, 5, WORLD, MPI_INFO_NULL, &new_MPI_Request), MPI_ERR_COUNT, MPI_ERR_ARG);
#endif
}

/* Lists that are too long, or do not fit together. */
static void try_lists(void) {
    TRY("MPI_Group_incl", "a rank twice", MPI_Group_incl(group, 2, zeroes, &new_MPI_Group), MPI_ERR_RANK);
    TRY("MPI_Group_excl", "a rank twice", MPI_Group_excl(group, 2, zeroes, &new_MPI_Group), MPI_ERR_RANK);
    TRY("MPI_Cart_create", "more ranks than an int has", MPI_Cart_create(WORLD, 3, (int[]){INT_MAX, INT_MAX, INT_MAX}, zeroes, 0, &new_MPI_Comm), MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_ERR_COMM);
    TRY("MPI_Cart_create", "very many dimensions", MPI_Cart_create(WORLD, INT_MAX, NULL, NULL, 0, &new_MPI_Comm), MPI_ERR_DIMS, MPI_ERR_ARG);
    TRY("MPI_Dims_create", "more than an int has", MPI_Dims_create(INT_MAX, 3, (int[]){INT_MAX, INT_MAX, 0}), MPI_ERR_DIMS, MPI_ERR_ARG);
    TRY("MPI_Dist_graph_create", "more edges than an int has", MPI_Dist_graph_create(WORLD, 2, zeroes, (int[]){INT_MAX, INT_MAX}, zeroes, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &new_MPI_Comm), MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_NO_MEM);
    TRY("MPI_Type_create_struct", "blocks beyond all addresses", MPI_Type_create_struct(2, (int[]){INT_MAX, INT_MAX}, (MPI_Aint[]){LONG_MAX, LONG_MIN}, ints, &new_MPI_Datatype), ANY);
    TRY("MPI_Type_vector", "a stride beyond all addresses", MPI_Type_vector(INT_MAX, INT_MAX, INT_MIN, MPI_DOUBLE, &new_MPI_Datatype), ANY);
}

static void child(void) {
    alarm(SECONDS);
    MPI_Init(NULL, NULL);
    begin_process();
    try_all();
    try_buffers(), try_objects(), try_lists();
    shared->at = number_of_call;
    alarm(SECONDS);
    MPI_Finalize();
    shared->is_over = 1;
    _exit(0);
}

/* Children until all calls are made; how many there were. */
static int make_all(void) {
    int how, children = 0, in_vain = 0;
    while (!shared->is_over) {
        int before = shared->at;
        pid_t pid = fork();
        if (pid == 0) child();
        children++;
        if (pid < 0 || waitpid(pid, &how, 0) != pid) return 0;
        if (shared->is_over) break;
        struct tried *tried = &shared->of[shared->at];
        in_vain = shared->at == before ? in_vain + 1 : 0;
        if (in_vain > 3) return printf("no process begins any more\n"), 0;
        if (in_vain) continue;
        if (!tried->function) tried->function = "MPI_Finalize", tried->what = "after all", shared->is_over = 1;
        tried->verdict = WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM ? HUNG : CRASHED;
        tried->class = WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how);
        shared->first = shared->at + 1;
    }
    return children;
}

int main(void) {
    int of[HUNG + 1] = {0}, tried = 0, children;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    shared->at = -1;
    children = make_all();
    for (; tried < CALLS && shared->of[tried].function; tried++) {
        struct tried *call = &shared->of[tried];
        of[call->verdict]++;
        if (call->verdict == RIGHT) continue;
        printf("%s, %s: %s %d, %s\n", call->function, call->what, VERDICTS[call->verdict], call->class, call->text);
    }
    printf("%d calls: %d survived, %d crashed, %d hung, %d broken afterwards; %d right, %d taken, %d of another class; %d processes\n", tried,
           of[RIGHT] + of[TAKEN] + of[OTHER_CLASS], of[CRASHED], of[HUNG], of[BROKEN], of[RIGHT], of[TAKEN], of[OTHER_CLASS], children);
    if (children == 1 && of[RIGHT] == tried && tried > 0) return printf("ok, %d calls\n", tried), 0;
    return 1;
}
