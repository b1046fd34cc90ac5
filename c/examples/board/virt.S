/* QEMU's aarch64 `virt` from EL1 to C. Turns on floating point, and the MMU with a map of addresses as they
 * are: without it all memory is device memory, in which unaligned accesses fault and exclusives need not
 * work. The map has blocks of 2 MiB in the first 2 GiB: devices, then RAM, but for one block below the stack.
 * Arm Architecture Reference Manual for A-profile, D8 (address translation). */
    .section .text.boot, "ax"
    .global boot
boot:
    mov x0, #(3 << 20)          // floating point, for this level too
    msr cpacr_el1, x0
    ldr x0, =bss_start
    ldr x1, =bss_end
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:  ldr x0, =ram_blocks         // a stack that overflows faults
    ldr x1, =guard_entry
    str xzr, [x0, x1]
    ldr x0, =0xFF               // attributes: 0 is ordinary, 1 is a device
    msr mair_el1, x0
    ldr x0, =0x803519           // 39 bits by 4 KiB pages, cached, shared; no second half
    msr tcr_el1, x0
    ldr x0, =root
    msr ttbr0_el1, x0
    ldr x0, =vectors
    msr vbar_el1, x0
    dsb sy
    tlbi vmalle1
    dsb sy
    isb
    mrs x0, sctlr_el1
    mov x1, #0x1005             // MMU, data and instruction caches
    orr x0, x0, x1
    bic x0, x0, #2              // unaligned accesses are fine
    msr sctlr_el1, x0
    isb
    ldr x0, =stack_end
    mov sp, x0
    bl program
    b .

    .balign 2048
vectors:                        // sixteen, one as bad as the other
    .rept 16
    ldr x0, =stack_end          // the stack may be what is at fault
    mov sp, x0
    b fault
    .balign 128
    .endr

    .section .data.boot, "aw"
    .balign 4096
root:
    .quad low_blocks + 3, ram_blocks + 3
    .fill 510, 8, 0
low_blocks:
    .set block, 0
    .rept 512
    .quad block + 0x60000000000405   // a device, not to be executed
    .set block, block + 0x200000
    .endr
ram_blocks:
    .rept 512
    .quad block + 0x701
    .set block, block + 0x200000
    .endr
