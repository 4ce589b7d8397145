# The first instructions of each CPU, and the entry of its traps.
#
# `tp` holds the number of the CPU from the start to the end.

.section .text.boot, "ax"
.global _start
_start:
    csrw    sie, zero
    csrci   sstatus, 2
    la      sp, __stack_top
    la      t0, __bss_start
    la      t1, __bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:  li      tp, 0
    mv      a1, a0
    j       3f

# A CPU that the firmware started. a1 points to the top of its stack and its number.
.global _secondary
_secondary:
    csrw    sie, zero
    csrci   sstatus, 2
    ld      sp, 0(a1)
    ld      tp, 8(a1)
3:  la      t0, trap
    csrw    stvec, t0
    mv      a0, tp
    # The first CPU hands on which hart it is.
    call    riscv64_entry
4:  j       4b

.balign 4
trap:
    addi    sp, sp, -144
    sd      ra, 0(sp)
    sd      t0, 8(sp)
    sd      t1, 16(sp)
    sd      t2, 24(sp)
    sd      t3, 32(sp)
    sd      t4, 40(sp)
    sd      t5, 48(sp)
    sd      t6, 56(sp)
    sd      a0, 64(sp)
    sd      a1, 72(sp)
    sd      a2, 80(sp)
    sd      a3, 88(sp)
    sd      a4, 96(sp)
    sd      a5, 104(sp)
    sd      a6, 112(sp)
    sd      a7, 120(sp)
    csrr    t0, sepc
    csrr    t1, sstatus
    sd      t0, 128(sp)
    sd      t1, 136(sp)
    csrr    a0, scause
    csrr    a1, sepc
    csrr    a2, stval
    call    riscv64_trap
    ld      t0, 128(sp)
    ld      t1, 136(sp)
    csrw    sepc, t0
    csrw    sstatus, t1
    ld      ra, 0(sp)
    ld      t0, 8(sp)
    ld      t1, 16(sp)
    ld      t2, 24(sp)
    ld      t3, 32(sp)
    ld      t4, 40(sp)
    ld      t5, 48(sp)
    ld      t6, 56(sp)
    ld      a0, 64(sp)
    ld      a1, 72(sp)
    ld      a2, 80(sp)
    ld      a3, 88(sp)
    ld      a4, 96(sp)
    ld      a5, 104(sp)
    ld      a6, 112(sp)
    ld      a7, 120(sp)
    addi    sp, sp, 144
    sret

# Goes on with another thread: a0 points to where this one's stack pointer is kept, a1 is that of the other one.
.global switch_stacks
switch_stacks:
    addi    sp, sp, -112
    sd      ra, 0(sp)
    sd      s0, 8(sp)
    sd      s1, 16(sp)
    sd      s2, 24(sp)
    sd      s3, 32(sp)
    sd      s4, 40(sp)
    sd      s5, 48(sp)
    sd      s6, 56(sp)
    sd      s7, 64(sp)
    sd      s8, 72(sp)
    sd      s9, 80(sp)
    sd      s10, 88(sp)
    sd      s11, 96(sp)
    sd      sp, 0(a0)
    mv      sp, a1
    ld      ra, 0(sp)
    ld      s0, 8(sp)
    ld      s1, 16(sp)
    ld      s2, 24(sp)
    ld      s3, 32(sp)
    ld      s4, 40(sp)
    ld      s5, 48(sp)
    ld      s6, 56(sp)
    ld      s7, 64(sp)
    ld      s8, 72(sp)
    ld      s9, 80(sp)
    ld      s10, 88(sp)
    ld      s11, 96(sp)
    addi    sp, sp, 112
    ret

# Where the first switch to a thread returns to.
.global thread_begins
thread_begins:
    mv      a0, s0
    mv      a1, s1
    call    kernel_thread
5:  j       5b
