/* QEMU's aarch64 `virt,highmem=off`: its clock, its console, and a card that has a driver of the library's,
 * which this finds: a virtio network device in one of 32 slots, or Intel's controller on the PCI bus. */
#include "board.h"
#include "semihosting.h"

#define SLOTS 0x0A000000u
#define SLOT_BYTES 0x200u
#define SLOT_COUNT 32u

/* PCI: the configuration of bus 0, and addresses for registers. */
#define CONFIGURATION 0x3F000000u
#define WINDOW 0x10000000u
#define COMMAND 0x04u
#define FIRST_BASE 0x10u
#define REGISTERS_BYTES 0x20000u

/* PL011, which the emulator has turned on. */
#define CONSOLE 0x09000000u
#define CONSOLE_FLAGS 0x18u
#define IS_FULL (1u << 5)

/* Of the larger of the two cards: board_card checks it. */
static uint8_t card_memory[320 * 1024];

static volatile uint32_t *word(uintptr_t address) {
    return (volatile uint32_t *)address;
}

static uint64_t counter(void) {
    uint64_t count;
    __asm__ volatile("isb\n mrs %0, cntvct_el0" : "=r"(count));
    return count;
}

static uint64_t now_ns(void *context) {
    (void)context;
    uint64_t hz, count = counter();
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
    return count / hz * 1000000000u + count % hz * 1000000000u / hz;
}

static uint64_t entropy(void *context) {
    (void)context;
    return (semihosting_time() ^ counter() << 32) * 0x9E3779B97F4A7C15u;
}

const aldis_platform board_platform = {NULL, now_ns, entropy, NULL};

/* The first virtio network device of the slots. */
static int virtio(aldis_card *card) {
    int result = ALDIS_ERR_CARD;
    for (uint32_t at = 0; at < SLOT_COUNT && result == ALDIS_ERR_CARD; at++) {
        void *slot = (void *)(uintptr_t)(SLOTS + at * SLOT_BYTES);
        result = aldis_virtio_card(card, slot, card_memory, sizeof card_memory);
    }
    return result;
}

/* The first of Intel's controllers on the bus. No firmware has given it addresses: this does. */
static int gigabit(aldis_card *card) {
    for (uint32_t device = 0; device < 32; device++) {
        uintptr_t function = CONFIGURATION + (device << 15), address = WINDOW;
        uint32_t kind = *word(function);
        if (kind != 0x10D38086u && kind != 0x100E8086u) {
            continue;
        }
        for (uint32_t base = 0; base < 6; base++) {
            volatile uint32_t *place = word(function + FIRST_BASE + 4 * base);
            if ((*place & 1) == 0) { /* memory; none of them is longer */
                *place = (uint32_t)address;
                address += REGISTERS_BYTES;
            }
        }
        /* It answers, and reaches memory; the upper half is its status, whose bits ones would clear. */
        *word(function + COMMAND) = (*word(function + COMMAND) & 0xFFFF) | 1u << 1 | 1u << 2;
        return aldis_e1000e_card(card, (void *)(uintptr_t)WINDOW, card_memory, sizeof card_memory);
    }
    return ALDIS_ERR_CARD;
}

int board_card(const char *link, uint32_t rank, aldis_card *card) {
    (void)rank;
    return link[0] == 'e' ? gigabit(card) : virtio(card);
}

void board_command_line(char *line, size_t bytes) {
    semihosting_command_line(line, bytes);
}

void board_print(const char *text) {
    for (; *text != 0; text++) {
        while ((*word(CONSOLE + CONSOLE_FLAGS) & IS_FULL) != 0) {
        }
        *word(CONSOLE) = (uint8_t)*text;
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
