/* SPDX-License-Identifier: Apache-2.0 */
/* stacks.c - calls a function on another stack (stacks.h). */
#include "stacks.h"
#include "pool.h"
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { GUARD = 64 << 10 }; /* a multiple of all page sizes */

struct stacks {
	sem_t spare;
	size_t bytes; /* of each, without its guard */
	int n;
	struct stack {
		char *memory; /* GUARD bytes that trap, then the stack */
		atomic_flag used;
	} stack[];
};

static _Thread_local int is_switched;

/* Calls f(arg) with the stack pointer at `top`, a multiple of 16. The .cfi lines describe the
 * frame, so that debuggers find the caller. */
#if defined(__x86_64__)
void attune_call_on(char *top, void (*f)(void *arg), void *arg);
__asm__(".text\n"
	".globl attune_call_on\n"
	".hidden attune_call_on\n"
	".type attune_call_on, @function\n"
	"attune_call_on:\n"
	".cfi_startproc\n"
	"	pushq %rbx\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset rbx, -16\n"
	"	movq %rsp, %rbx\n"
	".cfi_def_cfa_register rbx\n"
	"	movq %rdi, %rsp\n"
	"	movq %rdx, %rdi\n"
	"	call *%rsi\n"
	"	movq %rbx, %rsp\n"
	".cfi_def_cfa_register rsp\n"
	"	popq %rbx\n"
	".cfi_def_cfa_offset 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size attune_call_on, . - attune_call_on\n");
#elif defined(__aarch64__)
void attune_call_on(char *top, void (*f)(void *arg), void *arg);
__asm__(".text\n"
	".globl attune_call_on\n"
	".hidden attune_call_on\n"
	".type attune_call_on, %function\n"
	"attune_call_on:\n"
	".cfi_startproc\n"
	"	stp x29, x30, [sp, -16]!\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset 29, -16\n"
	".cfi_offset 30, -8\n"
	"	mov x29, sp\n"
	".cfi_def_cfa_register 29\n"
	"	mov sp, x0\n"
	"	mov x0, x2\n"
	"	blr x1\n"
	"	mov sp, x29\n"
	".cfi_def_cfa_register 31\n"
	"	ldp x29, x30, [sp], 16\n"
	".cfi_def_cfa_offset 0\n"
	"	ret\n"
	".cfi_endproc\n"
	".size attune_call_on, . - attune_call_on\n");
#else
static void attune_call_on(char *top, void (*f)(void *arg), void *arg)
{
	(void)top;
	f(arg);
}
#endif

struct stacks *stacks_open(int n)
{
	struct stacks *s = calloc(1, sizeof *s + (size_t)n * sizeof *s->stack);
	if (!s || sem_init(&s->spare, 0, (unsigned)n)) {
		free(s);
		return NULL;
	}
	s->bytes = pool_stack_bytes();
	for (; s->n < n; s->n++) {
		char *memory = mmap(NULL, GUARD + s->bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
		if (memory == MAP_FAILED)
			break;
		s->stack[s->n].memory = memory;
		if (mprotect(memory, GUARD, PROT_NONE)) {
			munmap(memory, GUARD + s->bytes);
			break;
		}
	}
	if (s->n == n)
		return s;
	stacks_close(s);
	return NULL;
}

void stacks_close(struct stacks *s)
{
	if (!s)
		return;
	while (s->n > 0)
		munmap(s->stack[--s->n].memory, GUARD + s->bytes);
	sem_destroy(&s->spare);
	free(s);
}

void stacks_call(struct stacks *s, void (*f)(void *arg), void *arg)
{
	int i = 0;
	if (is_switched) {
		f(arg);
		return;
	}
	while (sem_wait(&s->spare) && errno == EINTR)
		;
	while (atomic_flag_test_and_set(&s->stack[i].used))
		i = i + 1 < s->n ? i + 1 : 0;
	is_switched = 1;
	attune_call_on(s->stack[i].memory + GUARD + s->bytes, f, arg);
	is_switched = 0;
	atomic_flag_clear(&s->stack[i].used);
	sem_post(&s->spare);
}
