/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - runs a grid: gives blocks to the slots of resident blocks and threads to stacks,
 * and turns invalid accesses into signals. */
#include "machine.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

enum {
	STACK = 64 << 10,
	PAGE = 4096,
	WINDOW = 0x10000000,   /* where dynamic shared memory lies, below 4 GiB */
	WINDOW_STEP = 1 << 20, /* from block to block */
	NUM_SIGNALS = 5,
	MOST_OF_CLUSTER = 8
};

/* ---- blocks ------------------------------------------------------------------------------ */

/* A fiber begins here. Its end may complete what others wait for. */
static void run_thread(void)
{
	machine.kernel->entry(machine.args);
	struct fiber *f = me();
	struct block *b = f->home;
	struct warp *w = my_warp();
	w->ready &= ~(1ull << f->view.lane);
	w->gone |= 1ull << f->view.lane;
	b->live--;
	if (w->waiting)
		try_finish(w, &w->lane[__builtin_ctzll(w->waiting)]);
	try_release(b);
	if (b->live)
		let_others();
	machine.ended = b;
	simt_now = NULL;
	switch_stack(&f->sp, machine.main_sp);
}

static void start_fiber(struct block *b, unsigned t, struct simt_dim at, unsigned unit)
{
	struct fiber *f = &b->fiber[t];
	f->view = (struct simt_thread_view){
		{ t, 0, 0 }, at, (int)t % machine.lanes, (int)t / machine.lanes, unit
	};
	f->home = b;
	f->op = SIMT_NONE;
	f->pc = NULL;
	f->first_copy = f->num_copies = f->committed = 0;
	f->clusters_come = 0;
	/* not at the same place of each page, for the cache's sake */
	f->sp = fresh_stack(b->stacks + (size_t)(t + 1) * STACK - t % 61 * 64, run_thread);
}

static void random_order(int *order, int n)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; machine.random && i > 0; i--) {
		const int j = (int)(random_turn() % (unsigned)(i + 1)), keep = order[i];
		order[i] = order[j];
		order[j] = keep;
	}
}

static void start_memory(struct block *b)
{
	memset(b->shared, SIMT_POISON, machine.smem + TAIL);
	if (machine.mapped == b)
		machine.mapped = NULL;
	if (b->static_room < static_bytes()) {
		free(b->static_copy);
		b->static_copy = malloc(b->static_room = static_bytes());
	}
	if (static_bytes())
		memset(b->static_copy, SIMT_POISON, static_bytes());
}

static void start_block(struct block *b, struct simt_dim at, unsigned unit)
{
	b->threads = b->live = simt_block.x;
	b->num_warps = ((int)b->threads + machine.lanes - 1) / machine.lanes;
	b->turn = 0;
	b->cluster_came = b->cluster_met = 0;
	memset(b->barrier, 0, sizeof b->barrier);
	start_memory(b);
	for (unsigned t = 0; t < b->threads; t++)
		start_fiber(b, t, at, unit);
	for (int i = 0; i < b->num_warps; i++) {
		const int lanes = (int)b->threads - i * machine.lanes;
		const uint64_t ready = lanes < machine.lanes ? (1ull << lanes) - 1 : all_lanes();
		b->warp[i] = (struct warp){ .ready = ready,
					    .gone = ~ready,
					    .lane = &b->fiber[i * machine.lanes] };
	}
	random_order(b->order, b->num_warps);
}

static void check_tail(const struct block *b)
{
	for (unsigned i = 0; i < TAIL && !machine.is_dead; i++)
		if ((unsigned char)b->shared[machine.smem + i] != SIMT_POISON)
			tell("block (%u,%u,%u): a thread wrote %u bytes behind its %u of dynamic "
			     "shared memory",
			     b->fiber->view.block.x, b->fiber->view.block.y, b->fiber->view.block.z,
			     i, machine.smem);
}

static void *map(void *at, size_t bytes, int protection)
{
	void *p = mmap(at, bytes, protection,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0),
		       -1, 0);
	if (p == MAP_FAILED || (at && p != at)) {
		perror("simt: mmap");
		exit(2);
	}
	return p;
}

/* Stacks, each above a page that nobody may touch; a window of shared memory. */
static struct block *new_block(int i)
{
	char *window = (char *)(uintptr_t)(WINDOW + i * WINDOW_STEP);
	struct block *b = calloc(1, sizeof *b);
	if (!b)
		exit(2);
	b->slot = i;
	b->stacks = map(NULL, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE);
	for (size_t t = 0; t < MAX_THREADS; t++)
		mprotect(b->stacks + t * STACK, PAGE, PROT_NONE);
	b->shared = map(window, WINDOW_STEP, PROT_NONE);
	mprotect(b->shared, WINDOW_OPEN, PROT_READ | PROT_WRITE);
	return b;
}

static int is_free(int slot)
{
	for (int i = 0; i < machine.cluster; i++)
		if (machine.resident[slot + i]->live)
			return 0;
	return 1;
}

/* The slots' SMs are 0, 1, ... in turn. Clusters are numbered as blocks would be, and are
 * neighbours in y. */
static unsigned fill_slots(const int *order, unsigned next, unsigned clusters, unsigned units)
{
	const unsigned n = (unsigned)machine.cluster, high = simt_grid.y / n;
	for (int slot = 0; slot < machine.num_resident && next < clusters;
	     slot += machine.cluster) {
		if (!is_free(slot))
			continue;
		const unsigned c = (unsigned)order[next++];
		for (unsigned i = 0; i < n; i++) {
			const struct simt_dim at = { c % simt_grid.x,
						     c / simt_grid.x % high * n + i,
						     c / simt_grid.x / high };
			start_block(machine.resident[slot + (int)i], at,
				    ((unsigned)slot + i) % units);
		}
	}
	return next;
}

/* Comes back here when a block has ended. */
static void run_blocks(const int *order, unsigned blocks, unsigned units)
{
	unsigned next = 0, done = 0;
	for (int slot = 0; slot < machine.num_resident; slot++)
		machine.resident[slot]->live = 0;
	while (done < blocks && !machine.is_dead) {
		next = fill_slots(order, next, blocks / (unsigned)machine.cluster, units);
		struct fiber *f = ready_anywhere();
		if (!f)
			return;
		go(&machine.main_sp, f);
		if (!machine.is_dead)
			check_tail(machine.ended);
		done++;
	}
}

/* ---- signals ----------------------------------------------------------------------------- */

/* For a fault in the machine itself, the kernel's call is the useful place. */
static void note_kernel(void *pc)
{
	Dl_info in, own;
	if (dladdr(pc, &in) && dladdr((void *)&machine, &own) && in.dli_fbase != own.dli_fbase)
		note_place(pc);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	if (!simt_now) { /* not in a kernel */
		if (number != SIGVTALRM)
			signal(number, SIG_DFL);
		return;
	}
#ifdef __x86_64__
	note_kernel((char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] + 1);
#else
	(void)context;
#endif
	if (number == SIGVTALRM)
		simt_die("still running: an endless loop, or it waits for a block that is not "
			 "resident");
	if (number == SIGILL)
		simt_die("undefined behaviour, say an array index out of bounds");
	if (number == SIGFPE)
		simt_die("integer division by zero");
	simt_die("access to %p, which is no memory of the device or is misaligned", info->si_addr);
}

static const int caught[NUM_SIGNALS] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGVTALRM };

/* A handler that does not return leaves its stack to the next one. */
static void catch_signals(struct sigaction *before, int seconds)
{
	static char stack[64 << 10];
	const stack_t own = { .ss_sp = stack, .ss_size = sizeof stack };
	const struct itimerval timer = { { 0, 0 }, { seconds, 0 } };
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	action.sa_sigaction = on_signal;
	sigaltstack(&own, NULL);
	for (int i = 0; i < NUM_SIGNALS; i++)
		sigaction(caught[i], &action, &before[i]);
	setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

static void leave_signals(const struct sigaction *before)
{
	const struct itimerval none = { { 0, 0 }, { 0, 0 } };
	const stack_t no_stack = { .ss_flags = SS_DISABLE };
	setitimer(ITIMER_VIRTUAL, &none, NULL);
	for (int i = 0; i < NUM_SIGNALS; i++)
		sigaction(caught[i], &before[i], NULL);
	sigaltstack(&no_stack, NULL);
}

/* ------------------------------------------------------------------------------------------ */

int simt_launch(const struct simt_kernel *k, struct simt_dim grid, unsigned threads, unsigned smem,
		const void *args, const struct simt_options *o, char *error, size_t size)
{
	struct sigaction before[NUM_SIGNALS];
	const unsigned blocks = grid.x * grid.y * grid.z;
	int *order = malloc((blocks ? blocks : 1) * sizeof *order);
	const int cluster = o->cluster ? (int)o->cluster : 1;
	machine.cluster = cluster;
	machine.num_resident = (o->resident + cluster - 1) / cluster * cluster;
	if (machine.num_resident > MAX_RESIDENT)
		machine.num_resident = MAX_RESIDENT / cluster * cluster;
	machine.kernel = k;
	machine.lanes = k->lanes;
	machine.args = args;
	machine.smem = smem;
	machine.random = o->seed;
	machine.mapped = NULL;
	machine.is_dead = 0;
	machine.turn = 0;
	simt_grid = grid;
	simt_block = (struct simt_dim){ threads, 1, 1 };
	for (int i = 0; i < machine.num_resident; i++)
		if (!machine.resident[i])
			machine.resident[i] = new_block(i);
	if (cluster > MOST_OF_CLUSTER || (int)grid.y % cluster) {
		snprintf(error, size, "clusters of %d blocks, in a grid of %u along y", cluster,
			 grid.y);
		free(order);
		return 1;
	}
	if (!order || !threads || threads > MAX_THREADS || smem + TAIL > WINDOW_OPEN) {
		snprintf(error, size, "%u blocks of %u threads, %u bytes of shared memory", blocks,
			 threads, smem);
		free(order);
		return 1;
	}
	random_order(order, (int)blocks / cluster);
	catch_signals(before, o->seconds);
	front_begin(o);
	run_blocks(order, blocks, o->units);
	leave_signals(before);
	front_end();
	free(order);
	if (machine.is_dead)
		death_certificate(error, size);
	return machine.is_dead;
}
