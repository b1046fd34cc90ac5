/* Collectives between two groups, of unlike sizes where there are three ranks or five, blocking, nonblocking and persistent, checked on
   every rank. The last line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { MOST = 16, MANY = 700 };

/* The own group: which, how many, who in it; how many there are in the other one. */
static int group, here, me, there;
static MPI_Comm between;

/* What rank `who` of a group has at `index`. */
static int value(int of_group, int who, int index) {
    return 10000 * of_group + 100 * who + index % 90;
}

/* How a rank of either group names the root, `who` of group `of`. */
static int root_of(int of, int who) {
    if (group != of) return who;
    return me == who ? MPI_ROOT : MPI_PROC_NULL;
}

static void broadcasts(void) {
    static int data[MANY];
    for (int of = 0; of < 2; of++) {
        for (int index = 0; index < MANY; index++) data[index] = group == of && me == 0 ? value(of, 0, index) : -1;
        MPI_Bcast(data, MANY, MPI_INT, root_of(of, 0), between);
        int taken = group != of || me == 0;
        CHECK(data[0] == (taken ? value(of, 0, 0) : -1) && data[MANY - 1] == (taken ? value(of, 0, MANY - 1) : -1));
    }
}

static void gathers(void) {
    int given[2] = {value(group, me, 0), value(group, me, 1)}, taken[2 * MOST], lens[MOST], starts[MOST], back[2];
    MPI_Request request;
    for (int of = 0; of < 2; of++) {
        int root = root_of(of, 0);
        memset(taken, -1, sizeof taken);
        MPI_Gather(given, 2, MPI_INT, taken, 2, MPI_INT, root, between);
        for (int who = 0; root == MPI_ROOT && who < there; who++) {
            CHECK(taken[2 * who] == value(!of, who, 0) && taken[2 * who + 1] == value(!of, who, 1));
        }
        /* Back to front, with a place left out between. */
        for (int who = 0; who < there; who++) lens[who] = 1, starts[who] = 2 * (there - 1 - who);
        memset(taken, -1, sizeof taken);
        MPI_Igatherv(given, 1, MPI_INT, taken, lens, starts, MPI_INT, root, between, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int who = 0; root == MPI_ROOT && who < there; who++) {
            CHECK(taken[starts[who]] == value(!of, who, 0) && taken[starts[who] + 1] == -1);
        }
        back[0] = back[1] = -1;
        for (int who = 0; who < there; who++) taken[2 * who] = value(of, who, 7), taken[2 * who + 1] = value(of, who, 8);
        MPI_Scatter(taken, 2, MPI_INT, back, 2, MPI_INT, root, between);
        if (group != of) CHECK(back[0] == value(of, me, 7) && back[1] == value(of, me, 8));
        else CHECK(back[0] == -1);
        MPI_Scatterv(taken, lens, starts, MPI_INT, back, 1, MPI_INT, root, between);
        if (group != of) CHECK(back[0] == value(of, here - 1 - me, 7));
    }
}

static void exchanges(void) {
    /* The first group's blocks are of two elements, the other's of one. */
    int own = group == 0 ? 2 : 1, theirs = group == 0 ? 1 : 2;
    int given[2 * MOST], taken[2 * MOST], lens[MOST], starts[MOST], rooms[MOST], ends[MOST];
    memset(taken, -1, sizeof taken);
    given[0] = value(group, me, 3), given[1] = value(group, me, 4);
    MPI_Allgather(given, own, MPI_INT, taken, theirs, MPI_INT, between);
    for (int who = 0; who < there; who++) {
        CHECK(taken[theirs * who] == value(!group, who, 3));
        CHECK(theirs == 1 || taken[2 * who + 1] == value(!group, who, 4));
    }
    for (int who = 0; who < there; who++) rooms[who] = theirs, ends[who] = theirs * (there - 1 - who);
    MPI_Allgatherv(given, own, MPI_INT, taken, rooms, ends, MPI_INT, between);
    for (int who = 0; who < there; who++) CHECK(taken[ends[who]] == value(!group, who, 3));
    for (int who = 0; who < there; who++) {
        lens[who] = own, starts[who] = own * who;
        for (int index = 0; index < own; index++) given[own * who + index] = value(group, me, 10 * who + index);
    }
    MPI_Request request;
    MPI_Alltoall_init(given, own, MPI_INT, taken, theirs, MPI_INT, between, MPI_INFO_NULL, &request);
    for (int round = 0; round < 2; round++) {
        memset(taken, -1, sizeof taken);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int who = 0; who < there; who++) CHECK(taken[theirs * who] == value(!group, who, 10 * me));
    }
    MPI_Request_free(&request);
    MPI_Alltoallv(given, lens, starts, MPI_INT, taken, rooms, ends, MPI_INT, between);
    for (int who = 0; who < there; who++) CHECK(taken[ends[who]] == value(!group, who, 10 * me));
    MPI_Datatype kinds[MOST];
    for (int who = 0; who < there; who++) {
        kinds[who] = MPI_INT;
        starts[who] *= (int)sizeof(int), ends[who] *= (int)sizeof(int);
    }
    memset(taken, -1, sizeof taken);
    MPI_Alltoallw(given, lens, starts, kinds, taken, rooms, ends, kinds, between);
    for (int who = 0; who < there; who++) CHECK(taken[ends[who] / (int)sizeof(int)] == value(!group, who, 10 * me));
}

static void reductions(void) {
    static double given[MANY], sum[MANY];
    double all = 0, place = 0;
    for (int who = 0; who < there; who++) all += value(!group, who, 5);
    for (int index = 0; index < MANY; index++) given[index] = value(group, me, 5) + index, sum[index] = -1;
    MPI_Allreduce(given, sum, MANY, MPI_DOUBLE, MPI_SUM, between);
    CHECK(sum[0] == all && sum[MANY - 1] == all + (double)there * (MANY - 1));
    for (int of = 0; of < 2; of++) {
        int root = root_of(of, 0);
        MPI_Request request;
        sum[0] = -1;
        MPI_Ireduce(given, sum, 3, MPI_DOUBLE, MPI_SUM, root, between, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(sum[0] == (root == MPI_ROOT ? all : -1));
        /* What those beside the root say of their data does not count. */
        if (root == MPI_PROC_NULL) MPI_Reduce(NULL, NULL, 0, MPI_DATATYPE_NULL, MPI_SUM, root, between);
        else MPI_Reduce(given, sum, 3, MPI_DOUBLE, MPI_SUM, root, between);
        CHECK(sum[0] == (root == MPI_ROOT ? all : -1));
    }
    /* As many elements for each group in all: one for each rank of the other one, times the own. */
    for (int who = 0; who < me; who++) place += there;
    MPI_Reduce_scatter_block(given, sum, there, MPI_DOUBLE, MPI_SUM, between);
    for (int index = 0; index < there; index++) CHECK(sum[index] == all + there * (place + index));
    int lens[MOST];
    for (int who = 0; who < here; who++) lens[who] = who == 0 ? here * there : 0;
    MPI_Reduce_scatter(given, sum, lens, MPI_DOUBLE, MPI_SUM, between);
    for (int index = 0; me == 0 && index < here * there; index++) CHECK(sum[index] == all + there * index);
}

/* All ranks of both groups share memory here. */
static void splits(void) {
    MPI_Comm near, none;
    int is_inter = 0, size_there = 0;
    MPI_Comm_split_type(between, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &near);
    CHECK(near != MPI_COMM_NULL);
    MPI_Comm_test_inter(near, &is_inter);
    MPI_Comm_remote_size(near, &size_there);
    CHECK(is_inter && size_there == there);
    MPI_Barrier(near);
    MPI_Comm_free(&near);
    MPI_Comm_split_type(between, MPI_UNDEFINED, 0, MPI_INFO_NULL, &none);
    CHECK(none == MPI_COMM_NULL);
}

/* What MPI does not have between groups is refused, on every rank alike. */
static void refusals(void) {
    int one = 1, other = 0, class;
    MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Scan(&one, &other, 1, MPI_INT, MPI_SUM, between), &class);
    CHECK(class == MPI_ERR_COMM);
    MPI_Error_class(MPI_Allreduce(MPI_IN_PLACE, &other, 1, MPI_INT, MPI_SUM, between), &class);
    CHECK(class == MPI_ERR_BUFFER);
    MPI_Error_class(MPI_Bcast(&one, 1, MPI_INT, there, between), &class);
    CHECK(class == MPI_ERR_ROOT);
}

int main(int argc, char **argv) {
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int first = (size + 1) / 2;
    group = rank >= first;
    MPI_Comm own;
    MPI_Comm_split(MPI_COMM_WORLD, group, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, group == 0 ? first : 0, 5, &between);
    MPI_Comm_size(between, &here);
    MPI_Comm_rank(between, &me);
    MPI_Comm_remote_size(between, &there);
    MPI_Barrier(between);
    broadcasts();
    gathers();
    exchanges();
    reductions();
    splits();
    refusals();
    MPI_Barrier(between);
    MPI_Comm_free(&between);
    MPI_Comm_free(&own);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(all == 0 ? "ok\n" : "%d checks failed\n", all);
    MPI_Finalize();
    return all != 0;
}
