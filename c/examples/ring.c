/* A job of ranks in C, each a process of this machine; the wire between them is a datagram socket for
 * each rank, as lossy as an Ethernet. On a board the card's callbacks are the driver of its device.
 *
 *     cargo build --release -p aldis-c
 *     cc -Ic/include c/examples/ring.c target/release/libaldis.a -lpthread -ldl -lm -o ring && ./ring 4
 */
#define _GNU_SOURCE
#include <aldis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 16
#define FRAME_BYTES 1514
#define LIMIT_NS 20000000000ull

static pid_t job;

/* The socket of a rank, and the frames in its hands. */
struct wire {
    int socket;
    uint32_t rank, size;
    uint8_t received[FRAME_BYTES], reserved[FRAME_BYTES];
};

static socklen_t address(uint32_t rank, struct sockaddr_un *to) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    /* A name beginning with zero is in no folder. */
    int len = snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "aldis-ring-%ld-%u", (long)job, (unsigned)rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static const uint8_t *receive(void *context, size_t *len) {
    struct wire *wire = context;
    ssize_t bytes = recv(wire->socket, wire->received, FRAME_BYTES, MSG_DONTWAIT);
    if (bytes <= 0) {
        return NULL;
    }
    *len = (size_t)bytes;
    return wire->received;
}

static void release(void *context) {
    (void)context;
}

static uint8_t *reserve(void *context, size_t len) {
    struct wire *wire = context;
    return len <= FRAME_BYTES ? wire->reserved : NULL;
}

static void commit(void *context, size_t len) {
    struct wire *wire = context;
    int to_all = wire->reserved[0] & 1;
    for (uint32_t rank = 0; rank < wire->size; rank++) {
        if (rank == wire->rank || (!to_all && wire->reserved[5] != rank + 1)) {
            continue;
        }
        struct sockaddr_un to;
        socklen_t bytes = address(rank, &to);
        /* A frame that a full socket does not take is lost. */
        (void)!sendto(wire->socket, wire->reserved, len, MSG_DONTWAIT, (struct sockaddr *)&to, bytes);
    }
}

static uint64_t now_ns(void *context) {
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t entropy(void *context) {
    return now_ns(context) ^ (uint64_t)getpid() << 40;
}

static void relax(void *context, uint32_t idle) {
    (void)context;
    if (idle > 64) {
        usleep(50);
    }
}

void aldis_panic(void) {
    abort();
}

/* Ends the rank with what went wrong, unless nothing did. */
static void check(aldis_rank *rank, int result, const char *what) {
    if (result != ALDIS_OK) {
        char text[200];
        aldis_last_error(rank, text, sizeof text);
        fprintf(stderr, "%s: %s (%s)\n", what, aldis_error_text(result), text);
        _exit(1);
    }
}

static void run(aldis_rank *rank) {
    uint32_t me = aldis_rank_of(rank), size = aldis_size_of(rank);
    check(rank, aldis_barrier(rank, LIMIT_NS), "barrier");

    /* A block goes once around. */
    static uint32_t block[5000], theirs[5000];
    for (size_t i = 0; i < 5000; i++) {
        block[i] = me * 10000 + (uint32_t)i;
    }
    uint32_t left = (me + size - 1) % size, right = (me + 1) % size;
    for (uint32_t turn = 0; turn < size; turn++) {
        aldis_request from = {0}, to = {0};
        aldis_status status;
        check(rank, aldis_irecv(rank, theirs, sizeof theirs, left, turn, &from), "irecv");
        check(rank, aldis_isend(rank, block, sizeof block, right, turn, &to), "isend");
        check(rank, aldis_wait(rank, &from, LIMIT_NS, &status), "wait");
        check(rank, aldis_wait(rank, &to, LIMIT_NS, NULL), "wait");
        if (status.source != left || status.bytes != sizeof theirs) {
            fprintf(stderr, "rank %u: a wrong status\n", (unsigned)me);
            _exit(1);
        }
        memcpy(block, theirs, sizeof block);
    }
    for (size_t i = 0; i < 5000; i++) {
        if (block[i] != me * 10000 + i) {
            fprintf(stderr, "rank %u: a wrong word\n", (unsigned)me);
            _exit(1);
        }
    }

    double sum[3] = {me, 1.0, 0.25}, scratch[3];
    check(rank, aldis_allreduce(rank, sum, 3, scratch, 3, ALDIS_DOUBLE, ALDIS_SUM, LIMIT_NS), "allreduce");
    char words[32] = {0};
    if (me == 0) {
        snprintf(words, sizeof words, "%u ranks, sum %.2f", (unsigned)size, sum[0] + sum[2]);
    }
    check(rank, aldis_bcast(rank, words, sizeof words, 0, LIMIT_NS), "bcast");
    printf("rank %u: %s\n", (unsigned)me, words);
    fflush(stdout);
    check(rank, aldis_finalize(rank, LIMIT_NS), "finalize");
}

static void start(uint32_t me, uint32_t size, int socket) {
    static struct wire wire;
    wire.socket = socket;
    wire.rank = me;
    wire.size = size;
    aldis_card card = {&wire, {2, 0, 0, 0, 0, (uint8_t)(me + 1)}, FRAME_BYTES - 14, receive, release, reserve, commit};
    aldis_platform platform = {NULL, now_ns, entropy, relax};
    aldis_config config = {0};
    config.job = (uint64_t)job;
    config.rank = me;
    config.size = size;
    size_t bytes = aldis_memory_bytes(&config);
    void *memory = malloc(bytes); /* on a board: a static array */
    aldis_rank *rank = NULL;
    check(rank, aldis_init(memory, bytes, &config, &card, &platform, &rank), "init");
    run(rank);
    free(memory);
}

int main(int argc, char **argv) {
    uint32_t size = argc > 1 ? (uint32_t)atoi(argv[1]) : 4;
    if (size == 0 || size > RANKS_MAX) {
        fprintf(stderr, "usage: ring [RANKS], 1 to %d\n", RANKS_MAX);
        return 2;
    }
    job = getpid();
    int sockets[RANKS_MAX];
    for (uint32_t rank = 0; rank < size; rank++) {
        struct sockaddr_un own;
        socklen_t bytes = address(rank, &own);
        sockets[rank] = socket(AF_UNIX, SOCK_DGRAM, 0);
        if (sockets[rank] < 0 || bind(sockets[rank], (struct sockaddr *)&own, bytes) != 0) {
            perror("socket");
            return 1;
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            start(rank, size, sockets[rank]);
            _exit(0);
        }
    }
    int failed = 0, status;
    while (wait(&status) > 0) {
        failed |= status != 0;
    }
    return failed;
}
