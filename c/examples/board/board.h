/* A board as the program sees it: `virt.c` and `mps2.c` are two, and `heat.c` is the program. */
#ifndef BOARD_H
#define BOARD_H

#include <aldis.h>

/* The machine of a rank. */
extern const aldis_platform board_platform;

/* Fills in the card of a link by its name, whose address, if it has none, ends with the rank. */
int board_card(const char *link, uint32_t rank, aldis_card *card);

/* The command line, ended by zero; it is empty if there is none. */
void board_command_line(char *line, size_t bytes);

/* Writes text to the console. */
void board_print(const char *text);

/* Ends the emulator. */
_Noreturn void board_exit(int success);

/* The program, which ends by board_exit. */
_Noreturn void program(void);

#endif
