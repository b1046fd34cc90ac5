/* Collectives on blocks of unlike lengths, of which no rank knows all: none, short and long ones beside each other; in one piece, with
   gaps between them, in place, and of a datatype with holes; while all ranks have nothing else under way, and while one has. The last
   line of a good run is "ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum form { DENSE, GAPS, IN_PLACE, HOLES, FORMS };
enum beside { NOTHING, A_BARRIER, A_RECEIVE, BESIDES };

static enum form form;
static int longest, turn, root;
static MPI_Datatype type;

/* Elements that a rank gives another. */
static int len_of(int from, int to) {
    int lens[] = {0, 3, longest, longest / 2 + 1};
    return lens[(3 * from + to + turn) % 4];
}

static int of_pair(int one, int other) { return one < other ? len_of(one, other) : len_of(other, one); }

static int value(int from, int to, int i) { return 1000003 * from + 10007 * to + i; }

/* Blocks of these lengths, by rank, and the memory that they are in. */
struct blocks {
    int counts[8], places[8], ints;
    int *memory;
};

static int step(void) { return form == HOLES ? 2 : 1; }

static struct blocks make(int (*len)(int)) {
    struct blocks made;
    int end = 1;
    for (int i = 0; i < size; i++) {
        made.counts[i] = len(i), made.places[i] = end;
        end += made.counts[i] + (form == GAPS ? 2 : 0);
    }
    made.ints = step() * (end + 1);
    made.memory = malloc(made.ints * sizeof(int));
    for (int i = 0; i < made.ints; i++) made.memory[i] = -1;
    return made;
}

static void put(int *memory, int len, int from, int to) {
    for (int i = 0; i < len; i++) memory[step() * i] = value(from, to, i);
}

static int *block(struct blocks *blocks, int which) { return blocks->memory + step() * blocks->places[which]; }

/* Nothing but the blocks is written. */
static int are(struct blocks *found, struct blocks *expected) {
    int same = memcmp(found->memory, expected->memory, found->ints * sizeof(int)) == 0;
    free(found->memory), free(expected->memory);
    return same;
}

static int from_this(int to) { return len_of(rank, to); }
static int for_this(int from) { return len_of(from, rank); }
static int for_root(int from) { return len_of(from, root); }
static int from_root(int to) { return len_of(root, to); }
static int with_this(int other) { return of_pair(rank, other); }
static int of_result(int of) { return len_of(of, 0); }

static struct blocks taken(int (*len)(int)) {
    struct blocks made = make(len);
    for (int i = 0; i < size; i++) put(block(&made, i), made.counts[i], i, rank);
    return made;
}

static struct blocks given(int (*len)(int)) {
    struct blocks made = make(len);
    for (int i = 0; i < size; i++) put(block(&made, i), made.counts[i], rank, i);
    return made;
}

static void to_root(void) {
    int len = len_of(rank, root), *own = calloc(2 * len + 1, sizeof *own);
    put(own, len, rank, root);
    if (rank == root) {
        struct blocks found = make(for_root), expected = taken(for_root);
        if (form == IN_PLACE) put(block(&found, rank), len, rank, rank);
        void *from = form == IN_PLACE ? MPI_IN_PLACE : own;
        MPI_Gatherv(from, len, type, found.memory, found.counts, found.places, type, root, MPI_COMM_WORLD);
        CHECK(are(&found, &expected));
    } else {
        MPI_Gatherv(own, len, type, NULL, NULL, NULL, type, root, MPI_COMM_WORLD);
    }
    free(own);
}

static void of_root(void) {
    int len = len_of(root, rank), wrong = 0, *own = calloc(2 * len + 1, sizeof *own);
    if (rank == root) {
        struct blocks from = given(from_root), as_before = given(from_root);
        void *into = form == IN_PLACE ? MPI_IN_PLACE : own;
        MPI_Scatterv(from.memory, from.counts, from.places, type, into, len, type, root, MPI_COMM_WORLD);
        CHECK(are(&from, &as_before));
    } else {
        MPI_Scatterv(NULL, NULL, NULL, type, own, len, type, root, MPI_COMM_WORLD);
    }
    for (int i = 0; i < len && (rank != root || form != IN_PLACE); i++) wrong += own[step() * i] != value(root, rank, i);
    CHECK(wrong == 0);
    free(own);
}

static void all_to_all(int is_of_unlike_types) {
    int (*into)(int) = form == IN_PLACE ? with_this : for_this;
    struct blocks found = form == IN_PLACE ? given(into) : make(into), expected = taken(into), from = given(from_this);
    int starts[8], ends[8], width = step() * (int)sizeof(int);
    MPI_Datatype types[8];
    for (int i = 0; i < size; i++) types[i] = type, starts[i] = width * from.places[i], ends[i] = width * found.places[i];
    if (form == IN_PLACE && is_of_unlike_types)
        MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, found.memory, found.counts, ends, types, MPI_COMM_WORLD);
    else if (form == IN_PLACE)
        MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, type, found.memory, found.counts, found.places, type, MPI_COMM_WORLD);
    else if (is_of_unlike_types)
        MPI_Alltoallw(from.memory, from.counts, starts, types, found.memory, found.counts, ends, types, MPI_COMM_WORLD);
    else
        MPI_Alltoallv(from.memory, from.counts, from.places, type, found.memory, found.counts, found.places, type, MPI_COMM_WORLD);
    free(from.memory);
    CHECK(are(&found, &expected));
}

static void sums(void) {
    struct blocks all = given(of_result);
    int len = all.counts[rank], wrong = 0, *data = block(&all, 0), *own = calloc(len + 1, sizeof *own);
    void *from = form == IN_PLACE ? MPI_IN_PLACE : data;
    MPI_Reduce_scatter(from, form == IN_PLACE ? data : own, all.counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int *found = form == IN_PLACE ? data : own;
    for (int i = 0; i < len; i++) {
        int sum = 0;
        for (int of = 0; of < size; of++) sum += value(of, rank, i);
        wrong += found[i] != sum;
    }
    CHECK(wrong == 0);
    free(own), free(all.memory);
}

static void all_calls(void) {
    to_root();
    of_root();
    all_to_all(0);
    all_to_all(1);
    if (form == DENSE || form == IN_PLACE) sums();
}

static void all_beside(enum beside beside) {
    int busy = (turn + 1) % size, token = turn, came = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    if (beside == A_BARRIER) MPI_Ibarrier(MPI_COMM_WORLD, &request);
    if (beside == A_RECEIVE && rank == busy) MPI_Irecv(&came, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &request);
    if (rank != busy) MPI_Wait(&request, MPI_STATUS_IGNORE);
    all_calls();
    if (beside == A_RECEIVE && rank == busy) MPI_Send(&token, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int all, lens[] = {1, 700, 2047, 2100, 60000};
    MPI_Datatype holes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &holes);
    MPI_Type_commit(&holes);
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++)
        for (turn = 0; turn < 4; turn++)
            for (form = 0; form < FORMS; form++)
                for (enum beside beside = 0; beside < BESIDES; beside++) {
                    longest = lens[i], root = (turn + (int)beside) % size;
                    type = form == HOLES ? holes : MPI_INT;
                    all_beside(beside);
                }
    MPI_Type_free(&holes);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) puts(all ? "failed" : "ok");
    return all != 0;
}
