/* What the programs that check themselves share. */
#include <mpi.h>
#include <stdio.h>

static int failures, rank, size;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int holds, const char *condition, int line) {
    if (holds) return;
    printf("rank %d, line %d: %s\n", rank, line, condition);
    failures++;
}
