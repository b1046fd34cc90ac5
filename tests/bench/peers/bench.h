/* What the two halves of the measured program share: bench.c, which hears what to do and has the loops on bytes that the native
 * program has too, and client.c, the loops of programs. */
#ifndef ALDIS_BENCH_H
#define ALDIS_BENCH_H

#include <stddef.h>
#include <stdint.h>

/* One batch: so many turns, each of `each` messages (or units of computation) of `bytes` bytes. */
struct batch {
    char workload[32];
    int turns, bytes, each;
};

extern int rank, size;

/* Ends the job. */
void fail(const char *what);
long long now_ns(void);
/* Memory that begins with a page: where heaps put it decides how fast this and other machines copy. */
void *pages(size_t bytes);
/* A unit of computation: about half a microsecond of arithmetic that touches no memory. */
uint64_t compute(uint64_t state);

/* Runs a batch of client.c's loops; the nanoseconds of this rank. Negative if data arrived that nobody sent: `wrong` says which. */
long long call(const struct batch *batch, char *wrong, size_t len);
/* Changes a byte of what the next batch brings here, before it is looked at: the look must tell. */
void spoil(void);

#endif
