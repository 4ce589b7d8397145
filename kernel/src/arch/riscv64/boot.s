# The first instructions of each CPU, and the entry of its traps.
#
# `tp` holds the number of the CPU from the start to the end.

.section .text.boot, "ax"
.global _start
_start:
    csrw    sie, zero
    csrci   sstatus, 2
    csrw    sscratch, zero
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
    csrw    sscratch, zero
    ld      sp, 0(a1)
    ld      tp, 8(a1)
3:  la      t0, trap
    csrw    stvec, t0
    mv      a0, tp
    # The first CPU hands on which hart it is.
    call    riscv64_entry
4:  j       4b

# A CPU that never enters the kernel.
.global _mute
_mute:
    csrw    sie, zero
    csrci   sstatus, 2
6:  wfi
    j       6b

# Saves what a call may change, in so many bytes. Leaves the cause in a0, the interrupted instruction in a1, the value in
# a2 and the state in a3.
.macro save size
    addi    sp, sp, -\size
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
    mv      a1, t0
    csrr    a2, stval
    mv      a3, t1
.endm

# Restores all but the stack pointer.
.macro restore
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
.endm

# `sscratch` is 0 while the kernel executes, and its stack pointer while user mode does.
.balign 4
trap:
    csrrw   sp, sscratch, sp
    bnez    sp, user_trap
    csrrw   sp, sscratch, sp
    save    144
    call    riscv64_trap
    restore
    addi    sp, sp, 144
    sret

# From user mode, on the stack of the thread that left for it: `tp` is where `enter_user` left it.
user_trap:
    save    176
    sd      gp, 144(sp)
    sd      tp, 152(sp)
    csrrw   t0, sscratch, zero
    sd      t0, 160(sp)
    ld      tp, 176 + 104(sp)
    bgez    a0, 1f
    call    riscv64_trap
    j       2f
    # A system call or a fault. Where its answer begins with 0 the program goes on behind the call, with the second
    # word in a0.
1:  ld      a3, 64(sp)
    ld      a4, 72(sp)
    call    riscv64_user_trap
    bnez    a0, leave_user
    sd      a1, 64(sp)
    ld      t0, 128(sp)
    addi    t0, t0, 4
    sd      t0, 128(sp)
2:  addi    t0, sp, 176
    csrw    sscratch, t0
    restore
    ld      gp, 144(sp)
    ld      tp, 152(sp)
    ld      sp, 160(sp)
    sret

# What a function has to leave as it was; there is room for the thread pointer behind it.
.macro push_callee_saved
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
.endm

.macro pop_callee_saved
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
.endm

# Goes on in user mode at a0, on the stack a1, with a2 and a3 as arguments: all that the kernel had in registers is gone.
# Returns what `user_trap` was answered, masked. The stack pointer of the kernel stays where this leaves it.
.global enter_user
enter_user:
    push_callee_saved
    sd      tp, 104(sp)
    csrw    sepc, a0
    li      t0, 0x100
    csrc    sstatus, t0
    li      t0, 0x20
    csrs    sstatus, t0
    csrw    sscratch, sp
    mv      sp, a1
    mv      a0, a2
    mv      a1, a3
.irp register, t1,t2,t3,t4,t5,t6,a2,a3,a4,a5,a6,a7,s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,ra,gp,tp,t0
    mv      \register, zero
.endr
    sret
leave_user:
    addi    sp, sp, 176
    pop_callee_saved
    ret

# Goes on with another thread: a0 points to where this one's stack pointer is kept, a1 is that of the other one.
.global switch_stacks
switch_stacks:
    push_callee_saved
    sd      sp, 0(a0)
    mv      sp, a1
    pop_callee_saved
    ret

# Where the first switch to a thread returns to.
.global thread_begins
thread_begins:
    mv      a0, s0
    mv      a1, s1
    call    kernel_thread
5:  j       5b
