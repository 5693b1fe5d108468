/* SPDX-License-Identifier: Apache-2.0 */
/* settled_wins.c - counts which members of a row won batches that the library settled. Only times of the
 * same rounds are compared, and a batch counts once for each winner, however many machines settled it. */
#include "data.h"
#include "harness/base/base.h"
#include "harness/settled/settled.h"
#include "harness/store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counting {
	struct data *d;
	struct taken taken;
	const char *gpu;
	int e4m3, room, failed;
	char *batch; /* "kind op batch" of the last row: rows of a batch are consecutive */
};

/* Whether rules are learned for such calls: as load.c. */
static int is_learned(const struct counting *c, const struct store_settled *row)
{
	attune_shape shape;
	return settled_op(&shape, row) && shape.kv_layout == ATTUNE_KV_STRIDED && !shape.has_lse &&
	       (shape.kv_dtype == ATTUNE_E4M3) == c->e4m3;
}

/* The member that the rules named; -1: it was not timed. */
static int first_of(const struct store_settled *row)
{
	int i = 0;
	while (i < row->n && strcmp(row->v[i].choice, row->first))
		i++;
	return i < row->n ? i : -1;
}

static int parse(const struct counting *c, const struct store_settled *row, int member,
		 struct choice *out)
{
	char error[200];
	return member >= 0 && settled_is_today(c->gpu, row, member) &&
	       choice_parse(out, c->d->run.device.backend, row->v[member].choice, error,
			    sizeof error);
}

/* The pair's entry; NULL without memory. */
static struct settled_win *win_of(struct counting *c, const struct settled_win *like)
{
	struct data *d = c->d;
	for (int i = 0; i < d->num_wins; i++)
		if (d->win[i].phase == like->phase && choice_same(&d->win[i].first, &like->first) &&
		    choice_same(&d->win[i].winner, &like->winner))
			return &d->win[i];
	if (!array_grow(&d->win, d->num_wins, &c->room, sizeof *d->win))
		return NULL;
	d->win[d->num_wins] = *like;
	return &d->win[d->num_wins++];
}

/* Whether the row is of another batch than the one before. */
static int is_next_batch(struct counting *c, const struct store_settled *row)
{
	char *batch;
	if (asprintf(&batch, "%s %s %s", row->kind, row->op, row->batch) < 0) {
		c->failed = 1;
		return 0;
	}
	const int is_next = !c->batch || strcmp(c->batch, batch);
	free(c->batch);
	c->batch = batch;
	return is_next;
}

static int count_row(void *arg, const struct store_settled *row)
{
	struct counting *c = arg;
	struct settled_win like = { .batches = 0 };
	const int is_mixed = !strcmp(row->kind, "mixed");
	if (is_mixed || !is_learned(c, row) || !parse(c, row, first_of(row), &like.first) ||
	    !parse(c, row, row->winner, &like.winner) || taken_is_held_out(&c->taken, row->batch))
		return 1;
	c->d->num_settled += is_next_batch(c, row);
	if (choice_same(&like.first, &like.winner) || c->failed)
		return !c->failed;
	like.phase = !strcmp(row->kind, "decode") ? PHASE_DECODE : PHASE_PREFILL;
	struct settled_win *win = win_of(c, &like);
	if (win && win->last != c->d->num_settled) {
		win->last = c->d->num_settled;
		win->batches++;
	}
	c->failed |= !win;
	return !c->failed;
}

int settled_wins_read(struct data *d, struct store *s, const char *gpu, int e4m3)
{
	struct counting c = { .d = d, .gpu = gpu, .e4m3 = e4m3 };
	const int has = store_has_settled(s);
	if (has <= 0)
		return has == 0;
	const int done =
	    taken_of_store(&c.taken, s, gpu) && store_each_settled(s, gpu, count_row, &c);
	taken_free(&c.taken);
	free(c.batch);
	if (done && c.failed)
		complain("out of memory");
	return done && !c.failed;
}
