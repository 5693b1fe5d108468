/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - lists of entries. */
#include "store.h"
#include "members.h"
#include "policy.h"
#include "table.h"
#include "kernels/api/plan.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

static enum attune_status no_memory(void)
{
	return fail(ATTUNE_NO_MEMORY, "out of memory for what was settled");
}

/* The number of a choice of the op in the store; -1: out of memory. */
static int choice_at(struct settled *s, const attune_op *op, int id)
{
	const struct choice c = { op->ready[id].kernel, op->ready[id].config };
	for (int i = 0; i < s->num_choices; i++)
		if (choice_same(&s->choices[i], &c))
			return i;
	void *more = realloc(s->choices, (size_t)(s->num_choices + 1) * sizeof c);
	if (!more)
		return -1;
	s->choices = more;
	s->choices[s->num_choices] = c;
	return s->num_choices++;
}

/* What is true is 1, as its text has it. */
static attune_shape plain(const attune_shape *shape)
{
	attune_shape s = *shape;
	s.causal = !!s.causal;
	s.has_sinks = !!s.has_sinks;
	s.has_alibi = !!s.has_alibi;
	s.has_new_kv = !!s.has_new_kv;
	s.has_lse = !!s.has_lse;
	s.sinks_dtype = 0; /* no plan depends on it */
	s.scale = s.scale == 0 ? 0 : s.scale;
	s.softcap = s.softcap == 0 ? 0 : s.softcap;
	return s;
}

static int shape_at(struct settled *s, const attune_shape *of)
{
	const attune_shape own = plain(of), *shape = &own;
	for (int i = 0; i < s->num_shapes; i++)
		if (!memcmp(&s->shapes[i], shape, sizeof *shape))
			return i;
	void *more = realloc(s->shapes, (size_t)(s->num_shapes + 1) * sizeof *shape);
	if (!more)
		return -1;
	s->shapes = more;
	s->shapes[s->num_shapes] = *shape;
	return s->num_shapes++;
}

static enum attune_status take_batch(struct kept *k, const attune_batch *b)
{
	struct run *runs;
	int n = 0;
	if (b->num_seqs > MOST_KEPT_SEQS)
		return fail(ATTUNE_UNSUPPORTED, "a batch of more than %d sequences is not kept",
			    MOST_KEPT_SEQS);
	runs = malloc(MOST_RUNS * sizeof *runs);
	if (!runs)
		return no_memory();
	for (int i = 0; i < b->num_seqs; i++) {
		const struct run r = { 1, b->query_start[i + 1] - b->query_start[i],
				       b->seq_lens[i] };
		if (n && runs[n - 1].query == r.query && runs[n - 1].seq == r.seq) {
			runs[n - 1].count++;
			continue;
		}
		if (n == MOST_RUNS) {
			free(runs);
			return fail(ATTUNE_UNSUPPORTED,
				    "a batch of more than %d runs of equal sequences is not kept",
				    MOST_RUNS);
		}
		runs[n++] = r;
	}
	void *less = realloc(runs, (size_t)n * sizeof *runs);
	k->runs = less ? less : runs;
	k->num_runs = n;
	return ATTUNE_OK;
}

/* What the rules run for a part; -1: nothing. */
static int id_by_rules(const attune_op *op, int named, const struct part *p)
{
	const struct picked f = pick_row(op, named, p, 0);
	return f.id < 0 ? pick_behind(op, p, 0).id : f.id;
}

/* A plan that is wholly the rules' names what they run, so that its times have names. */
static struct settled_plan with_names(const struct settled_plan *plan, const int by_rules[2])
{
	struct settled_plan p = *plan;
	for (int i = 0; i < 2 && p.way == WAY_AS_RULES; i++)
		if (p.id[i] < 0)
			p.id[i] = by_rules[i];
	return p;
}

/* A choice may stand in an op twice; a text names it once. */
static int same_choice(const attune_op *op, int a, int b)
{
	return a == b || (a >= 0 && b >= 0 && op->ready[a].name == op->ready[b].name);
}

/* The value of one plan. A part alone that runs what the rules run leaves it to them. In a mixed
 * batch it does not: its own cell may say something else. */
static unsigned plan_value(const attune_op *op, const struct settled_plan *p, const int named[2],
			   const struct selection *s, const int by_rules[2])
{
	struct remembered m[2] = { { .place = MEMBER_AS_RULES }, { .place = MEMBER_AS_RULES } };
	for (int i = 0; i < s->num_parts; i++) {
		const int of = s->part[i].f.max_query <= DECODE_MAX_QUERY, id = p->id[of];
		if (id < 0 ||
		    (s->num_parts == 1 && same_choice(op, id, by_rules[of]) && !p->step[of]))
			continue;
		const int place = member_place(op, named[i], &s->part[i], id);
		if (place >= 0)
			m[of] = (struct remembered){ place, p->step[of], member_check(op, id) };
	}
	return value_of(p->way, m[0], m[1]);
}

/* The number of a choice in the store, -1 for none. 0: out of memory. */
static int take_choice(int *of, struct settled *s, const attune_op *op, int id)
{
	*of = id < 0 ? -1 : choice_at(s, op, id);
	return id < 0 || *of >= 0;
}

static int take_plans(struct kept *k, struct settled *s, const attune_op *op,
		      const struct settled_entry *e, const int named[2],
		      const struct selection *parts)
{
	int by_rules[2] = { -1, -1 }, taken = 1;
	for (int i = 0; i < parts->num_parts; i++)
		by_rules[parts->part[i].f.max_query <= DECODE_MAX_QUERY] =
		    id_by_rules(op, named[i], &parts->part[i]);
	for (int i = 0; i < e->num && taken; i++) {
		const struct settled_plan named_plan = with_names(&e->plan[i], by_rules);
		struct kept_plan *p = &k->plan[i];
		p->way = named_plan.way;
		memcpy(p->step, named_plan.step, sizeof p->step);
		p->ns = (long long)(named_plan.us * 1000 + 0.5);
		p->value = plan_value(op, &named_plan, named, parts, by_rules);
		taken = take_choice(&p->of[0], s, op, named_plan.id[0]) &&
			take_choice(&p->of[1], s, op, named_plan.id[1]);
	}
	for (int i = 0; i < 2 && taken; i++)
		taken = take_choice(&k->named[i], s, op, i < parts->num_parts ? named[i] : -1);
	return taken;
}

enum cell_kind kind_of(const struct selection *s)
{
	if (s->num_parts == 2)
		return CELL_MIXED;
	return s->part[0].f.max_query <= DECODE_MAX_QUERY ? CELL_DECODE : CELL_PREFILL;
}

static int is_sound(const struct settled_entry *e)
{
	int sound = e->num >= 1 && e->num <= ATTUNE_MOST_ALTERNATIVES && e->winner >= 0 &&
		    e->winner < e->num && e->rounds >= 1 &&
		    (e->again_us == 0 || is_time(e->again_us));
	for (int i = 0; sound && i < e->num; i++)
		sound = is_time(e->plan[i].us);
	return sound;
}

uint64_t cell_of_batch(const attune_op *op, const attune_batch *batch)
{
	struct selection parts;
	struct part whole;
	parts_of_batch(op, batch, &parts, &whole);
	return cell_hash(op, kind_of(&parts), parts.choice, parts.part, &whole);
}

static size_t digits(long long n)
{
	size_t count = 1;
	for (; n >= 10; n /= 10)
		count++;
	return count;
}

/* A cell's line of the text, with numbers of choices and ops below 10000. */
static size_t line_bytes(const struct kept *k)
{
	enum { WORDS = 150, NUMBER = 7, MIXED_PLAN = 25, DECIMALS = 5 };
	const size_t plan = k->kind == CELL_MIXED ? MIXED_PLAN : NUMBER;
	size_t bytes = WORDS + plan + digits(k->again_ns);
	for (int i = 0; i < k->num; i++)
		bytes += plan + digits(k->plan[i].ns) + DECIMALS;
	for (int i = 0; i < k->num_runs; i++)
		bytes += 3 + digits(k->runs[i].count) + digits(k->runs[i].query) +
			 digits(k->runs[i].seq);
	return bytes;
}

enum attune_status store_make(struct kept *k, struct settled *s, const attune_op *op,
			      const struct settled_entry *e, const int named[2], int settles)
{
	struct selection parts;
	struct part whole;
	memset(k, 0, sizeof *k);
	if (!is_sound(e))
		return fail(ATTUNE_INVALID, "times must be 0.001 to 999999999 microseconds");
	parts_of_batch(op, e->batch, &parts, &whole);
	if (!parts.num_parts)
		return fail(ATTUNE_INVALID, "the batch has no queries");
	k->kind = kind_of(&parts);
	k->cell = cell_hash(op, k->kind, named, parts.part, &whole);
	k->num = e->num;
	k->winner = e->winner;
	k->rounds = e->rounds;
	k->settles = settles;
	k->again_ns = (long long)(e->again_us * 1000 + 0.5);
	k->shape = shape_at(s, &op->shape);
	if (k->shape < 0 || !take_plans(k, s, op, e, named, &parts))
		return no_memory();
	const enum attune_status status = take_batch(k, e->batch);
	k->line_bytes = status ? 0 : line_bytes(k);
	return status;
}

struct kept *store_find(const struct kept_list *l, uint64_t cell)
{
	for (int i = 0; i < l->n; i++)
		if (l->at[i].cell == cell)
			return &l->at[i];
	return NULL;
}

int store_reserve(struct kept_list *l, int more)
{
	const int room = l->n + more > 2 * l->room ? l->n + more : 2 * l->room;
	if (l->n + more <= l->room)
		return 1;
	void *at = realloc(l->at, (size_t)room * sizeof *l->at);
	if (!at)
		return 0;
	l->at = at;
	l->room = room;
	return 1;
}

void store_put(struct kept_list *l, struct kept *k)
{
	struct kept *old = store_find(l, k->cell);
	if (old)
		free(old->runs);
	else
		old = &l->at[l->n++];
	*old = *k;
	k->runs = NULL;
}

int same_batch(const struct kept *a, const struct kept *b)
{
	return a->num_runs == b->num_runs &&
	       !memcmp(a->runs, b->runs, (size_t)a->num_runs * sizeof *a->runs);
}

void swap_batches(struct kept *a, struct kept *b)
{
	const struct kept was = *a;
	a->runs = b->runs;
	a->num_runs = b->num_runs;
	b->runs = was.runs;
	b->num_runs = was.num_runs;
	a->line_bytes = line_bytes(a);
	b->line_bytes = line_bytes(b);
}

void store_clear(struct kept_list *l)
{
	for (int i = 0; i < l->n; i++)
		free(l->at[i].runs);
	free(l->at);
	*l = (struct kept_list){ 0 };
}

unsigned kept_value(const struct kept *k, int margin)
{
	const struct kept_plan *first = &k->plan[0], *winner = &k->plan[k->winner];
	const int is_faster = margin == BY_POLICY
				  ? is_kept(k->kind, first->ns, winner->ns, k->settles)
				  : winner->ns * 1000 < first->ns * (1000 - margin);
	return (is_faster ? winner : first)->value;
}
