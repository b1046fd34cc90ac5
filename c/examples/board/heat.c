/* The heat equation on a plate that is cut into strips of rows, one a rank: in every step a rank sends its
 * first and last row to its neighbours and receives theirs. The program is that of the ranks in Rust
 * (tests/programs/src/heat.rs), with which this one is of one job: all say the same digest, to the last bit.
 *
 *     cargo xtask qemu mixed --host 1 --guest aarch64-c=1 --guest riscv64=1 --program heat
 *
 * It needs no libc. What multiplies and adds at once would round otherwise: -ffp-contract=off. */
#include "board.h"

#define WIDTH 32u
#define HEIGHT 32u
#define CELLS ((HEIGHT + 2) * WIDTH)
#define CONDUCTIVITY 0.2

/* Tags: to the rank above, and to the one below. */
#define UP 1u
#define DOWN 2u

/* All that a rank of a job of eight needs. */
static uint8_t rank_memory[1024 * 1024];

/* A rank's rows with a row of its neighbours' above and below. */
struct strip {
    uint32_t top, rows; /* the plate's row that is its first, and how many */
    double *cells, *next;
};

/* The options of the command line. */
struct options {
    uint32_t steps;
    uint64_t deadline_ns;
    char link[16];
    aldis_config config;
    uint8_t key[16];
};

/* Text that is put together, and cut if it is too long. */
struct text {
    char bytes[320];
    size_t len;
};

static void put(struct text *text, const char *more) {
    while (*more != 0 && text->len + 1 < sizeof text->bytes) {
        text->bytes[text->len++] = *more++;
    }
    text->bytes[text->len] = 0;
}

static void put_number(struct text *text, uint64_t number, unsigned base, unsigned digits) {
    char reversed[24];
    unsigned len = 0;
    while (number != 0 || len < digits) {
        reversed[len++] = "0123456789abcdef"[number % base];
        number /= base;
    }
    while (len > 0) {
        char one[2] = {reversed[--len], 0};
        put(text, one);
    }
}

/* Says why this rank comes to nothing, and ends. */
static _Noreturn void refuse(const char *what, int error, aldis_rank *rank) {
    struct text text = {{0}, 0};
    put(&text, "verdict: FAILED ");
    put(&text, what);
    if (error != ALDIS_OK) {
        char whole[200];
        aldis_last_error(rank, whole, sizeof whole);
        put(&text, ": ");
        put(&text, aldis_error_text(error));
        put(&text, ": ");
        put(&text, whole);
    }
    put(&text, "\n");
    board_print(text.bytes);
    if (rank != NULL) {
        aldis_abort(rank, 1);
    }
    board_exit(0);
}

static int starts_with(const char *text, const char *start) {
    while (*start != 0) {
        if (*text++ != *start++) {
            return 0;
        }
    }
    return 1;
}

/* A number that ends with a word. */
static uint64_t number(const char *word, unsigned base) {
    uint64_t value = 0;
    for (; *word != 0 && *word != ' '; word++) {
        unsigned digit = *word <= '9' ? (unsigned)(*word - '0') : ((unsigned)*word | 0x20u) - 'a' + 10;
        if (digit >= base) {
            refuse("a number of the command line is none", ALDIS_OK, NULL);
        }
        value = value * base + digit;
    }
    return value;
}

static void key(const char *word, struct options *options) {
    for (size_t at = 0; at < 16; at++) {
        char byte[3] = {word[2 * at], word[2 * at] == 0 ? 0 : word[2 * at + 1], 0};
        if (byte[0] <= ' ' || byte[1] <= ' ') {
            refuse("aldis.key is not 32 hexadecimal digits", ALDIS_OK, NULL);
        }
        options->key[at] = (uint8_t)number(byte, 16);
    }
    options->config.key = options->key;
}

/* Reads a word of the command line. */
static void option(const char *word, struct options *options) {
    if (starts_with(word, "aldis.rank=")) {
        options->config.rank = (uint32_t)number(word + 11, 10);
    } else if (starts_with(word, "aldis.size=")) {
        options->config.size = (uint32_t)number(word + 11, 10);
    } else if (starts_with(word, "aldis.job=")) {
        options->config.job = number(word + 10, 16);
    } else if (starts_with(word, "aldis.key=")) {
        key(word + 10, options);
    } else if (starts_with(word, "aldis.count=")) {
        options->steps = (uint32_t)number(word + 12, 10);
    } else if (starts_with(word, "aldis.deadline_ms=")) {
        options->deadline_ns = number(word + 18, 10) * 1000000;
    } else if (starts_with(word, "aldis.framing=udp")) {
        options->config.flags |= ALDIS_UDP;
    } else if (starts_with(word, "aldis.link=")) {
        for (size_t at = 0; at + 1 < sizeof options->link && word[11 + at] != 0 && word[11 + at] != ' '; at++) {
            options->link[at] = word[11 + at];
        }
        if (starts_with(options->link, "serial")) {
            options->config.flags |= ALDIS_SLOW;
        }
    } else if (!starts_with(word, "aldis.program=heat") && !starts_with(word, "aldis.framing=ethernet")) {
        refuse("this board in C has the program heat, and not that option", ALDIS_OK, NULL);
    }
}

static void read_options(const char *line, struct options *options) {
    while (*line != 0) {
        /* An emulator puts the name of the image in front. */
        if (starts_with(line, "aldis.")) {
            option(line, options);
        }
        while (*line != 0 && *line != ' ') {
            line++;
        }
        while (*line == ' ') {
            line++;
        }
    }
}

static double first_temperature(uint32_t row, uint32_t column) {
    return (double)((row * 37 + column * 23 + row * column * 7) % 101);
}

static void begin(struct strip *strip, uint32_t rank, uint32_t ranks) {
    static double cells[CELLS], next[CELLS];
    strip->top = rank * HEIGHT / ranks;
    strip->rows = (rank + 1) * HEIGHT / ranks - strip->top;
    strip->cells = cells;
    strip->next = next;
    for (uint32_t at = 0; at < CELLS; at++) {
        cells[at] = next[at] = 0;
    }
    for (uint32_t row = 0; row < strip->rows; row++) {
        for (uint32_t column = 0; column < WIDTH; column++) {
            cells[(row + 1) * WIDTH + column] = first_temperature(strip->top + row, column);
        }
    }
}

/* Advances by an explicit Euler step, with the sums in the order of the program in Rust. */
static void step(struct strip *strip) {
    const double *cells = strip->cells;
    for (uint32_t row = 1; row <= strip->rows; row++) {
        for (uint32_t column = 0; column < WIDTH; column++) {
            uint32_t at = row * WIDTH + column;
            double west = column > 0 ? cells[at - 1] : 0, east = column + 1 < WIDTH ? cells[at + 1] : 0;
            double around = (cells[at - WIDTH] + cells[at + WIDTH]) + (west + east);
            strip->next[at] = cells[at] + CONDUCTIVITY * (around - 4.0 * cells[at]);
        }
    }
    double *before = strip->cells;
    strip->cells = strip->next;
    strip->next = before;
}

/* FNV-1a (Fowler, Noll, Vo), a word at a time. */
static uint64_t digest(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 0x100000001B3u;
}

/* A hash of a strip's rows; those of all strips sum up to the plate's. */
static uint64_t digest_of(const struct strip *strip) {
    uint64_t sum = 0;
    for (uint32_t row = 0; row < strip->rows; row++) {
        uint64_t hash = digest(0xCBF29CE484222325u, strip->top + row);
        for (uint32_t column = 0; column < WIDTH; column++) {
            union {
                double cell;
                uint64_t bits;
            } cell = {strip->cells[(row + 1) * WIDTH + column]};
            hash = digest(hash, cell.bits);
        }
        sum += hash;
    }
    return sum;
}

/* Sends the first and the last row to the neighbours, and takes theirs. */
static int exchange(aldis_rank *rank, const struct strip *strip, uint64_t limit_ns) {
    const size_t bytes = WIDTH * sizeof(double);
    uint32_t me = aldis_rank_of(rank), last = strip->rows;
    double *cells = strip->cells;
    aldis_request requests[4] = {{0}};
    int result = ALDIS_OK;
    if (me > 0) {
        result = aldis_irecv(rank, cells, bytes, me - 1, DOWN, &requests[0]);
        result = result ? result : aldis_isend(rank, cells + WIDTH, bytes, me - 1, UP, &requests[1]);
    }
    if (result == ALDIS_OK && me + 1 < aldis_size_of(rank)) {
        result = aldis_irecv(rank, cells + (last + 1) * WIDTH, bytes, me + 1, UP, &requests[2]);
        result = result ? result : aldis_isend(rank, cells + last * WIDTH, bytes, me + 1, DOWN, &requests[3]);
    }
    for (unsigned at = 0; at < 4 && result == ALDIS_OK; at++) {
        if (requests[at].state != 0) {
            result = aldis_wait(rank, &requests[at], limit_ns, NULL);
        }
    }
    return result;
}

/* Heats the plate on all ranks, and returns its digest. */
static uint64_t solve(aldis_rank *rank, const struct options *options) {
    struct strip strip;
    begin(&strip, aldis_rank_of(rank), aldis_size_of(rank));
    for (uint32_t at = 0; at < options->steps; at++) {
        int result = exchange(rank, &strip, options->deadline_ns);
        if (result != ALDIS_OK) {
            refuse("exchange", result, rank);
        }
        step(&strip);
    }
    uint64_t sum = digest_of(&strip), scratch;
    int result = aldis_allreduce(rank, &sum, 1, &scratch, 1, ALDIS_UINT64, ALDIS_SUM, options->deadline_ns);
    if (result != ALDIS_OK) {
        refuse("allreduce", result, rank);
    }
    return sum;
}

/* The same on a plate that is not cut. */
static uint64_t solve_alone(uint32_t steps) {
    struct strip strip;
    begin(&strip, 0, 1);
    for (uint32_t at = 0; at < steps; at++) {
        step(&strip);
    }
    return digest_of(&strip);
}

_Noreturn void program(void) {
    static char line[512];
    static struct options options;
    options.steps = 100;
    options.deadline_ns = 20000000000u;
    options.config.size = 1;
    board_command_line(line, sizeof line);
    read_options(line, &options);
    if (options.config.size > HEIGHT) {
        refuse("more ranks than rows", ALDIS_OK, NULL);
    }
    static aldis_card card;
    int result = board_card(options.link, options.config.rank, &card);
    if (result != ALDIS_OK) {
        refuse("the card", result, NULL);
    }
    aldis_rank *rank = NULL;
    result = aldis_init(rank_memory, sizeof rank_memory, &options.config, &card, &board_platform, &rank);
    if (result != ALDIS_OK) {
        refuse("joining", result, rank);
    }
    uint64_t sum = solve(rank, &options);
    if (sum != solve_alone(options.steps)) {
        refuse("the digest is not that of one rank", ALDIS_OK, rank);
    }
    result = aldis_finalize(rank, options.deadline_ns);
    if (result != ALDIS_OK) {
        refuse("leaving", result, NULL);
    }
    struct text text = {{0}, 0};
    put(&text, "verdict: OK heat steps=");
    put_number(&text, options.steps, 10, 1);
    put(&text, " digest=");
    put_number(&text, sum, 16, 16);
    put(&text, "\n");
    board_print(text.bytes);
    board_exit(1);
}

/* The library has found a mistake of its own. */
void aldis_panic(void) {
    board_print("verdict: FAILED a panic of the library\n");
    board_exit(0);
}
