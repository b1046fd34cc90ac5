/* Communicators of groups, without one that all ranks are in, and with the largest tags. The last line of a good run is "ok". */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>

#include "check.h"

static int heard;

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    heard++;
}

/* The processes of world whose rank leaves `rest` when divided by `step`, the last first. */
static MPI_Group every(int step, int rest) {
    MPI_Group world, made;
    int ranks[64], count = 0;
    for (int who = size - 1; who >= 0; who--)
        if (who % step == rest) ranks[count++] = who;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, ranks, &made);
    MPI_Group_free(&world);
    return made;
}

/* The sum of the ranks in world of those in a communicator. */
static int sum(MPI_Comm comm) {
    int all = 0;
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm);
    return all;
}

static int sum_of(int step, int rest) {
    int all = 0;
    for (int who = rest; who < size; who += step) all += who;
    return all;
}

static void alone(MPI_Errhandler own) {
    MPI_Group all = every(1, 0), half = every(2, rank % 2);
    MPI_Comm comms[2];
    MPI_Errhandler had;
    MPI_Info hints, kept;
    char value[8];
    int flag, compared, room = sizeof value;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "mpi_assert_no_any_tag", "true");
    MPI_Info_set(hints, "mpi_assert_strict_persistent_collective_ordering", "true");
    MPI_Info_set(hints, "of_nobody", "true");
    for (int round = 0; round < 20; round++) {
        MPI_Comm_create_from_group(all, "aldis://all", hints, own, &comms[0]);
        MPI_Comm_create_from_group(half, "aldis://half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[1]);
        MPI_Group group;
        MPI_Comm_group(comms[0], &group);
        MPI_Group_compare(group, all, &compared);
        CHECK(compared == MPI_IDENT);
        MPI_Group_free(&group);
        CHECK(sum(comms[0]) == sum_of(1, 0) && sum(comms[1]) == sum_of(2, rank % 2));
        MPI_Comm_get_errhandler(comms[0], &had);
        CHECK(had == own);
        MPI_Errhandler_free(&had);
        MPI_Comm_get_info(comms[0], &kept);
        MPI_Info_get_string(kept, "mpi_assert_no_any_tag", &room, value, &flag);
        CHECK(flag && value[0] == 't');
        MPI_Info_get_nkeys(kept, &flag);
        CHECK(flag == 2);
        MPI_Info_free(&kept);
        heard = 0;
        MPI_Send(&rank, 1, MPI_INT, size, 0, comms[0]);
        CHECK(heard == 1);
        MPI_Comm_free(&comms[0]);
        MPI_Comm_free(&comms[1]);
    }
    MPI_Info_free(&hints);
    MPI_Group_free(&all);
    MPI_Group_free(&half);
}

/* What is refused goes to the handler that the call was given. */
static void refusals(MPI_Errhandler own) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Group others, world;
    CHECK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "none", MPI_INFO_NULL, own, &comm) == MPI_SUCCESS);
    CHECK(comm == MPI_COMM_NULL);
    heard = 0;
    CHECK(MPI_Comm_create_from_group(MPI_GROUP_NULL, "null", MPI_INFO_NULL, own, &comm) != MPI_SUCCESS && heard == 1);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &rank, &others);
    if (size > 1) {
        int code = MPI_Comm_create_from_group(others, "others", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), class;
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_GROUP);
    }
    int code = MPI_Intercomm_create_from_groups(world, size, world, 0, "leader", MPI_INFO_NULL, own, &comm);
    CHECK(code != MPI_SUCCESS && heard == 2);
    if (size > 1) MPI_Group_free(&others);
    MPI_Group_free(&world);
}

/* Two groups of all ranks, led by their last ones. */
static void between(MPI_Errhandler own) {
    MPI_Group local = every(2, rank % 2), remote = every(2, 1 - rank % 2);
    int here, there, given = rank, taken = -1;
    MPI_Comm inter;
    MPI_Group_size(local, &here);
    MPI_Group_size(remote, &there);
    for (int round = 0; round < 20; round++) {
        MPI_Intercomm_create_from_groups(local, here - 1, remote, there - 1, "aldis://both", MPI_INFO_NULL, own, &inter);
        int flag, others;
        MPI_Comm_test_inter(inter, &flag);
        MPI_Comm_remote_size(inter, &others);
        CHECK(flag && others == there && sum(inter) == sum_of(2, 1 - rank % 2));
        /* The first of each is the last in world. */
        int me;
        MPI_Comm_rank(inter, &me);
        if (me < there && me < here) {
            MPI_Sendrecv(&given, 1, MPI_INT, me, 3, &taken, 1, MPI_INT, me, 3, inter, MPI_STATUS_IGNORE);
            CHECK(taken % 2 != rank % 2);
        }
        MPI_Comm_free(&inter);
    }
    MPI_Group_free(&local);
    MPI_Group_free(&remote);
}

/* Any tag that a message can have, a making can. */
static void tags(void) {
    MPI_Group half = every(2, rank % 2);
    MPI_Comm made, inter;
    for (int tag = INT_MAX; tag > 0; tag /= 7) {
        MPI_Comm_create_group(MPI_COMM_WORLD, half, tag, &made);
        CHECK(sum(made) == sum_of(2, rank % 2));
        if (size > 1) {
            MPI_Intercomm_create(made, 0, MPI_COMM_WORLD, size - 1 - ((size - 1) % 2 == rank % 2), tag, &inter);
            CHECK(sum(inter) == sum_of(2, 1 - rank % 2));
            MPI_Comm_free(&inter);
        }
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&half);
}

int main(void) {
    int all = 0;
    MPI_Errhandler own;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_create_errhandler(hear, &own);
    alone(own);
    refusals(own);
    if (size > 1) between(own);
    tags();
    MPI_Errhandler_free(&own);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
