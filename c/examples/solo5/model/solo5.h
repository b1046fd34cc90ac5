/* A model of Solo5's interface: what the node beside it uses, with the same names, types and values, so that
 * it is built against Solo5's own header as it is. model.c says what the calls do. */
#ifndef SOLO5_MODEL_H
#define SOLO5_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef enum { SOLO5_R_OK = 0, SOLO5_R_AGAIN, SOLO5_R_EINVAL, SOLO5_R_EUNSPEC } solo5_result_t;

#define SOLO5_EXIT_SUCCESS 0
#define SOLO5_EXIT_FAILURE 1
#define SOLO5_EXIT_ABORT 255

struct solo5_start_info {
    const char *cmdline;
    uintptr_t heap_start;
    size_t heap_size;
};

typedef uint64_t solo5_time_t;
typedef uint64_t solo5_handle_t;
typedef uint64_t solo5_handle_set_t;

#define SOLO5_NET_ALEN 6
#define SOLO5_NET_HLEN 14

struct solo5_net_info {
    uint8_t mac_address[SOLO5_NET_ALEN];
    size_t mtu;
};

int solo5_app_main(const struct solo5_start_info *info);
void solo5_abort(void) __attribute__((noreturn));
solo5_time_t solo5_clock_monotonic(void);
solo5_time_t solo5_clock_wall(void);
void solo5_yield(solo5_time_t deadline, solo5_handle_set_t *ready_set);
void solo5_console_write(const char *buf, size_t size);
solo5_result_t solo5_net_acquire(const char *name, solo5_handle_t *handle, struct solo5_net_info *info);
solo5_result_t solo5_net_write(solo5_handle_t handle, const uint8_t *buf, size_t size);
solo5_result_t solo5_net_read(solo5_handle_t handle, uint8_t *buf, size_t size, size_t *read_size);

#endif
