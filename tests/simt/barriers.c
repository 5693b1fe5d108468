/* SPDX-License-Identifier: Apache-2.0 */
/* barriers.c - barriers of a block's threads, and of a cluster's. __syncthreads is barrier 0 of
 * all live threads; the others count as many threads as they are given. */
#include "machine.h"

static void release(struct block *b, int id)
{
	const unsigned sum = b->barrier[id].sum;
	for (unsigned t = 0; t < b->threads; t++) {
		struct fiber *f = &b->fiber[t];
		struct warp *w = &b->warp[f->view.warp];
		const uint64_t bit = 1ull << f->view.lane;
		if (!(w->at_barrier & bit) || b->waits_at[t] != id)
			continue;
		w->at_barrier &= ~bit;
		w->ready |= bit;
		f->barrier_sum = sum;
	}
	b->barrier[id] = (struct barrier){ 0 };
}

static int is_full(const struct block *b, const struct barrier *r)
{
	return r->came && r->came >= (r->count ? r->count : b->live);
}

void try_release(struct block *b)
{
	for (int i = 0; i < BARRIERS; i++)
		if (!b->barrier[i].count && is_full(b, &b->barrier[i]))
			release(b, i);
}

static struct barrier *come(int id, unsigned count, unsigned in)
{
	struct barrier *r;
	if (id < 0 || id >= BARRIERS || count % (unsigned)machine.lanes)
		simt_die("barrier %d of %u threads: 0 to 15 exist, for whole warps", id, count);
	r = &me()->home->barrier[id];
	if (r->came && r->count != count)
		simt_die("barrier %d of %u threads, for others one of %u", id, count, r->count);
	r->count = count;
	r->came++;
	r->sum += in;
	return r;
}

unsigned simt_barrier(int id, unsigned count, unsigned in)
{
	struct fiber *f = me();
	struct block *b = f->home;
	struct warp *w = my_warp();
	const uint64_t bit = 1ull << f->view.lane;
	f->pc = __builtin_return_address(0);
	const struct barrier *r = come(id, count, in);
	w->ready &= ~bit;
	w->at_barrier |= bit;
	b->waits_at[f->view.thread.x] = id;
	if (!is_full(b, r)) {
		let_others();
		return f->barrier_sum;
	}
	release(b, id);
	/* the first warp goes first again, or any */
	b->turn = machine.random ? (int)(random_turn() % (unsigned)b->num_warps) : 0;
	struct fiber *next = ready_in_block(b);
	if (next != f)
		go(&f->sp, next);
	return f->barrier_sum;
}

void simt_arrive(int id, unsigned count)
{
	struct block *b = me()->home;
	me()->pc = __builtin_return_address(0);
	if (is_full(b, come(id, count, 0)))
		release(b, id);
}

/* ---- clusters ----------------------------------------------------------------------------- */

static void release_cluster(struct block **v)
{
	v[0]->cluster_came = 0;
	v[0]->cluster_met++;
	for (int i = 0; i < machine.cluster; i++)
		release(v[i], AT_CLUSTER);
}

void simt_cluster_arrive(void)
{
	struct block **v = my_cluster();
	unsigned live = 0;
	me()->pc = __builtin_return_address(0);
	if (me()->clusters_come != v[0]->cluster_met)
		simt_die("comes to its cluster's barrier twice, and has not waited in between");
	me()->clusters_come++;
	for (int i = 0; i < machine.cluster; i++)
		live += v[i]->live;
	if (++v[0]->cluster_came == live)
		release_cluster(v);
	shake();
}

void simt_cluster_wait(void)
{
	struct fiber *f = me();
	struct warp *w = my_warp();
	const uint64_t bit = 1ull << f->view.lane;
	f->pc = __builtin_return_address(0);
	if (f->clusters_come <= (*my_cluster())->cluster_met) {
		shake();
		return;
	}
	w->ready &= ~bit;
	w->at_barrier |= bit;
	f->home->waits_at[f->view.thread.x] = AT_CLUSTER;
	let_others();
}
