/* QEMU's `mps2-an386`, a Cortex-M4, from reset to C. Armv7-M Architecture Reference Manual, B1.5 (exceptions). */
    .syntax unified
    .section .vectors, "a"
    .word stack_end
    .word boot
    .rept 14                    // one as bad as the other
    .word trap
    .endr

    .section .text.boot, "ax"
    .thumb
    .global boot
    .type boot, %function
    .thumb_func
boot:
    cpsid i
    ldr r0, =0xE000ED88         // floating point
    ldr r1, [r0]
    orr r1, r1, #0xF00000
    str r1, [r0]
    dsb
    isb
    ldr r0, =bss_start
    ldr r1, =bss_end
    movs r2, #0
1:  cmp r0, r1
    bhs 2f
    str r2, [r0], #4
    b 1b
2:  ldr r0, =data_start
    ldr r1, =data_end
    ldr r2, =data_image
3:  cmp r0, r1
    bhs 4f
    ldr r3, [r2], #4
    str r3, [r0], #4
    b 3b
4:  bl program
    b .

    .type trap, %function
    .thumb_func
trap:
    ldr r1, =stack_end          // the stack may be what is at fault
    mov sp, r1
    b fault
