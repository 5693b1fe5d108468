/* why.c - `attune show --why`: the path of one scenario through the trees, what
 * the leaves say, and how the actions and their rivals were measured there. */
#include "show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RIVALS = 3 };

static void row(struct table *t, const char *decision, const char *kind, const char *what,
		double us, double best)
{
	table_text(t, decision);
	table_text(t, kind);
	table_text(t, what);
	table_number(t, isfinite(us) ? us : NAN, 3);
	table_number(t, isfinite(us) && isfinite(best) ? us / best : NAN, 3);
	table_end_row(t);
}

static void path_rows(struct table *t, const struct tree *tree, const char *decision,
		      const struct attune_features *f)
{
	const long long *value = (const long long *)f;
	char text[120];
	int at = 0;
	while (tree->v[at].feature >= 0) {
		const struct node *v = &tree->v[at];
		const int below = value[v->feature] <= v->threshold;
		snprintf(text, sizeof text, "%s = %lld, %s %lld", feature_names[v->feature],
			 value[v->feature], below ? "at most" : "above", v->threshold);
		row(t, decision, "test", text, NAN, NAN);
		at = below ? v->below : v->above;
	}
	const struct node *leaf = &tree->v[at];
	if (leaf->support)
		snprintf(text, sizeof text, "%d training scenarios ended here, slowdown %.3f",
			 leaf->support, exp((double)leaf->cost / (double)leaf->weight / 1e6));
	else
		snprintf(text, sizeof text, "not measured");
	row(t, decision, "leaf", text, NAN, NAN);
}

struct rival {
	int choice;
	double us;
};

static int by_us(const void *pa, const void *pb)
{
	const struct rival *a = pa, *b = pb;
	if (a->us != b->us)
		return a->us < b->us ? -1 : 1;
	return a->choice - b->choice;
}

/* The pick and the fastest others of a phase. */
static int action_rows(struct table *t, const struct data *d, int s, enum phase phase,
		       const char *decision, int picked)
{
	struct rival *rival = malloc(sizeof *rival * (size_t)(d->num_choices + 1));
	char words[MAX_CHOICE_TEXT] = "not measured";
	int best_choice, n = 0;
	const double best = data_best(d, s, phase, &best_choice);
	if (!rival)
		return 0;
	if (picked >= 0)
		choice_words(&d->choice[picked], words);
	row(t, decision, "picked", words, data_part_time(d, s, phase, picked), best);
	for (int c = 0; c < d->num_choices; c++) {
		const double us = data_part_time(d, s, phase, c);
		if (c != picked && isfinite(us))
			rival[n++] = (struct rival){ c, us };
	}
	if (n)
		qsort(rival, (size_t)n, sizeof *rival, by_us);
	for (int i = 0; i < n && i < RIVALS; i++) {
		choice_words(&d->choice[rival[i].choice], words);
		row(t, decision, "rival", words, rival[i].us, best);
	}
	free(rival);
	return 1;
}

static void join_rows(struct table *t, const struct data *d, int s, const struct pick *pick)
{
	static const char *const words[] = { "one launch over the whole batch",
					     "the prefill part, then the decode part" };
	const double best = data_oracle(d, s);
	for (int i = 0; i < 2; i++) {
		const int join = i ? !pick->join : pick->join;
		const struct pick p = { pick->prefill, pick->decode, join };
		row(t, decision_names[DECIDE_JOIN], i ? "rival" : "picked", words[join],
		    data_plan_time(d, s, &p), best);
	}
}

int show_why(const struct data *d, const struct forest *f, int s, enum format format)
{
	const char *columns[] = { "decision", "what", "is", "median_us", "ratio" };
	const struct measured *m = &d->v[s];
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	struct pick pick;
	int done = t != NULL;
	forest_pick(d, f, s, &pick);
	for (int k = DECIDE_PREFILL; done && k <= DECIDE_DECODE; k++) {
		const enum phase phase = decision_phase((enum decision)k);
		if (!m->has[phase])
			continue;
		path_rows(t, &f->tree[k], decision_names[k], &m->part[phase].f);
		done = action_rows(t, d, s, phase, decision_names[k],
				   k == DECIDE_PREFILL ? pick.prefill : pick.decode);
	}
	if (done && m->has[PHASE_PREFILL] && m->has[PHASE_DECODE]) {
		path_rows(t, &f->tree[DECIDE_JOIN], decision_names[DECIDE_JOIN],
			  &m->part[PHASE_ALL].f);
		join_rows(t, d, s, &pick);
	}
	if (t)
		table_print(t, stdout);
	return done;
}
