# The programs of user mode. They use no address but those that they are given, so they run wherever they lie.
#
# A system call is interrupt 0x80, has its number in rdi and its argument in rsi: 0 exits, 1 works in the kernel and
# returns 0 in rax until the program is to end. Each program begins with its arguments in rdi and rsi, and the end of a
# page of its own in rsp.

.section .user, "awx", @progbits

# Fills its registers with values of its own (rsi), counts down from rdi, looks whether they are still there, and works in
# the kernel. Exits with the number of its rounds, or with all ones if a register changed.
.global user_rounds
user_rounds:
    # What the kernel has in gs is its own matter: this is a segment of user mode, which begins at 0.
    mov     $0x1b, %eax
    mov     %eax, %gs
    push    $0
    push    %rsi
    push    %rdi
1:  mov     (%rsp), %rdi
    mov     8(%rsp), %rsi
    lea     2(%rsi), %rax
    lea     3(%rsi), %rbx
    lea     4(%rsi), %rcx
    lea     5(%rsi), %rdx
    lea     6(%rsi), %rbp
    lea     7(%rsi), %r8
    lea     8(%rsi), %r9
    lea     9(%rsi), %r10
    lea     10(%rsi), %r11
    lea     11(%rsi), %r12
    lea     12(%rsi), %r13
    lea     13(%rsi), %r14
    lea     14(%rsi), %r15
2:  dec     %rdi
    jnz     2b
    sub     $2, %rax
    cmp     %rsi, %rax
    jne     3f
    sub     $3, %rbx
    cmp     %rsi, %rbx
    jne     3f
    sub     $4, %rcx
    cmp     %rsi, %rcx
    jne     3f
    sub     $5, %rdx
    cmp     %rsi, %rdx
    jne     3f
    sub     $6, %rbp
    cmp     %rsi, %rbp
    jne     3f
    sub     $7, %r8
    cmp     %rsi, %r8
    jne     3f
    sub     $8, %r9
    cmp     %rsi, %r9
    jne     3f
    sub     $9, %r10
    cmp     %rsi, %r10
    jne     3f
    sub     $10, %r11
    cmp     %rsi, %r11
    jne     3f
    sub     $11, %r12
    cmp     %rsi, %r12
    jne     3f
    sub     $12, %r13
    cmp     %rsi, %r13
    jne     3f
    sub     $13, %r14
    cmp     %rsi, %r14
    jne     3f
    sub     $14, %r15
    cmp     %rsi, %r15
    jne     3f
    incq    16(%rsp)
    mov     $1, %edi
    mov     $1000, %esi
    int     $0x80
    test    %rax, %rax
    jz      1b
    mov     16(%rsp), %rsi
    xor     %edi, %edi
    int     $0x80
3:  mov     $-1, %rsi
    xor     %edi, %edi
    int     $0x80

# Never lets go.
.global user_forever
user_forever:
    inc     %rdi
    jmp     user_forever

# Reads a word at rdi.
.global user_reads
user_reads:
    mov     (%rdi), %rsi
    xor     %edi, %edi
    int     $0x80

# Writes a word at rdi.
.global user_writes
user_writes:
    mov     %rsi, (%rdi)
    xor     %edi, %edi
    int     $0x80

# Goes on at rdi.
.global user_jumps
user_jumps:
    jmp     *%rdi

# Changes the state of the processor.
.global user_usurps
user_usurps:
    cli
    xor     %edi, %edi
    int     $0x80

# Makes a system call that there is not.
.global user_asks
user_asks:
    mov     $99, %edi
    int     $0x80

.balign 4096
.global user_stacks
user_stacks:
    .skip   8 * 4096

.text
