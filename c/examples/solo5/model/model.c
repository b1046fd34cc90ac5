/* Solo5's interface on this machine: each application is a process, and its device a datagram socket. What
 * Solo5 promises is kept to the letter and no more: calls do not block, a frame that there is no room for is
 * dropped, and who breaks the contract is aborted. With faults, calls of the network fail on top: reads that
 * find nothing though there is something, calls with an error, frames that are dropped, and a length that
 * is longer than the buffer.
 *
 *     model SIZE [FAULTS-IN-A-THOUSAND] */
#define _GNU_SOURCE
#include <solo5.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE_MAX_RANKS 8
#define MTU 1500
#define HANDLE 7
#define HEAP_BYTES (8u << 20)

static pid_t job;
static uint32_t me, size_of_job, permille;
static uint64_t seed;
static int own_socket, is_acquired;

static _Noreturn void broken(const char *contract) {
    fprintf(stderr, "contract of Solo5: %s\n", contract);
    solo5_abort();
}

/* True with the chance of a fault (Knuth's generator, TAOCP 3.3.4). */
static int is_faulty(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % 1000 < permille;
}

static socklen_t address(uint32_t rank, struct sockaddr_un *to) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    int len = snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "aldis-solo5-%ld-%u", (long)job, (unsigned)rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

void solo5_abort(void) {
    _exit(SOLO5_EXIT_ABORT);
}

static solo5_time_t clock_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

solo5_time_t solo5_clock_monotonic(void) {
    return clock_of(CLOCK_MONOTONIC);
}

solo5_time_t solo5_clock_wall(void) {
    return clock_of(CLOCK_REALTIME);
}

void solo5_yield(solo5_time_t deadline, solo5_handle_set_t *ready_set) {
    solo5_time_t now = solo5_clock_monotonic();
    uint64_t left = deadline > now ? deadline - now : 0;
    struct timespec limit = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    struct pollfd device = {own_socket, POLLIN, 0};
    int ready = ppoll(&device, 1, &limit, NULL);
    if (ready_set != NULL) {
        *ready_set = ready > 0 ? 1u << HANDLE : 0;
    }
}

void solo5_console_write(const char *buf, size_t size) {
    fwrite(buf, 1, size, stdout);
}

solo5_result_t solo5_net_acquire(const char *name, solo5_handle_t *handle, struct solo5_net_info *info) {
    if (strcmp(name, "net0") != 0 || is_acquired) {
        return SOLO5_R_EINVAL;
    }
    is_acquired = 1;
    *handle = HANDLE;
    *info = (struct solo5_net_info){{2, 0, 0, 0, 0, (uint8_t)(me + 1)}, MTU};
    return SOLO5_R_OK;
}

solo5_result_t solo5_net_write(solo5_handle_t handle, const uint8_t *buf, size_t size) {
    if (handle != HANDLE || !is_acquired) {
        broken("a write to no device");
    }
    if (size > MTU + SOLO5_NET_HLEN || size < SOLO5_NET_HLEN) {
        broken("a write that is no frame");
    }
    if (is_faulty()) {
        return SOLO5_R_EUNSPEC;
    }
    if (is_faulty()) {
        return SOLO5_R_OK; /* dropped, and nobody is told */
    }
    int to_all = buf[0] & 1;
    for (uint32_t rank = 0; rank < size_of_job; rank++) {
        if (rank != me && (to_all || buf[5] == rank + 1)) {
            struct sockaddr_un to;
            socklen_t bytes = address(rank, &to);
            (void)!sendto(own_socket, buf, size, MSG_DONTWAIT, (struct sockaddr *)&to, bytes);
        }
    }
    return SOLO5_R_OK;
}

solo5_result_t solo5_net_read(solo5_handle_t handle, uint8_t *buf, size_t size, size_t *read_size) {
    if (handle != HANDLE || !is_acquired) {
        broken("a read from no device");
    }
    if (size < MTU + SOLO5_NET_HLEN) {
        broken("a read with too little room");
    }
    if (is_faulty()) {
        return SOLO5_R_AGAIN;
    }
    if (is_faulty()) {
        return SOLO5_R_EUNSPEC;
    }
    ssize_t bytes = recv(own_socket, buf, size, MSG_DONTWAIT);
    if (bytes <= 0) {
        return SOLO5_R_AGAIN;
    }
    *read_size = is_faulty() ? SIZE_MAX : (size_t)bytes;
    return SOLO5_R_OK;
}

/* A process for each application, with a command line and a heap of its own. */
static int start(uint32_t rank) {
    static char line[64];
    me = rank;
    seed = rank + 1;
    snprintf(line, sizeof line, "%u %u %ld", (unsigned)rank, (unsigned)size_of_job, (long)job);
    void *heap = aligned_alloc(4096, HEAP_BYTES);
    struct solo5_start_info info = {line, (uintptr_t)heap, HEAP_BYTES};
    int result = heap == NULL ? SOLO5_EXIT_FAILURE : solo5_app_main(&info);
    free(heap);
    fflush(stdout);
    return result;
}

int main(int argc, char **argv) {
    size_of_job = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    permille = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    if (size_of_job == 0 || size_of_job > SIZE_MAX_RANKS) {
        fprintf(stderr, "usage: model SIZE [FAULTS-IN-A-THOUSAND], SIZE 1 to %d\n", SIZE_MAX_RANKS);
        return 2;
    }
    job = getpid();
    int sockets[SIZE_MAX_RANKS];
    for (uint32_t rank = 0; rank < size_of_job; rank++) {
        struct sockaddr_un own;
        socklen_t bytes = address(rank, &own);
        sockets[rank] = socket(AF_UNIX, SOCK_DGRAM, 0);
        if (sockets[rank] < 0 || bind(sockets[rank], (struct sockaddr *)&own, bytes) != 0) {
            perror("socket");
            return 1;
        }
    }
    for (uint32_t rank = 0; rank < size_of_job; rank++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            own_socket = sockets[rank];
            _exit(start(rank));
        }
    }
    int result = 0, status;
    while (wait(&status) > 0) {
        result |= status != 0;
    }
    return result;
}
