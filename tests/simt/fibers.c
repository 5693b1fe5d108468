/* SPDX-License-Identifier: Apache-2.0 */
/* fibers.c - schedules fibers: the lanes of a warp one after the other, then other warps of the
 * block, then other blocks. */
#include "machine.h"

enum { PREEMPT = 8 }; /* with a seed: one in so many meetings loses the turn */

struct machine machine;
struct simt_thread_view *simt_now;
struct simt_dim simt_grid, simt_block;

unsigned random_turn(void)
{
	machine.random = machine.random * 1664525u + 1013904223u;
	return machine.random >> 8;
}

static void map_static(struct block *b)
{
	const struct simt_kernel *k = machine.kernel;
	if (machine.mapped == b || !static_bytes())
		return;
	if (machine.mapped)
		__builtin_memcpy(machine.mapped->static_copy, k->shared_begin, static_bytes());
	__builtin_memcpy(k->shared_begin, b->static_copy, static_bytes());
	machine.mapped = b;
}

struct fiber *ready_in_block(struct block *b)
{
	for (int i = 0; i < b->num_warps; i++) {
		struct warp *w = &b->warp[b->order[(b->turn + i) % b->num_warps]];
		if (w->ready) {
			b->turn = (b->turn + i) % b->num_warps;
			return &w->lane[__builtin_ctzll(w->ready)];
		}
	}
	return NULL;
}

struct fiber *ready_anywhere(void)
{
	for (int i = 0; i < machine.num_resident; i++) {
		struct block *b = machine.resident[(machine.turn + i) % machine.num_resident];
		struct fiber *f = b->live ? ready_in_block(b) : NULL;
		if (f) {
			machine.turn = (machine.turn + i) % machine.num_resident;
			return f;
		}
	}
	tell_deadlock();
	return NULL;
}

void go(void **save, struct fiber *f)
{
	machine.ticks++;
	map_static(f->home);
	simt_now = &f->view;
	switch_stack(save, f->sp);
}

static void go_anywhere(struct fiber *f)
{
	struct fiber *next = ready_anywhere();
	if (!next) {
		simt_now = NULL;
		switch_stack(&f->sp, machine.main_sp);
	}
	if (next != f)
		go(&f->sp, next);
}

/* The own warp goes on while it can, lanes in order: then few turns are lost. */
void let_others(void)
{
	struct fiber *f = me();
	const struct warp *w = my_warp();
	const uint64_t above = w->ready >> f->view.lane >> 1;
	if (above)
		go(&f->sp, f + 1 + __builtin_ctzll(above));
	else if (w->ready)
		go(&f->sp, &w->lane[__builtin_ctzll(w->ready)]);
	else
		go_anywhere(f);
}

void shake(void)
{
	struct fiber *f = me(), *next;
	struct block *b = f->home;
	if (!machine.random || random_turn() % PREEMPT)
		return;
	b->turn = (int)(random_turn() % (unsigned)b->num_warps);
	next = ready_in_block(b);
	if (next && next != f)
		go(&f->sp, next);
}

void simt_pause(void)
{
	struct fiber *f = me();
	f->pc = __builtin_return_address(0);
	f->home->turn++;
	machine.turn = (machine.turn + 1) % machine.num_resident;
	go_anywhere(f);
}

long long simt_clock(void)
{
	return ++machine.ticks;
}
