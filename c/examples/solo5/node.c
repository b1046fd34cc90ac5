/* A rank as an application of Solo5, the bottom of MirageOS and of other unikernels: solo5_app_main is its
 * entry, the card is Solo5's network device "net0", the memory its heap. It uses Solo5's interface and
 * nothing else: no libc.
 *
 * The command line is RANK SIZE JOB. All ranks exchange a long message with each other rank, and add up.
 *
 * Built against Solo5's own solo5.h it is an application; against the model beside it a program of this
 * machine, which the tests run (docs/unikernel.md has both). */
#include <aldis.h>
#include <solo5.h>

#define FRAME_BYTES (1500 + SOLO5_NET_HLEN)
#define WORDS 5000
#define LIMIT_NS 20000000000ull
/* Polls that find nothing before an idle rank gives the processor away, and for how long at most. */
#define SPINS 64
#define NAP_NS 100000

/* Solo5's device as a card. A frame is copied by solo5_net_read and solo5_net_write, so a place for one of each
 * direction is all that it needs. */
struct net {
    solo5_handle_t handle;
    size_t frame_bytes;
    uint64_t failed; /* calls with another result than OK and AGAIN */
    uint8_t received[FRAME_BYTES], reserved[FRAME_BYTES];
};

static const uint8_t *receive(void *context, size_t *len) {
    struct net *net = context;
    size_t bytes = 0;
    solo5_result_t result = solo5_net_read(net->handle, net->received, net->frame_bytes, &bytes);
    if (result == SOLO5_R_OK && bytes <= net->frame_bytes) {
        *len = bytes;
        return net->received;
    }
    net->failed += result != SOLO5_R_AGAIN;
    return NULL;
}

static void release(void *context) {
    (void)context; /* the frame has been copied */
}

static uint8_t *reserve(void *context, size_t len) {
    struct net *net = context;
    return len <= net->frame_bytes ? net->reserved : NULL;
}

static void commit(void *context, size_t len) {
    struct net *net = context;
    /* A frame that is not taken is lost, as it may be on the wire: the rank sends it again. */
    net->failed += solo5_net_write(net->handle, net->reserved, len) != SOLO5_R_OK;
}

static uint64_t now_ns(void *context) {
    (void)context;
    return solo5_clock_monotonic();
}

/* Solo5 has no random numbers: the date of the boot, which differs between boots. */
static uint64_t entropy(void *context) {
    (void)context;
    return solo5_clock_wall() ^ solo5_clock_monotonic() << 32;
}

static void relax(void *context, uint32_t idle) {
    (void)context;
    if (idle > SPINS) {
        solo5_yield(solo5_clock_monotonic() + NAP_NS, NULL);
    }
}

static void print(const char *text) {
    size_t len = 0;
    while (text[len] != 0) {
        len++;
    }
    solo5_console_write(text, len);
}

static void print_number(uint64_t number) {
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    print(digits + at);
}

void aldis_panic(void) {
    solo5_abort();
}

/* Says what went wrong, unless nothing did. */
static int failed(aldis_rank *rank, int result, const char *what) {
    if (result == ALDIS_OK) {
        return 0;
    }
    char text[200] = "";
    if (rank != NULL) {
        aldis_last_error(rank, text, sizeof text);
    }
    const char *words[] = {what, ": ", aldis_error_text(result), ": ", text, "\n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        print(words[i]);
    }
    return 1;
}

/* Exchanges a long message with each other rank, and verifies it. */
static int exchange(aldis_rank *rank) {
    static uint32_t mine[WORDS], theirs[WORDS];
    uint32_t me = aldis_rank_of(rank), size = aldis_size_of(rank);
    for (uint32_t i = 0; i < WORDS; i++) {
        mine[i] = me * WORDS + i;
    }
    for (uint32_t step = 1; step < size; step++) {
        uint32_t to = (me + step) % size, from = (me + size - step) % size;
        aldis_request sends = {0}, receives = {0};
        if (failed(rank, aldis_irecv(rank, theirs, sizeof theirs, from, step, &receives), "irecv") ||
            failed(rank, aldis_isend(rank, mine, sizeof mine, to, step, &sends), "isend") ||
            failed(rank, aldis_wait(rank, &receives, LIMIT_NS, NULL), "wait") ||
            failed(rank, aldis_wait(rank, &sends, LIMIT_NS, NULL), "wait")) {
            return 1;
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            if (theirs[i] != from * WORDS + i) {
                print("a wrong word\n");
                return 1;
            }
        }
    }
    return 0;
}

static int run(aldis_rank *rank) {
    uint32_t me = aldis_rank_of(rank), size = aldis_size_of(rank);
    uint64_t sum[2] = {me + 1, (uint64_t)me * me}, scratch[2];
    if (failed(rank, aldis_barrier(rank, LIMIT_NS), "barrier") || exchange(rank) ||
        failed(rank, aldis_allreduce(rank, sum, 2, scratch, 2, ALDIS_UINT64, ALDIS_SUM, LIMIT_NS), "allreduce")) {
        aldis_abort(rank, 1);
        return 1;
    }
    if (failed(NULL, aldis_finalize(rank, LIMIT_NS), "finalize")) {
        return 1;
    }
    print("rank ");
    print_number(me);
    print(" of ");
    print_number(size);
    print(": sums ");
    print_number(sum[0]);
    print(" and ");
    print_number(sum[1]);
    print("\n");
    return 0;
}

/* Reads a number of the command line, and what is behind it. */
static uint64_t number(const char **line) {
    uint64_t value = 0;
    while (**line == ' ') {
        (*line)++;
    }
    while (**line >= '0' && **line <= '9') {
        value = value * 10 + (uint64_t)(*(*line)++ - '0');
    }
    return value;
}

int solo5_app_main(const struct solo5_start_info *info) {
    static struct net net;
    struct solo5_net_info device;
    if (solo5_net_acquire("net0", &net.handle, &device) != SOLO5_R_OK) {
        print("no device net0\n");
        return SOLO5_EXIT_FAILURE;
    }
    /* solo5_net_read wants room for the device's longest frame, whatever the rank's is. */
    if (device.mtu > FRAME_BYTES - SOLO5_NET_HLEN) {
        print("frames of net0 are longer than this program has room for\n");
        return SOLO5_EXIT_FAILURE;
    }
    net.frame_bytes = device.mtu + SOLO5_NET_HLEN;

    const char *line = info->cmdline;
    aldis_config config = {0};
    config.rank = (uint32_t)number(&line);
    config.size = (uint32_t)number(&line);
    config.job = number(&line);
    aldis_card card = {&net, {0}, (uint16_t)device.mtu, receive, release, reserve, commit};
    for (size_t i = 0; i < SOLO5_NET_ALEN; i++) {
        card.mac[i] = device.mac_address[i];
    }
    aldis_platform platform = {NULL, now_ns, entropy, relax};
    /* The stack grows down from the heap's end. */
    size_t bytes = aldis_memory_bytes(&config);
    if (bytes == 0 || bytes > info->heap_size / 2) {
        print("no such rank, or too little memory\n");
        return SOLO5_EXIT_FAILURE;
    }
    aldis_rank *rank = NULL;
    int error = aldis_init((void *)info->heap_start, bytes, &config, &card, &platform, &rank);
    if (failed(rank, error, "init")) {
        return SOLO5_EXIT_FAILURE;
    }
    int result = run(rank);
    if (net.failed != 0) {
        print("calls of net0 that failed: ");
        print_number(net.failed);
        print("\n");
    }
    return result == 0 ? SOLO5_EXIT_SUCCESS : SOLO5_EXIT_FAILURE;
}
