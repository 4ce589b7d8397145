# The programs of user mode. They use no address but those that they are given, so they run wherever they lie.
#
# A system call has its number in a0 and its argument in a1: 0 exits, 1 works in the kernel and returns 0 until the
# program is to end. Each program begins with its arguments in a0 and a1, and the end of a page of its own in sp.

.section .user, "awx", @progbits

# Fills its registers with values of its own (a1), counts down from a0, looks whether they are still there, and works in
# the kernel. Exits with the number of its rounds, or with all ones if a register changed.
.global user_rounds
user_rounds:
    addi    sp, sp, -32
    sd      a0, 0(sp)
    sd      a1, 8(sp)
    sd      zero, 16(sp)
1:  ld      a0, 0(sp)
    ld      a1, 8(sp)
    addi    a2, a1, 2
    addi    a3, a1, 3
    addi    a4, a1, 4
    addi    a5, a1, 5
    addi    a6, a1, 6
    addi    a7, a1, 7
    addi    t0, a1, 8
    addi    t1, a1, 9
    addi    t2, a1, 10
    addi    t3, a1, 11
    addi    t4, a1, 12
    addi    t5, a1, 13
    addi    t6, a1, 14
    addi    s0, a1, 15
    addi    s1, a1, 16
    addi    s2, a1, 17
    addi    s3, a1, 18
    addi    s4, a1, 19
    addi    s5, a1, 20
    addi    s6, a1, 21
    addi    s7, a1, 22
    addi    s8, a1, 23
    addi    s9, a1, 24
    addi    s10, a1, 25
    addi    s11, a1, 26
    addi    ra, a1, 27
    addi    gp, a1, 28
    addi    tp, a1, 29
2:  addi    a0, a0, -1
    bnez    a0, 2b
    addi    a2, a2, -2
    bne     a2, a1, 3f
    addi    a3, a3, -3
    bne     a3, a1, 3f
    addi    a4, a4, -4
    bne     a4, a1, 3f
    addi    a5, a5, -5
    bne     a5, a1, 3f
    addi    a6, a6, -6
    bne     a6, a1, 3f
    addi    a7, a7, -7
    bne     a7, a1, 3f
    addi    t0, t0, -8
    bne     t0, a1, 3f
    addi    t1, t1, -9
    bne     t1, a1, 3f
    addi    t2, t2, -10
    bne     t2, a1, 3f
    addi    t3, t3, -11
    bne     t3, a1, 3f
    addi    t4, t4, -12
    bne     t4, a1, 3f
    addi    t5, t5, -13
    bne     t5, a1, 3f
    addi    t6, t6, -14
    bne     t6, a1, 3f
    addi    s0, s0, -15
    bne     s0, a1, 3f
    addi    s1, s1, -16
    bne     s1, a1, 3f
    addi    s2, s2, -17
    bne     s2, a1, 3f
    addi    s3, s3, -18
    bne     s3, a1, 3f
    addi    s4, s4, -19
    bne     s4, a1, 3f
    addi    s5, s5, -20
    bne     s5, a1, 3f
    addi    s6, s6, -21
    bne     s6, a1, 3f
    addi    s7, s7, -22
    bne     s7, a1, 3f
    addi    s8, s8, -23
    bne     s8, a1, 3f
    addi    s9, s9, -24
    bne     s9, a1, 3f
    addi    s10, s10, -25
    bne     s10, a1, 3f
    addi    s11, s11, -26
    bne     s11, a1, 3f
    addi    ra, ra, -27
    bne     ra, a1, 3f
    addi    gp, gp, -28
    bne     gp, a1, 3f
    addi    tp, tp, -29
    bne     tp, a1, 3f
    ld      a2, 16(sp)
    addi    a2, a2, 1
    sd      a2, 16(sp)
    li      a0, 1
    li      a1, 1000
    ecall
    beqz    a0, 1b
    ld      a1, 16(sp)
    li      a0, 0
    ecall
3:  li      a1, -1
    li      a0, 0
    ecall

# Never lets go.
.global user_forever
user_forever:
    addi    a0, a0, 1
    j       user_forever

# Reads a word at a0.
.global user_reads
user_reads:
    ld      a1, 0(a0)
    li      a0, 0
    ecall

# Writes a word at a0.
.global user_writes
user_writes:
    sd      a1, 0(a0)
    li      a0, 0
    ecall

# Goes on at a0.
.global user_jumps
user_jumps:
    jr      a0

# Changes the state of the processor.
.global user_usurps
user_usurps:
    csrw    stvec, a0
    li      a0, 0
    ecall

# Makes a system call that there is not.
.global user_asks
user_asks:
    li      a0, 99
    ecall

.balign 4096
.global user_stacks
user_stacks:
    .skip   8 * 4096

.text
