// The first instructions of each CPU, and the entries of its exceptions.
//
// The MMU is off until a CPU has its tables of pages, and the code is built for strict alignment.

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

// A CPU that never enters the kernel.
.global _mute
_mute:
    msr     daifset, #0xf
4:  wfi
    b       4b

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
    // From user mode, on the stack of the thread that left for it.
    vector  user_trap
    vector  user_interrupt
    vector  fault
    vector  fault
.rept 4
    vector  fault
.endr

// Saves what a call may change, in `size` bytes: the code is built without floating point. Leaves the interrupted
// instruction in x0 and its state in x1.
.macro save size
    sub     sp, sp, #\size
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
.endm

.macro restore size
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
    add     sp, sp, #\size
    eret
.endm

// The same for user mode, with what that has of its own: x18 to x30 are there as ever, and calls keep the rest.
.macro save_user
    save    208
    mrs     x9, sp_el0
    mrs     x10, tpidr_el0
    stp     x9, x10, [sp, #184]
.endm

.macro restore_user
    ldp     x9, x10, [sp, #184]
    msr     sp_el0, x9
    msr     tpidr_el0, x10
    restore 208
.endm

interrupt:
    save    192
    bl      aarch64_interrupt
    restore 192

user_interrupt:
    save_user
    bl      aarch64_interrupt
    restore_user

// A system call or a fault. Where its answer begins with 0 the program goes on with the second word in x0.
user_trap:
    save_user
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    ldp     x3, x4, [sp, #0]
    bl      aarch64_user_trap
    cbnz    x0, 1f
    str     x1, [sp, #0]
    restore_user
1:  add     sp, sp, #208
    b       leave_user

// What a function has to leave as it was.
.macro push_callee_saved
    stp     x19, x20, [sp, #-96]!
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
.endm

.macro pop_callee_saved
    ldp     x29, x30, [sp, #80]
    ldp     x27, x28, [sp, #64]
    ldp     x25, x26, [sp, #48]
    ldp     x23, x24, [sp, #32]
    ldp     x21, x22, [sp, #16]
    ldp     x19, x20, [sp], #96
.endm

// Goes on in user mode at x0, on the stack x1, with x2 and x3 as arguments: all that the kernel had in registers is
// gone. Returns what `user_trap` was answered, masked. The stack pointer of the kernel stays where this leaves it.
.global enter_user
enter_user:
    push_callee_saved
    msr     elr_el1, x0
    msr     sp_el0, x1
    msr     tpidr_el0, xzr
    mov     x0, #0x340
    msr     spsr_el1, x0
    mov     x0, x2
    mov     x1, x3
.irp number, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    mov     x\number, xzr
.endr
    eret
leave_user:
    pop_callee_saved
    ret

// Goes on with another thread: x0 points to where this one's stack pointer is kept, x1 is that of the other one.
.global switch_stacks
switch_stacks:
    push_callee_saved
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    pop_callee_saved
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
