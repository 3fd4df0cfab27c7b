/* The entry points of a library, LIBRARY: each notes its number and goes to `entry`, which puts the words that may be arguments one
   behind the other for `answer` (`shim.c`). CALLS is a file of lines FUNCTION name. Assembling them takes a tenth of compiling them. */
#if defined __x86_64__
#define NOTE movl $number, %eax
#define GO jmp entry
#elif defined __aarch64__
#define NOTE mov w16, #number
#define GO b entry
#else
#error "the driver library is for x86-64 and AArch64"
#endif

.macro FUNCTION name
    .globl \name
    .type \name, %function
    .balign 16
\name:
    NOTE
    GO
    .set number, number + 1
    .pushsection .names, "a"
    .asciz "\name"
    .popsection
.endm

.macro SHARED name
    .globl \name
    .hidden \name
\name:
.endm

    .section .names, "a"
SHARED names
    .text
    .balign 16
SHARED stubs
    .set number, 0
    .cfi_startproc
#include CALLS

entry:
#if defined __x86_64__
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    .set place, 88
    .rept 10 /* behind the return address; nearly all functions have fewer, and leave what they are not given */
    pushq place(%rbp)
    .set place, place - 8
    .endr
    pushq %r9
    pushq %r8
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    movl %eax, %edi
    movq 8(%rbp), %rsi
    movq %rsp, %rdx
    call answer
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    ret
#else
    stp x29, x30, [sp, #-144]!
    .cfi_def_cfa_offset 144
    .cfi_offset x29, -144
    .cfi_offset x30, -136
    mov x29, sp
    .cfi_def_cfa_register x29
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    ldp x9, x10, [sp, #144]
    stp x9, x10, [sp, #80]
    ldp x9, x10, [sp, #160]
    stp x9, x10, [sp, #96]
    ldp x9, x10, [sp, #176]
    stp x9, x10, [sp, #112]
    ldp x9, x10, [sp, #192]
    stp x9, x10, [sp, #128]
    mov w0, w16
    mov x1, x30
    add x2, sp, #16
    bl answer
    ldp x29, x30, [sp], #144
    .cfi_def_cfa sp, 0
    .cfi_restore x29
    .cfi_restore x30
    ret
#endif
    .cfi_endproc

    .section .rodata
SHARED library_name
    .asciz LIBRARY
    .balign 4
SHARED count
    .long number
    .bss
    .balign 8
SHARED table
    .skip 8 * (6 + number) /* the fields that shim.c names, and a slot for each entry point */
    .section .note.GNU-stack, "", %progbits
