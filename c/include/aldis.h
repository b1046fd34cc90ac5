/* aldis.h: messages between the ranks of a job, for firmware in C.
 *
 * A rank is one board (or process) of a job of `size` ranks. It is given memory once, a network card
 * by callbacks or with a driver of the library's, and a clock; nothing here allocates, and nothing
 * blocks longer than the time-out that the caller says. A rank is used by one thread at a time.
 *
 * Ranks in C and in Rust that find each other by discovery are ranks of one job, as long as they agree
 * on job, size, window, message_bytes, UDP and key: firmware, and processes under Linux that make such
 * an endpoint themselves. Ranks that `aldis-run` starts are not, even with `--transport ethernet`: they
 * know each other by their launcher alone.
 *
 * Every call returns ALDIS_OK or an error below zero; aldis_error_text names it in short, and
 * aldis_last_error tells in full with whom and why.
 */
#ifndef ALDIS_H
#define ALDIS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results. */
#define ALDIS_OK 0
#define ALDIS_ERR_ARGUMENT (-1)   /* a null pointer, or a value that cannot be */
#define ALDIS_ERR_MEMORY (-2)     /* less memory than is asked for */
#define ALDIS_ERR_TIMEOUT (-3)    /* the time-out passed first */
#define ALDIS_ERR_TRUNCATED (-4)  /* the message is longer than the buffer, which holds its beginning */
#define ALDIS_ERR_RANK (-5)       /* a rank outside the job */
#define ALDIS_ERR_TAG (-6)        /* a tag above ALDIS_TAG_MAX */
#define ALDIS_ERR_FULL (-7)       /* a table is full: go on when something has completed, or size it larger */
#define ALDIS_ERR_PEER (-8)       /* the peer is dead, has left, or cannot be reached */
#define ALDIS_ERR_ABORTED (-9)    /* a rank has ended the job */
#define ALDIS_ERR_MISSING (-10)   /* not all ranks were found in time */
#define ALDIS_ERR_CARD (-11)      /* no such card, its frames are too short, or it is broken */
#define ALDIS_ERR_PROTOCOL (-12)  /* a peer broke the protocol, or is of another build */
#define ALDIS_ERR_UNLIKE (-13)    /* the ranks have made unlike collective calls */
#define ALDIS_ERR_STALE (-14)     /* a request that is over */
#define ALDIS_ERR_OTHER (-15)     /* anything else: aldis_last_error says what */

#define ALDIS_ANY_SOURCE UINT32_MAX
#define ALDIS_ANY_TAG UINT32_MAX
#define ALDIS_TAG_MAX 0x7FFFFFFFu
#define ALDIS_FOREVER UINT64_MAX

/* A network card by callbacks: Ethernet frames from the destination address on, without check
 * sequence. None of them blocks. `context` is handed back as it is. */
typedef struct aldis_card {
    void *context;
    uint8_t mac[6];
    uint16_t mtu; /* bytes of the largest frame, without its 14 bytes of addresses and type */
    /* The next frame that has come, and its length; NULL if there is none. It stays where it is until
     * `release`, which is called before `receive` is again. */
    const uint8_t *(*receive)(void *context, size_t *len);
    void (*release)(void *context);
    /* Memory for a frame of `len` bytes; NULL if the card has no room now. */
    uint8_t *(*reserve)(void *context, size_t len);
    /* Sends the frame that was reserved last. A reserved frame that is not committed is not sent: the
     * next `reserve` may return the same memory. */
    void (*commit)(void *context, size_t len);
} aldis_card;

/* Cards with a driver of the library's: each of these fills in an aldis_card, which then is as good as one
 * by callbacks of the firmware's. The card begins as all zero, but for its `mtu` where that is not to be
 * 1500, and for the `mac` of a serial line; the other two have an address of their own, and less than that
 * `mtu` if they cannot carry it.
 *
 * `memory` has as many bytes as the function beside says for that `mtu` (zero: there is no such card),
 * wherever it begins. Driver and device use it for good; after an error it is the caller's again, but for
 * a virtio device that was found and refuses. Devices are polled, and their interrupts masked.
 *
 * What the caller vouches for: that registers are mapped as device memory where the pointer says and
 * nothing else uses them, and that the device reaches memory at the very addresses that the program uses
 * (an identity map, without an IOMMU) and sees what the processor has written (coherent memory).
 *
 * ALDIS_ERR_ARGUMENT: a null or misaligned pointer, or an `mtu` that cannot be. ALDIS_ERR_MEMORY: fewer
 * bytes. ALDIS_ERR_CARD: there is no such device, or it does not do what it should. */

/* A virtio network device (VIRTIO 1.2, 4.2, also its legacy form) whose 512 bytes of registers begin at
 * `slot`. Other devices in a slot are left alone, so all slots of a board can be tried. A program has one
 * card of this kind; another is ALDIS_ERR_FULL. */
size_t aldis_virtio_memory_bytes(uint16_t mtu);
int aldis_virtio_card(aldis_card *card, void *slot, void *memory, size_t bytes);

/* Intel's 82574L (e1000e) or 82540EM (e1000), whose 128 KiB of registers begin at `registers`: the first base
 * address of the PCI function, which the firmware has found, has given an address, and has made to answer
 * to it and to reach memory (bits 1 and 2 of its command register). */
size_t aldis_e1000e_memory_bytes(uint16_t mtu);
int aldis_e1000e_card(aldis_card *card, void *registers, void *memory, size_t bytes);

/* A serial line by callbacks. None of them blocks. */
typedef struct aldis_serial {
    void *context;
    /* Takes up to `room` bytes that have come, and returns how many: 0 if there are none. */
    size_t (*read)(void *context, uint8_t *bytes, size_t room);
    /* Gives as many of the bytes as the line takes now, and returns how many. */
    size_t (*write)(void *context, const uint8_t *bytes, size_t count);
} aldis_serial;

/* Frames over a serial line, between zeros (COBS). The line is copied, and polled with the rank: one
 * without a deep queue is polled for each byte, or loses some, which costs time and no message. On one of
 * a usual rate the configuration has ALDIS_SLOW. */
size_t aldis_serial_memory_bytes(uint16_t mtu);
int aldis_serial_card(aldis_card *card, const aldis_serial *line, void *memory, size_t bytes);

/* The machine. */
typedef struct aldis_platform {
    void *context;
    uint64_t (*now_ns)(void *context);  /* never runs backwards */
    uint64_t (*entropy)(void *context); /* differs between boots */
    /* May be NULL. After a poll that found nothing, `idle` in a row: spin, wait for an interrupt. */
    void (*relax)(void *context, uint32_t idle);
} aldis_platform;

#define ALDIS_UDP 1u  /* frames are UDP datagrams over IPv4, instead of an EtherType of their own */
#define ALDIS_SLOW 2u /* a frame takes up to a tenth of a second, as on a serial line, and is missed later */

/* What a rank is, and the sizes of its tables; zero is what stands behind. Begin with all zero. */
typedef struct aldis_config {
    uint64_t job;              /* the same on all ranks of a job, and on no other on this wire */
    uint32_t rank;
    uint32_t size;
    uint32_t flags;            /* ALDIS_UDP, ALDIS_SLOW */
    uint32_t window;           /* frames in flight each way with a peer, a power of two to 64: 32 */
    uint32_t message_bytes;    /* bytes of the largest message in a frame, a multiple of 8: 1416 */
    uint32_t requests;         /* sends and receives at a time, at least 4: 32 */
    uint32_t envelopes;        /* messages of each peer that have come and are not received: 16 */
    uint32_t blocks;           /* of these, longer than 24 bytes: 4 */
    uint32_t block_bytes;      /* bytes of the longest message that is sent before it is received, a multiple of 8: 1024 */
    uint64_t join_timeout_ns;  /* time in which all ranks must be found: 60 s */
    const uint8_t *key;        /* 16 bytes by which frames are authenticated; NULL: none */
} aldis_config;

typedef struct aldis_rank aldis_rank;

/* What a receive found. */
typedef struct aldis_status {
    uint32_t source;
    uint32_t tag;
    uint64_t bytes;
} aldis_status;

/* A send or receive under way; begin with all zero. Its fields are the library's. */
typedef struct aldis_request {
    uint32_t state, slot, generation, source, tag, reserved;
    uint64_t bytes;
} aldis_request;

typedef enum aldis_type {
    ALDIS_BYTE = 0, ALDIS_INT8, ALDIS_INT16, ALDIS_INT32, ALDIS_INT64,
    ALDIS_UINT8, ALDIS_UINT16, ALDIS_UINT32, ALDIS_UINT64, ALDIS_FLOAT, ALDIS_DOUBLE
} aldis_type;

typedef enum aldis_op {
    ALDIS_SUM = 0, ALDIS_PROD, ALDIS_MIN, ALDIS_MAX,
    ALDIS_BAND, ALDIS_BOR, ALDIS_BXOR /* integers alone */
} aldis_op;

/* Bytes of memory that a rank of this configuration needs, wherever it begins; zero if there is no
 * such rank. */
size_t aldis_memory_bytes(const aldis_config *config);

/* Joins the job: finds all other ranks and connects to them. The memory is the library's from now on.
 * `*rank` is set unless the result is ALDIS_ERR_ARGUMENT or ALDIS_ERR_MEMORY; after another error it serves
 * aldis_last_error alone. Key, card and platform are copied. */
int aldis_init(void *memory, size_t bytes, const aldis_config *config, const aldis_card *card,
               const aldis_platform *platform, aldis_rank **rank);

/* Leaves the job: sends what is pending and says goodbye. The memory is the caller's again, whatever
 * is returned, and `rank` is no more. */
int aldis_finalize(aldis_rank *rank, uint64_t timeout_ns);

/* Ends the job on all ranks; `rank` is no more. */
void aldis_abort(aldis_rank *rank, int32_t code);

uint32_t aldis_rank_of(const aldis_rank *rank);
uint32_t aldis_size_of(const aldis_rank *rank);

/* Blocking messages. `status` may be NULL. */
int aldis_send(aldis_rank *rank, const void *data, size_t bytes, uint32_t to, uint32_t tag,
               uint64_t timeout_ns);
int aldis_recv(aldis_rank *rank, void *buffer, size_t bytes, uint32_t from, uint32_t tag,
               uint64_t timeout_ns, aldis_status *status);

/* Nonblocking messages: the memory is the library's until the request is over. */
int aldis_isend(aldis_rank *rank, const void *data, size_t bytes, uint32_t to, uint32_t tag,
                aldis_request *request);
int aldis_irecv(aldis_rank *rank, void *buffer, size_t bytes, uint32_t from, uint32_t tag,
                aldis_request *request);
/* Polls once; `*done` is 1 once the request is over, which then is all zero again. */
int aldis_test(aldis_rank *rank, aldis_request *request, int *done, aldis_status *status);
/* After ALDIS_ERR_TIMEOUT the request goes on. */
int aldis_wait(aldis_rank *rank, aldis_request *request, uint64_t timeout_ns, aldis_status *status);
/* Takes the memory back. `*cancelled` is 1 if nothing was sent or received. The request is over. */
int aldis_cancel(aldis_rank *rank, aldis_request *request, int *cancelled);
/* Makes progress; what came is counted in the result. */
int aldis_poll(aldis_rank *rank);

/* Collectives: all ranks make the same calls in the same order. */
int aldis_barrier(aldis_rank *rank, uint64_t timeout_ns);
int aldis_bcast(aldis_rank *rank, void *data, size_t bytes, uint32_t root, uint64_t timeout_ns);
/* `data` becomes the result; `scratch` holds `scratch_count` elements, at least one and on all ranks as
 * many: more of them make fewer and longer messages. */
int aldis_allreduce(aldis_rank *rank, void *data, size_t count, void *scratch, size_t scratch_count,
                    aldis_type type, aldis_op op, uint64_t timeout_ns);

/* The name of an error. */
const char *aldis_error_text(int error);
/* Tells the last error in full into `text`, ended by zero and cut to `bytes`; returns its length, as
 * snprintf does. */
size_t aldis_last_error(const aldis_rank *rank, char *text, size_t bytes);

/* The firmware's own: called if the library finds a mistake of its own, to end with. It does not return. */
void aldis_panic(void);

#ifdef __cplusplus
}
#endif
#endif
