// The first instructions of each CPU, and the entries of its exceptions.
//
// The MMU stays off: all memory is strongly ordered, and the code is built for strict alignment.

.section .text.boot, "ax"
.global _start
_start:
    msr     daifset, #0xf
    ldr     x1, =__stack_top
    mov     sp, x1
    ldr     x1, =__bss_start
    ldr     x2, =__bss_end
1:  cmp     x1, x2
    b.hs    2f
    str     xzr, [x1], #8
    b       1b
2:  mov     x0, #0
    b       3f

// A CPU that PSCI started. x0 points to the top of its stack and its number.
.global _secondary
_secondary:
    msr     daifset, #0xf
    ldr     x1, [x0]
    mov     sp, x1
    ldr     x0, [x0, #8]
3:  msr     tpidr_el1, x0
    ldr     x1, =vectors
    msr     vbar_el1, x1
    isb
    bl      kernel_entry
    b       .
.ltorg

.macro vector target
.balign 0x80
    b       \target
.endm

.balign 0x800
vectors:
    vector  fault
    vector  fault
    vector  fault
    vector  fault
    // From the kernel itself, on its own stack.
    vector  fault
    vector  interrupt
    vector  fault
    vector  fault
.rept 8
    vector  fault
.endr

// Saves what a call may change: the code is built without floating point.
interrupt:
    sub     sp, sp, #192
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x29, [sp, #144]
    mrs     x0, elr_el1
    mrs     x1, spsr_el1
    stp     x30, x0, [sp, #160]
    str     x1, [sp, #176]
    bl      aarch64_interrupt
    ldr     x1, [sp, #176]
    ldp     x30, x0, [sp, #160]
    msr     spsr_el1, x1
    msr     elr_el1, x0
    ldp     x18, x29, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp, #0]
    add     sp, sp, #192
    eret

// Goes on with another thread: x0 points to where this one's stack pointer is kept, x1 is that of the other one.
.global switch_stacks
switch_stacks:
    stp     x19, x20, [sp, #-96]!
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    ldp     x29, x30, [sp, #80]
    ldp     x27, x28, [sp, #64]
    ldp     x25, x26, [sp, #48]
    ldp     x23, x24, [sp, #32]
    ldp     x21, x22, [sp, #16]
    ldp     x19, x20, [sp], #96
    ret

// Where the first switch to a thread returns to.
.global thread_begins
thread_begins:
    mov     x0, x19
    mov     x1, x20
    bl      kernel_thread
    b       .

fault:
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    bl      aarch64_fault
    b       .
