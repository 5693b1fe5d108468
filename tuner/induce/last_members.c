/* SPDX-License-Identifier: Apache-2.0 */
/* last_members.c - the ends of the portable rules' rows. Behind a portable row stands nothing, so one
 * of its members must be legal wherever some kernel of ours is.
 *
 * What is legal is tried on cases: parts at the ends of what a batch may have, of each head size, type,
 * kind of page and group. The rules of the .def tables compare products of their inputs, so a rule
 * that is broken anywhere is broken at such an end. */
#include "induce.h"
#include "harness/base/base.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const int head_sizes[] = { 64, 80, 96, 128, 192, 256 };
static const int page_sizes[] = { 1, 4, 8, 12, 16, 1056 };
static const int groups[] = { 1, 2, 7, 16, 71, 128 };
static const int kv_heads[] = { 1, 128 };
static const int num_seqs[] = { 1, 4096 };
static const int num_keys[] = { 1, 1 << 20 };
/* Of decodes and of prefills. */
static const int queries[2][2] = { { DECODE_MAX_QUERY + 1, 131072 }, { 1, DECODE_MAX_QUERY } };
static const struct {
	enum attune_dtype dtype, kv_dtype;
	int has_lse;
} kinds[] = {
	{ ATTUNE_BF16, ATTUNE_BF16, 0 }, { ATTUNE_F16, ATTUNE_F16, 0 },
	{ ATTUNE_BF16, ATTUNE_BF16, 1 }, { ATTUNE_BF16, ATTUNE_E4M3, 0 },
	{ ATTUNE_F32, ATTUNE_F32, 0 },
};

/* Cases of one phase; those of decodes come behind those of prefills. */
enum {
	CASES_OF_PHASE = COUNT(head_sizes) * COUNT(page_sizes) * COUNT(groups) * COUNT(kv_heads) *
			 COUNT(num_seqs) * COUNT(num_keys) * COUNT(queries[0]) * COUNT(kinds),
	CASES = 2 * CASES_OF_PHASE
};

/* The smallest GPU: an Orin Nano has as many SMs. */
static struct device_info smallest(void)
{
	struct device_info d = device_of_arch("ptx");
	snprintf(d.arch, sizeof d.arch, "sm_80");
	d.units = 8;
	return d;
}

static int digit(int *number, int base)
{
	const int last = *number % base;
	*number /= base;
	return last;
}

/* The n-th case: each list's index is a digit of n. Every second one has a window, ALiBi and the
 * like, which no rule forbids. */
static void make_case(int n, attune_shape *s, struct part *p)
{
	const int decodes = n >= CASES_OF_PHASE;
	int at = n % CASES_OF_PHASE;
	const int kind = digit(&at, COUNT(kinds));
	*s = (attune_shape){ .causal = 1, .dtype = kinds[kind].dtype };
	s->kv_dtype = kinds[kind].kv_dtype;
	s->has_lse = kinds[kind].has_lse;
	s->head_size = head_sizes[digit(&at, COUNT(head_sizes))];
	s->page_size = page_sizes[digit(&at, COUNT(page_sizes))];
	s->num_kv_heads = kv_heads[digit(&at, COUNT(kv_heads))];
	const int group = groups[digit(&at, COUNT(groups))];
	int query = queries[decodes][digit(&at, COUNT(queries[0]))];
	int seqs = num_seqs[digit(&at, COUNT(num_seqs))];
	long long keys = num_keys[digit(&at, COUNT(num_keys))];
	s->num_query_heads = s->num_kv_heads * group;
	if (n % 2)
		s->window = 128, s->has_alibi = s->has_sinks = 1, s->softcap = 30;
	const long long rows = MOST_BATCH_ROWS / s->num_query_heads;
	query = (int)min_of(query, rows - 1);
	seqs = (int)min_of(seqs, rows / (query + 1));
	keys = max_of(keys, query);
	*p = (struct part){ .seq_count = seqs,
			    .min_query = query,
			    .max_query = query,
			    .range_tokens = (long long)seqs * query };
	p->f = (struct attune_features){ .num_query_heads = s->num_query_heads,
					 .num_kv_heads = s->num_kv_heads,
					 .group = group,
					 .head_size = s->head_size,
					 .page_size = s->page_size,
					 .kv_bytes = dtype_bytes(s->kv_dtype),
					 .num_seqs = seqs,
					 .max_query = query,
					 .query_tokens = p->range_tokens,
					 .rows = (long long)query * group,
					 .max_seq = keys,
					 .mean_seq = keys,
					 .kv_tokens = seqs * keys,
					 .work = (p->range_tokens * keys + 4095) / 4096 };
}

/* ---- who is legal where ---------------------------------------------------------------- */
struct ends {
	const struct forest *f;
	struct device_info d;
	char *legal[MAX_IDS]; /* [CASES] */
	char *needed;         /* [CASES] some choice is legal */
};

static int is_legal(const struct ends *e, const struct choice *c, const struct segment_costs *costs,
		    const attune_shape *s, const struct part *p)
{
	struct config as;
	return !config_fitted(&as, &c->config, c->kernel, costs, s, p, &e->d);
}

static int is_default_legal(const struct ends *e, const attune_shape *s, const struct part *p)
{
	for (const struct fallback *f = attune_fallbacks; f->kernel; f++) {
		struct choice c = { .kernel = kernel_find(BACKEND_GPU, f->kernel) };
		fallback_config(&c.config, f, c.kernel->space);
		if (is_legal(e, &c, NULL, s, p))
			return 1;
	}
	return 0;
}

static void try_all(struct ends *e)
{
	const struct forest *f = e->f;
	for (int n = 0; n < CASES; n++) {
		attune_shape s;
		struct part p;
		make_case(n, &s, &p);
		p.f.units = e->d.units;
		e->needed[n] = (char)is_default_legal(e, &s, &p);
		for (int id = 0; id < f->num_choices; id++) {
			const struct segment_costs *costs =
			    costs_for(f->costs, f->num_costs, id, s.head_size);
			e->legal[id][n] = (char)is_legal(e, &f->choice[id], costs, &s, &p);
			e->needed[n] |= e->legal[id][n];
		}
	}
}

static void ends_close(struct ends *e)
{
	for (int id = 0; id < MAX_IDS; id++)
		free(e->legal[id]);
	free(e->needed);
}

/* 0 without memory. */
static int ends_open(struct ends *e, const struct forest *f)
{
	*e = (struct ends){ .f = f, .d = smallest() };
	int done = (e->needed = malloc(CASES)) != NULL;
	for (int id = 0; done && id < f->num_choices; id++)
		done = (e->legal[id] = malloc(CASES)) != NULL;
	if (done)
		try_all(e);
	else
		ends_close(e);
	return done;
}

static int is_named(const struct forest *f, enum decision decision, int id)
{
	const struct tree *t = &f->tree[decision];
	for (int i = 0; i < t->n; i++)
		if (t->v[i].feature < 0 && t->v[i].action == id)
			return 1;
	return 0;
}

/* Of the cases that reach the row, need a choice and have no member: how many `id` can run; id -1:
 * all. *first: one of them. */
static int count_open(const struct ends *e, const struct attune_list *row, int id, int *first)
{
	int open = 0;
	for (int n = 0; n < CASES; n++) {
		const enum decision decision = n < CASES_OF_PHASE ? DECIDE_PREFILL : DECIDE_DECODE;
		int runs = !e->needed[n] || (id >= 0 && !e->legal[id][n]);
		for (int i = 0; i < row->n && !runs; i++)
			runs = e->legal[row->at[i]][n];
		if (runs || !is_named(e->f, decision, row->at[0]))
			continue;
		*first = n;
		open++;
	}
	return open;
}

static struct attune_list row_of(const struct forest *f, int id)
{
	return f->list[id].n ? f->list[id] : (struct attune_list){ 1, { (short)id } };
}

/* ---- the ends ---------------------------------------------------------------------------- */
/* A part without a time of what runs counts as half as slow again. */
#define UNTIMED 0.4

/* Log slowdown of the first member that may run the part; INFINITY: it has no time. */
static double loss_at(const struct data *d, const struct forest *f, const struct attune_list *row,
		      enum phase phase, int scenario)
{
	struct choice as;
	int i = 0, any;
	while (i < row->n && !action_choice(d, f, phase, row->at[i], &d->v[scenario], &as))
		i++;
	const int choice = i < row->n ? data_find(d, &as) : -1;
	return choice < 0 ? INFINITY
			  : log(data_part_time(d, scenario, phase, choice) /
				data_best(d, scenario, phase, &any));
}

/* Mean log slowdown of what runs by a row, over the training scenarios whose leaf names its first; of
 * a choice alone over all in which it has a time. INFINITY: none. */
static double mean_loss(const struct data *d, const struct forest *f, enum decision decision,
			const struct attune_list *row)
{
	const enum phase phase = decision_phase(decision);
	const struct tree *t = &f->tree[decision];
	double sum = 0;
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		if (!data_is_training(m) || !m->has[phase] ||
		    (row->n > 1 && t->v[tree_leaf(t, &m->part[phase].f)].action != row->at[0]))
			continue;
		const double loss = loss_at(d, f, row, phase, s);
		if (!isfinite(loss) && row->n == 1)
			continue;
		sum += isfinite(loss) ? loss : UNTIMED;
		n++;
	}
	return n ? sum / n : INFINITY;
}

/* The choice that can run most of the open cases; of equal ones the one of least loss. -1: none. */
static int find_end(const struct ends *e, const struct attune_list *row, double loss[MAX_IDS][2])
{
	const int of = is_named(e->f, DECIDE_PREFILL, row->at[0]) ? 0 : 1;
	int best = -1, most = 0, first;
	for (int id = 0; id < e->f->num_choices; id++) {
		const int n = count_open(e, row, id, &first);
		if (n > most || (n && n == most && loss[id][of] < loss[best][of])) {
			best = id;
			most = n;
		}
	}
	return best;
}

static struct attune_list without(struct attune_list row, int member)
{
	for (int i = member; i + 1 < row.n; i++)
		row.at[i] = row.at[i + 1];
	row.n--;
	return row;
}

/* A full row loses the one of its members 1 to learned - 1 whose place costs least. */
static void make_room(const struct forest *f, const struct data *d, struct attune_list *row,
		      int learned)
{
	const enum decision of =
	    is_named(f, DECIDE_PREFILL, row->at[0]) ? DECIDE_PREFILL : DECIDE_DECODE;
	struct attune_list best = without(*row, 1);
	double least = mean_loss(d, f, of, &best);
	for (int i = 2; i < learned; i++) {
		const struct attune_list other = without(*row, i);
		const double loss = mean_loss(d, f, of, &other);
		if (loss < least) {
			least = loss;
			best = other;
		}
	}
	*row = best;
}

/* Adds ends until the row is closed. */
static void close_row(struct forest *f, const struct data *d, const struct ends *e, int id,
		      double loss[MAX_IDS][2])
{
	struct attune_list row = row_of(f, id);
	int first, learned = row.n, end;
	for (int i = 0; i < ATTUNE_LIST_MEMBERS && count_open(e, &row, -1, &first); i++) {
		end = find_end(e, &row, loss);
		if (end < 0)
			break;
		if (row.n == ATTUNE_LIST_MEMBERS)
			make_room(f, d, &row, learned--);
		row.at[row.n++] = (short)end;
	}
	if (row.n > 1)
		f->list[id] = row;
}

int rows_close(struct forest *f, const struct data *d)
{
	double loss[MAX_IDS][2];
	struct ends e;
	if (!ends_open(&e, f))
		return 0;
	for (int id = 0; id < f->num_choices; id++)
		for (int p = 0; p < 2; p++)
			loss[id][p] = mean_loss(d, f, (enum decision)p,
						&(struct attune_list){ 1, { (short)id } });
	for (int id = 0; id < f->num_choices; id++)
		close_row(f, d, &e, id, loss);
	ends_close(&e);
	return 1;
}

static int leaves_name_choices(const struct forest *f)
{
	for (enum decision t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		if (!is_named(f, t, SAYS_DEFAULTS))
			continue;
		complain("a leaf of the %s tree names no choice: each leaf of portable rules "
			 "names one",
			 decision_names[t]);
		return 0;
	}
	return 1;
}

int rows_prove(const struct forest *f)
{
	struct ends e;
	int closed = 1;
	if (!leaves_name_choices(f) || !ends_open(&e, f))
		return 0;
	for (int id = 0; id < f->num_choices && closed; id++) {
		const struct attune_list row = row_of(f, id);
		int first = 0;
		closed = !count_open(&e, &row, -1, &first);
		if (closed)
			continue;
		char text[MAX_CHOICE_TEXT];
		attune_shape s;
		struct part p;
		make_case(first, &s, &p);
		choice_words(&f->choice[id], text);
		complain(
		    "no member of the row of %s may run %d queries of %d tokens over %lld keys: "
		    "%d KV heads x %lld, head size %d, pages of %d, %s queries, %s cache%s",
		    text, p.seq_count, p.max_query, p.f.max_seq, s.num_kv_heads, p.f.group,
		    s.head_size, s.page_size, dtype_name(s.dtype), dtype_name(s.kv_dtype),
		    s.has_lse ? ", with LSE" : "");
	}
	ends_close(&e);
	return closed;
}
