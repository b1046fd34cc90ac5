/* Calls of the debugger or emulator: "Semihosting for AArch32 and AArch64", Arm, 2024. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stddef.h>
#include <stdint.h>

#define SYS_TIME 0x11u
#define SYS_GET_CMDLINE 0x15u
#define SYS_EXIT_EXTENDED 0x20u
/* The reason of an exit that has a code. */
#define APPLICATION_EXIT 0x20026u

static inline uintptr_t semihosting(uintptr_t number, const volatile uintptr_t *block) {
#ifdef __aarch64__
    register uintptr_t call __asm__("x0") = number;
    register const volatile uintptr_t *words __asm__("x1") = block;
    __asm__ volatile("hlt #0xf000" : "+r"(call) : "r"(words) : "memory");
#else
    register uintptr_t call __asm__("r0") = number;
    register const volatile uintptr_t *words __asm__("r1") = block;
    __asm__ volatile("bkpt #0xab" : "+r"(call) : "r"(words) : "memory");
#endif
    return call;
}

static inline void semihosting_command_line(char *line, size_t bytes) {
    volatile uintptr_t block[2] = {(uintptr_t)line, bytes};
    if (semihosting(SYS_GET_CMDLINE, block) != 0) {
        line[0] = 0;
    }
    line[bytes - 1] = 0;
}

/* Seconds since 1970. */
static inline uintptr_t semihosting_time(void) {
    return semihosting(SYS_TIME, NULL);
}

static inline _Noreturn void semihosting_exit(int success) {
    volatile uintptr_t block[2] = {APPLICATION_EXIT, success ? 0 : 1};
    for (;;) {
        semihosting(SYS_EXIT_EXTENDED, block);
    }
}

#endif
