// The programs of user mode. They use no address but those that they are given, so they run wherever they lie.
//
// A system call has its number in x0 and its argument in x1: 0 exits, 1 works in the kernel and returns 0 until the
// program is to end. Each program begins with its arguments in x0 and x1, and the end of a page of its own in sp.

.section .user, "awx", @progbits

// Fills its registers with values of its own (x1), counts down from x0, looks whether they are still there, and works
// in the kernel. Exits with the number of its rounds, or with all ones if a register changed.
.global user_rounds
user_rounds:
    stp     x0, x1, [sp, #-32]!
    str     xzr, [sp, #16]
1:  ldp     x0, x1, [sp]
.irp number, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    add     x\number, x1, #\number
.endr
    msr     tpidr_el0, x1
2:  subs    x0, x0, #1
    b.ne    2b
    mrs     x0, tpidr_el0
    cmp     x0, x1
    b.ne    3f
.irp number, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    sub     x\number, x\number, #\number
    cmp     x\number, x1
    b.ne    3f
.endr
    ldr     x2, [sp, #16]
    add     x2, x2, #1
    str     x2, [sp, #16]
    mov     x0, #1
    mov     x1, #1000
    svc     #0
    cbz     x0, 1b
    ldr     x1, [sp, #16]
    mov     x0, #0
    svc     #0
3:  mov     x1, #-1
    mov     x0, #0
    svc     #0

// Never lets go.
.global user_forever
user_forever:
    add     x0, x0, #1
    b       user_forever

// Reads a word at x0.
.global user_reads
user_reads:
    ldr     x1, [x0]
    mov     x0, #0
    svc     #0

// Writes a word at x0.
.global user_writes
user_writes:
    str     x1, [x0]
    mov     x0, #0
    svc     #0

// Goes on at x0.
.global user_jumps
user_jumps:
    br      x0

// Changes the state of the processor.
.global user_usurps
user_usurps:
    msr     vbar_el1, x0
    mov     x0, #0
    svc     #0

// Makes a system call that there is not.
.global user_asks
user_asks:
    mov     x0, #99
    svc     #0

.balign 4096
.global user_stacks
user_stacks:
    .skip   8 * 4096

.text
