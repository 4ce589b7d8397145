# The first instructions of each CPU, and the entries of its interrupts and exceptions.
#
# The emulator enters in 32-bit mode, without paging (PVH). All memory and all devices below 4 GiB are mapped where they
# are. Another CPU begins in 16-bit mode, in a copy of what lies between `trampoline` and `trampoline_end`, at 0x8000.

.section .note.pvh, "a", @note
.balign 4
    .long   4
    .long   4
    .long   18
    .asciz  "Xen"
    .long   _start

.section .text.boot, "ax"
.code32
.global _start
_start:
    cli
    cld
    mov     %ebx, %ebp
    mov     $__bss_start, %edi
    mov     $__bss_end, %ecx
    sub     %edi, %ecx
    shr     $2, %ecx
    xor     %eax, %eax
    rep stosl
    # One table of tables, four of them for 1 GiB each, and 2,048 pages of 2 MiB.
    movl    $(boot_pages + 0x1003), boot_pages
    mov     $(boot_pages + 0x2003), %eax
    mov     $(boot_pages + 0x1000), %edi
    mov     $4, %ecx
1:  mov     %eax, (%edi)
    add     $0x1000, %eax
    add     $8, %edi
    loop    1b
    mov     $0x83, %eax
    mov     $(boot_pages + 0x2000), %edi
    mov     $2048, %ecx
2:  mov     %eax, (%edi)
    add     $0x200000, %eax
    add     $8, %edi
    loop    2b
    lgdt    boot_gdt_pointer
    mov     $start64, %ebx
    ljmp    $0x18, $into_long_mode

# Turns on paging, and goes on in 64-bit mode where ebx points to.
into_long_mode:
    mov     $0x10, %eax
    mov     %eax, %ds
    mov     %eax, %es
    mov     %eax, %ss
    mov     %cr4, %eax
    or      $0x20, %eax
    mov     %eax, %cr4
    mov     $boot_pages, %eax
    mov     %eax, %cr3
    mov     $0xc0000080, %ecx
    rdmsr
    or      $0x100, %eax
    wrmsr
    mov     %cr0, %eax
    or      $0x80010001, %eax
    mov     %eax, %cr0
    ljmp    $0x08, $in_long_mode

secondary32:
    mov     $secondary64, %ebx
    jmp     into_long_mode

.code64
in_long_mode:
    mov     %ebx, %ebx
    jmp     *%rbx

start64:
    mov     $__stack_top, %rsp
    xor     %edi, %edi
    mov     %ebp, %esi
    call    x86_64_entry
    ud2

secondary64:
    mov     secondary_stack, %rsp
    mov     secondary_local, %rdi
    xor     %esi, %esi
    call    x86_64_entry
    ud2

.code16
.global trampoline
trampoline:
    cli
    cld
    xor     %ax, %ax
    mov     %ax, %ds
    lgdtl   0x8000 + (trampoline_gdt_pointer - trampoline)
    mov     %cr0, %eax
    or      $1, %eax
    mov     %eax, %cr0
    ljmpl   $0x18, $secondary32
.balign 4
trampoline_gdt_pointer:
    .word   boot_gdt_end - boot_gdt - 1
    .long   boot_gdt
.global trampoline_end
trampoline_end:

# The copy of a CPU that never enters the kernel.
.global mute
mute:
    cli
1:  hlt
    jmp     1b
.global mute_end
mute_end:

.code64
.balign 8
boot_gdt:
    .quad   0
    .quad   0x00af9a000000ffff
    .quad   0x00cf92000000ffff
    .quad   0x00cf9a000000ffff
boot_gdt_end:
boot_gdt_pointer:
    .word   boot_gdt_end - boot_gdt - 1
    .long   boot_gdt

# Saves what a call may change: the code is built without floating point. The processor aligned the stack, and pushed
# five words on it.
.macro save
    push    %rax
    push    %rcx
    push    %rdx
    push    %rsi
    push    %rdi
    push    %r8
    push    %r9
    push    %r10
    push    %r11
    cld
.endm

.macro pop_saved
    pop     %r11
    pop     %r10
    pop     %r9
    pop     %r8
    pop     %rdi
    pop     %rsi
    pop     %rdx
    pop     %rcx
    pop     %rax
.endm

.macro restore
    pop_saved
    iretq
.endm

# Points `gs` to what the CPU has of its own, whose address is at `place` of the stack: `enter_user` left it behind the
# five words of each interrupt of user mode, and so the stack of the NMI has it.
.macro find_own place
    mov     \place(%rsp), %rax
    mov     %rax, %rdx
    shr     $32, %rdx
    mov     $0xc0000101, %ecx
    wrmsr
.endm

.macro interrupt name, target
.global \name
.balign 16
\name:
    testb   $3, 8(%rsp)
    jnz     1f
    save
    mov     72(%rsp), %rdi
    mov     80(%rsp), %rsi
    call    \target
    restore
1:  save
    find_own 112
    mov     72(%rsp), %rdi
    mov     80(%rsp), %rsi
    call    \target
    jmp     return_to_user
.endm

    interrupt entry_timer, x86_64_timer
    interrupt entry_call, x86_64_call
    interrupt entry_broadcast, x86_64_broadcast
    interrupt entry_stray, x86_64_stray

# Saves what an interrupt on top of any code may change. It comes in either mode, and where `gs` is still that of user
# mode.
.macro save_on_top
    save
    mov     $0xc0000101, %ecx
    rdmsr
    push    %rax
    push    %rdx
    find_own 128
.endm

# Makes interrupted code that is about to sleep go on behind the `hlt`, which has one byte. Where this interrupt came
# between `sti` and `hlt`, those that wait for `sti` come before the `hlt`: the CPU would sleep although one of them
# gave it something to do.
.macro pass_sleep place
    lea     sleeps(%rip), %rax
    cmp     %rax, \place(%rsp)
    jne     2f
    incq    \place(%rsp)
2:
.endm

.macro restore_gs
    pop     %rdx
    pop     %rax
    mov     $0xc0000101, %ecx
    wrmsr
.endm

.global entry_nmi
.balign 16
entry_nmi:
    save_on_top
    call    x86_64_nmi
    pass_sleep 88
    restore_gs
    restore

# Returns to the kernel without `iretq`, which lets the next NMI in: the handler of an NMI that the machine check
# interrupted still uses the stack of that next NMI. The interrupted code goes on by `ret`, on its own stack, to which
# rax, the flags and the return address are copied.
.global entry_machine_check
.balign 16
entry_machine_check:
    save_on_top
    mov     88(%rsp), %rdi
    call    x86_64_machine_check
    pass_sleep 88
    restore_gs
    testb   $3, 80(%rsp)
    jz      1f
    restore
1:  mov     96(%rsp), %rax
    mov     72(%rsp), %rcx
    mov     %rcx, -8(%rax)
    mov     88(%rsp), %rcx
    mov     %rcx, -16(%rax)
    mov     64(%rsp), %rcx
    mov     %rcx, -24(%rax)
    sub     $24, %rax
    mov     %rax, 64(%rsp)
    pop_saved
    mov     %rax, %rsp
    pop     %rax
    popfq
    ret

# Sleeps until an interrupt is pending, takes it, and returns masked. Called masked.
.global sleep_once
.balign 16
sleep_once:
    rdtsc
    sti
sleeps:
    hlt
    cli
    ret

# Calls the entry of an interrupt, rdi, as the processor does where the interrupt comes at the `hlt` of `sleep_once`.
# Called masked; rsi is the address of what the CPU has of its own. Returns from `sleep_once`, masked.
.global interrupt_sleep_at
.balign 16
interrupt_sleep_at:
    mov     %rsp, %rax
    and     $-16, %rsp
    # The way back may copy three words to below the stack of the interrupted code.
    sub     $40, %rsp
    push    %rsi
    mov     %ss, %ecx
    push    %rcx
    push    %rax
    pushfq
    mov     %cs, %ecx
    push    %rcx
    lea     sleeps(%rip), %rcx
    push    %rcx
    jmp     *%rdi

# A system call. Where its answer begins with 0 the program goes on with the second word in rax.
.global entry_system_call
.balign 16
entry_system_call:
    save
    find_own 112
    mov     72(%rsp), %rdx
    call    x86_64_system_call
    test    %rax, %rax
    jnz     1f
    mov     %rdx, 64(%rsp)
# Where the next interrupt of user mode finds a stack is the lower end of what this thread has on it.
return_to_user:
    lea     112(%rsp), %rax
    mov     %rax, %gs:68
    restore
1:  add     $112, %rsp
    jmp     leave_user

# What a function has to leave as it was.
.macro push_callee_saved
    push    %rbp
    push    %rbx
    push    %r12
    push    %r13
    push    %r14
    push    %r15
.endm

.macro pop_callee_saved
    pop     %r15
    pop     %r14
    pop     %r13
    pop     %r12
    pop     %rbx
    pop     %rbp
.endm

# Goes on in user mode at rdi, on the stack rsi, with rdx and rcx as arguments: all that the kernel had in registers is
# gone. Returns what a system call or fault was answered, masked. The processor enters the kernel on the stack where
# this leaves it, whose last word is the address of what the CPU has of its own.
.global enter_user
.balign 16
enter_user:
    push_callee_saved
    mov     %rdx, %r8
    mov     %rcx, %r9
    mov     $0xc0000101, %ecx
    rdmsr
    shl     $32, %rdx
    or      %rdx, %rax
    push    %rax
    mov     %rsp, %gs:68
    push    $0x1b
    push    %rsi
    push    $0x202
    push    $0x33
    push    %rdi
    mov     %r8, %rdi
    mov     %r9, %rsi
.irp register, rax,rbx,rcx,rdx,rbp,r8,r9,r10,r11,r12,r13,r14,r15
    mov     $0, %\register
.endr
    iretq
leave_user:
    add     $8, %rsp
    pop_callee_saved
    ret

# Goes on with another thread: rdi points to where this one's stack pointer is kept, rsi is that of the other one.
.global switch_stacks
.balign 16
switch_stacks:
    push_callee_saved
    mov     %rsp, (%rdi)
    mov     %rsi, %rsp
    pop_callee_saved
    ret

# Where the first switch to a thread returns to.
.global thread_begins
thread_begins:
    mov     %rbx, %rdi
    mov     %r12, %rsi
    call    kernel_thread
    ud2

# The entries of the exceptions, 16 bytes from one to the next. Those that have no code of the processor push one.
.global entry_exceptions
.balign 16
entry_exceptions:
.set vector, 0
.rept 32
.balign 16
.if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
.else
    push    $0
.endif
    push    $vector
    jmp     exception
.set vector, vector + 1
.endr
exception:
    # The double fault has a stack of its own.
    cmpq    $8, (%rsp)
    je      1f
    testb   $3, 24(%rsp)
    jz      2f
    find_own 56
    cld
    mov     0(%rsp), %rdi
    mov     8(%rsp), %rsi
    mov     16(%rsp), %rdx
    mov     %cr2, %rcx
    sub     $8, %rsp
    call    x86_64_user_fault
    add     $64, %rsp
    jmp     leave_user
1:  find_own 56
2:  mov     0(%rsp), %rdi
    mov     8(%rsp), %rsi
    mov     16(%rsp), %rdx
    mov     %cr2, %rcx
    and     $-16, %rsp
    call    x86_64_fault
    ud2

.section .bss.boot_pages, "aw", @nobits
.balign 4096
.global boot_pages
boot_pages:
    .skip   0x6000

.text
