/* QEMU's `mps2-an386`, a Cortex-M4: a timer, a serial line for text and one to other ranks, which is a card
 * by the library's framing. AN386, 3 (memory map); Arm Cortex-M System Design Kit, 4.1 and 4.3. */
#include "board.h"
#include "semihosting.h"

#define TIMER 0x40000000u
#define TEXT_LINE 0x40004000u
#define RANKS_LINE 0x40005000u
#define NS_PER_TICK 40u /* 25 MHz */

/* Registers of the timer, which counts down from a value and from the reload value on. */
#define TIMER_CONTROL 0u
#define TIMER_VALUE 4u
#define TIMER_RELOAD 8u

/* Registers of a line. */
#define DATA 0u
#define STATE 4u
#define CONTROL 8u
#define DIVISOR 16u
#define CANNOT_SEND (1u << 0)
#define HAS_BYTE (1u << 1)

/* Two frames and the driver's state: board_card checks it. */
static uint8_t card_memory[4 * 1024];

static volatile uint32_t *word(uintptr_t address) {
    return (volatile uint32_t *)address;
}

/* Ticks since the first look. Two looks are less than 2^32 ticks apart, 171 s. */
static uint64_t ticks(void) {
    static uint32_t last;
    static uint64_t sum;
    if (*word(TIMER + TIMER_CONTROL) == 0) {
        *word(TIMER + TIMER_RELOAD) = UINT32_MAX;
        *word(TIMER + TIMER_VALUE) = UINT32_MAX;
        *word(TIMER + TIMER_CONTROL) = 1;
        last = UINT32_MAX;
    }
    uint32_t value = *word(TIMER + TIMER_VALUE);
    sum += last - value;
    last = value;
    return sum;
}

static uint64_t now_ns(void *context) {
    (void)context;
    return ticks() * NS_PER_TICK;
}

static uint64_t entropy(void *context) {
    (void)context;
    return (semihosting_time() ^ ticks() << 32) * 0x9E3779B97F4A7C15u;
}

const aldis_platform board_platform = {NULL, now_ns, entropy, NULL};

/* Turns a line on, at the highest rate. */
static void turn_on(uintptr_t line) {
    *word(line + DIVISOR) = 16;
    *word(line + CONTROL) = 3;
}

static size_t line_read(void *context, uint8_t *bytes, size_t room) {
    (void)context;
    size_t count = 0;
    while (count < room && (*word(RANKS_LINE + STATE) & HAS_BYTE) != 0) {
        bytes[count++] = (uint8_t)*word(RANKS_LINE + DATA);
    }
    return count;
}

static size_t line_write(void *context, const uint8_t *bytes, size_t count) {
    (void)context;
    size_t sent = 0;
    while (sent < count && (*word(RANKS_LINE + STATE) & CANNOT_SEND) == 0) {
        *word(RANKS_LINE + DATA) = bytes[sent++];
    }
    return sent;
}

int board_card(const char *link, uint32_t rank, aldis_card *card) {
    (void)link;
    const uint8_t mac[6] = {0x02, 0xA1, 0xD1, 0, (uint8_t)(rank >> 8), (uint8_t)rank};
    const aldis_serial line = {NULL, line_read, line_write};
    for (unsigned at = 0; at < 6; at++) {
        card->mac[at] = mac[at];
    }
    turn_on(RANKS_LINE);
    return aldis_serial_card(card, &line, card_memory, sizeof card_memory);
}

void board_command_line(char *line, size_t bytes) {
    semihosting_command_line(line, bytes);
}

void board_print(const char *text) {
    turn_on(TEXT_LINE);
    for (; *text != 0; text++) {
        while ((*word(TEXT_LINE + STATE) & CANNOT_SEND) != 0) {
        }
        *word(TEXT_LINE + DATA) = (uint8_t)*text;
    }
}

_Noreturn void board_exit(int success) {
    semihosting_exit(success);
}

/* No exception is expected. */
_Noreturn void fault(void);
_Noreturn void fault(void) {
    board_print("verdict: FAILED an exception\n");
    board_exit(0);
}
