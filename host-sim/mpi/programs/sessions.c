/* Sessions: before the World Model, beside it, after it, and again when the last one is over. The last line of a good run is "ok". */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define THREADS 3

static int heard, heard_class;
static MPI_Session heard_of;

static void hear(MPI_Session *session, int *code, ...) {
    heard++;
    heard_of = *session;
    MPI_Error_class(*code, &heard_class);
}

static int sum(MPI_Comm comm) {
    int own, all = 0;
    MPI_Comm_rank(comm, &own);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, comm);
    return all;
}

/* A session, and a communicator of all processes that is derived from it. */
static MPI_Session begin(MPI_Comm *comm, const char *name) {
    MPI_Session session;
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://World", &group);
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, comm);
    MPI_Group_free(&group);
    return session;
}

static void end(MPI_Session *session, MPI_Comm *comm) {
    MPI_Comm_free(comm);
    CHECK(MPI_Session_finalize(session) == MPI_SUCCESS && *session == MPI_SESSION_NULL);
}

/* Hints that are no good, and good ones. */
static void levels(void) {
    const char *known[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info asked, granted;
    char value[32];
    int flag, class, room;
    MPI_Info_create(&asked);
    MPI_Info_set(asked, "thread_level", "MPI_THREAD_LOOSE");
    MPI_Error_class(MPI_Session_init(asked, MPI_ERRORS_RETURN, &session), &class);
    CHECK(class == MPI_ERR_INFO_VALUE && session == MPI_SESSION_NULL);
    for (int i = 0; i < 4; i++) {
        MPI_Info_set(asked, "thread_level", known[i]);
        CHECK(MPI_Session_init(asked, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
        CHECK(MPI_Session_fromint(MPI_Session_toint(session)) == session);
        MPI_Session_get_info(session, &granted);
        room = sizeof value;
        MPI_Info_get_string(granted, "thread_level", &room, value, &flag);
        CHECK(flag && strcmp(value, known[i]) == 0);
        MPI_Info_free(&granted);
        MPI_Session_finalize(&session);
    }
    MPI_Info_free(&asked);
}

/* The sets of processes, by number and by name, and names that there are not. */
static void sets(void) {
    MPI_Session session;
    MPI_Errhandler own, had;
    MPI_Group group;
    MPI_Info facts;
    char name[64], value[16];
    int count, len, flag, room, members, world = 0, itself = 0;
    MPI_Session_create_errhandler(hear, &own);
    MPI_Session_init(MPI_INFO_NULL, own, &session);
    MPI_Session_get_errhandler(session, &had);
    CHECK(had == own);
    MPI_Errhandler_free(&had);
    MPI_Errhandler_free(&own);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    for (int i = 0; i < count; i++) {
        len = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL);
        CHECK(len > 1 && len <= (int)sizeof name);
        memset(name, 'x', sizeof name);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        CHECK((int)strlen(name) + 1 == len);
        MPI_Session_get_pset_info(session, name, &facts);
        room = sizeof value;
        MPI_Info_get_string(facts, "mpi_size", &room, value, &flag);
        MPI_Info_free(&facts);
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Group_size(group, &members);
        CHECK(flag && atoi(value) == members);
        if (strcmp(name, "mpi://WORLD") == 0) MPI_Group_rank(group, &rank), size = members, world++;
        if (strcmp(name, "mpi://SELF") == 0) CHECK(members == 1), itself++;
        MPI_Group_free(&group);
    }
    CHECK(world == 1 && itself == 1 && heard == 0);
    len = 5;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &len, name);
    CHECK(strcmp(name, "mpi:") == 0 && len > 5);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &len, name);
    CHECK(heard == 1 && heard_of == session && heard_class == MPI_ERR_ARG);
    MPI_Group_from_session_pset(session, "mpi://nowhere", &group);
    CHECK(heard == 2 && group == MPI_GROUP_NULL);
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK(heard == 3 && heard_class == MPI_ERR_OTHER);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    MPI_Session_get_pset_info(session, "mpi://nowhere", &facts);
    CHECK(heard == 3);
    MPI_Session_finalize(&session);
}

/* The buffer of a session serves the communicators that are derived from it, and no others. */
static void buffers(void) {
    MPI_Comm all, copy, half, other;
    MPI_Group group;
    MPI_Session session = begin(&all, "aldis://buffers"), second = begin(&other, "aldis://others");
    int room = 4 * (MPI_BSEND_OVERHEAD + (int)sizeof(int)), bytes = 0, token = rank, into, class, mine;
    void *buffer = malloc(room), *taken = NULL;
    MPI_Request request;
    MPI_Comm_group(all, &group);
    MPI_Comm_create_from_group(group, "aldis://again", MPI_INFO_NULL, MPI_ERRORS_RETURN, &copy);
    MPI_Group_free(&group);
    MPI_Comm_split(all, rank % 2, rank, &half);
    MPI_Session_attach_buffer(session, buffer, room);
    MPI_Error_class(MPI_Session_attach_buffer(session, buffer, room), &class);
    CHECK(class == MPI_ERR_BUFFER);
    MPI_Comm derived[] = {all, copy, half};
    for (int i = 0; i < 3; i++) {
        MPI_Comm_rank(derived[i], &mine);
        CHECK(MPI_Bsend(&token, 1, MPI_INT, mine, i, derived[i]) == MPI_SUCCESS);
    }
    MPI_Error_class(MPI_Bsend(&token, 1, MPI_INT, rank, 9, other), &class);
    CHECK(class == MPI_ERR_BUFFER);
    MPI_Session_iflush_buffer(session, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_rank(derived[i], &mine);
        MPI_Recv(&into, 1, MPI_INT, mine, i, derived[i], MPI_STATUS_IGNORE);
        CHECK(into == rank);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Session_flush_buffer(session);
    MPI_Session_detach_buffer(session, &taken, &bytes);
    CHECK(taken == buffer && bytes == room);
    MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0);
    MPI_Bsend(&token, 1, MPI_INT, (rank + 1) % size, 5, all);
    MPI_Recv(&into, 1, MPI_INT, (rank + size - 1) % size, 5, all, MPI_STATUS_IGNORE);
    MPI_Session_detach_buffer(session, &taken, &bytes);
    CHECK(taken == MPI_BUFFER_AUTOMATIC);
    free(buffer);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    end(&second, &other);
    end(&session, &all);
}

/* A thread with a session of its own; threads do not count failures, but say whether there were any. */
static void *apart(void *name) {
    MPI_Comm comm;
    long number, all;
    for (int round = 0; round < 20; round++) {
        MPI_Session session = begin(&comm, name);
        number = round, all = -1;
        MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_LONG, MPI_SUM, comm);
        MPI_Allreduce(&(long){1}, &all, 1, MPI_LONG, MPI_SUM, comm);
        if (number != round * all) return name;
        MPI_Comm_free(&comm);
        if (MPI_Session_finalize(&session) != MPI_SUCCESS) return name;
    }
    return NULL;
}

/* Nothing of MPI has been called before the threads begin. */
static void together(void) {
    static char names[THREADS][16];
    pthread_t threads[THREADS];
    void *failed;
    for (int i = 0; i < THREADS; i++) {
        sprintf(names[i], "aldis://%d", i);
        pthread_create(&threads[i], NULL, apart, names[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
}

int main(int argc, char **argv) {
    MPI_Comm first, second;
    int flag, all, code;
    together();
    levels();
    sets();
    buffers();
    for (int round = 0; round < 5; round++) {
        MPI_Session session = begin(&first, "aldis://again and again");
        CHECK(sum(first) == size * (size - 1) / 2);
        end(&session, &first);
    }
    MPI_Session before = begin(&first, "aldis://before");
    MPI_Initialized(&flag);
    CHECK(!flag);
    MPI_Init(&argc, &argv);
    CHECK(sum(MPI_COMM_WORLD) == sum(first));
    MPI_Session beside = begin(&second, "aldis://beside");
    CHECK(sum(second) == sum(first));
    end(&before, &first);
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Finalized(&flag);
    CHECK(!flag && sum(MPI_COMM_WORLD) == sum(second));
    MPI_Finalize();
    MPI_Finalized(&flag);
    CHECK(flag && sum(second) == size * (size - 1) / 2);
    end(&beside, &second);
    MPI_Session last = begin(&first, "aldis://last");
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, first);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    code = all != 0;
    end(&last, &first);
    return code;
}
