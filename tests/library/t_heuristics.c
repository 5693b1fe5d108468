/* SPDX-License-Identifier: Apache-2.0 */
/* t_heuristics.c - the committed headers as compiled into the library, against their text and
 * the committed databases: both give the same choice for every scenario, and each choice was
 * measured. Trees as nodes agree with the compiled functions. */
#include "kernels/select/selector.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_HEADERS = 16 };

static struct CMUnitTest tests[MAX_HEADERS];
static char names[MAX_HEADERS][96];

static void same_choices(const struct forest *f, const struct selector *h)
{
	char want[MAX_CHOICE_TEXT], got[MAX_CHOICE_TEXT];
	assert_int_equal(h->num_choices, f->num_choices);
	for (int id = 0; id < f->num_choices; id++) {
		choice_text(want, sizeof want, &f->choice[id]);
		snprintf(got, sizeof got, "%s %s", h->choices[id].kernel, h->choices[id].text);
		assert_string_equal(got, want);
	}
}

/* Costs of the choices that need them, at least one each: a fitted choice without costs never
 * runs. */
static void same_costs(const struct forest *f, const struct selector *h)
{
	int fitted[MAX_IDS] = { 0 };
	assert_int_equal(h->num_costs, f->num_costs);
	for (int i = 0; i < f->num_costs; i++) {
		const struct selector_costs *a = &h->costs[i], *b = &f->costs[i];
		assert_int_equal(a->id, b->id);
		assert_int_equal(a->head_size, b->head_size);
		assert_memory_equal(&a->costs, &b->costs, sizeof a->costs);
		assert_in_range(a->id, 0, f->num_choices - 1);
		fitted[a->id] = 1;
	}
	for (int id = 0; id < f->num_choices; id++) {
		const struct choice *c = &f->choice[id];
		assert_int_equal(fitted[id], config_is_fitted(&c->config, c->kernel->space));
	}
}

static void same_rows(const struct forest *f, const struct selector *h)
{
	for (int id = 0; id < f->num_choices; id++) {
		const struct attune_list row = selector_list(h, id);
		if (f->list[id].n)
			assert_memory_equal(&row, &f->list[id], sizeof row);
		else
			assert_true(row.n == 1 && row.at[0] == id);
	}
}

/* The nodes that kernels walk against the function, on features near to and far from all
 * thresholds. */
static void nodes_say_the_same(const struct selector *h)
{
	unsigned long long seed = 5;
	for (int round = 0; round < 20000; round++) {
		long long f[ATTUNE_NUM_FEATURES];
		for (int i = 0; i < ATTUNE_NUM_FEATURES; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			const struct selector_node *n =
			    &h->nodes[(seed >> 33) % (unsigned)h->num_nodes];
			f[i] = n->value + (long long)(seed >> 60) % 3 - 1;
			if (seed >> 40 & 1)
				f[i] = 1ll << (seed >> 50) % 30;
		}
		for (int t = 0; t < NUM_DECISIONS; t++) {
			const struct attune_features *x = (const struct attune_features *)f;
			if (h->compiled[t])
				assert_int_equal(tree_says(h->nodes, h->root[t], x),
						 h->compiled[t](x));
		}
	}
}

static void scenario_agrees(const struct forest *f, const struct selector *h,
			    const struct measured *m)
{
	for (int t = 0; t < NUM_DECISIONS; t++) {
		const struct attune_features *x = &m->part[decision_phase((enum decision)t)].f;
		const struct tree *tree = &f->tree[t];
		if (m->has[decision_phase((enum decision)t)])
			assert_int_equal(selector_says(h, (enum decision)t, x),
					 tree->v[tree_leaf(tree, x)].action);
	}
}

/* A header made from rows that no longer count: induce keeps and marks it. */
static int is_held(const char *text)
{
	return strstr(text, "\n *   stale ") != NULL;
}

/* Rules of another GPU, none of which the gate replaced: what they pick was measured there. */
static int is_borrowed(const char *text)
{
	return strstr(text, "\n *   began     from ") && !strstr(text, " new rules: ");
}

/* One in 20 picks may be unmeasured in what was learned from, and one in 15 of the held-out ones, or 2 of
 * few: segment costs move with each time that is added, and a header that was learned anew is ahead of
 * the pass that fills in its picks. The gate's scenarios need no time where old and new rules agree. */
static void picks_were_measured(const struct data *d, const struct forest *f)
{
	int all[2] = { 0 }, missing[2] = { 0 };
	for (int s = 0; s < d->n; s++) {
		const int learned = !split_is_held_out(d->v[s].split);
		struct pick pick;
		if (d->v[s].lost_best || split_is_gate(d->v[s].split))
			continue;
		forest_pick(d, f, s, &pick);
		all[learned]++;
		missing[learned] += !isfinite(data_plan_time(d, s, &pick));
	}
	assert_in_range(missing[1], 0, all[1] / 20);
	assert_in_range(missing[0], 0, all[0] < 60 ? 2 : all[0] / 15);
}

static int has_row(const struct selector *h, const char *kernel)
{
	for (int i = 0; i < h->num_kernels; i++)
		if (strcmp(h->kernels[i].where, "rules") && !strcmp(h->kernels[i].name, kernel))
			return 1;
	return 0;
}

/* It is fresh, knows the hash of all that it names, and is stale when one of these differs. */
static void kernels_are_known(const struct selector *h)
{
	struct selector_kernel rows[64];
	struct selector other = *h;
	assert_false(selector_is_stale(h));
	for (int i = 0; i < h->num_choices; i++)
		assert_true(has_row(h, h->choices[i].kernel));
	for (struct binary_walk w = { 0 }; selector_next_binary(h, &w);)
		assert_true(has_row(h, w.kernel));
	assert_in_range(h->num_kernels, 2, COUNT(rows));
	assert_string_equal(h->kernels[h->num_kernels - 1].where, "rules");
	other.kernels = rows;
	for (int i = 0; i < h->num_kernels; i++) {
		memcpy(rows, h->kernels, (size_t)h->num_kernels * sizeof *rows);
		rows[i].hash ^= 1;
		assert_true(selector_is_stale(&other));
		for (int k = 0; k < h->num_kernels; k++)
			assert_int_equal(selector_kernel_is_stale(&rows[k]), k == i);
	}
}

static void library_says_what_the_database_says(void **state)
{
	const struct selector *h = *state;
	struct forest f;
	char db[PATH_TEXT], header[PATH_TEXT];
	own_header(header, h->gpu);
	/* Times that this machine measured say nothing about the committed rules. */
	const int is_local = strstr(header, "/local/") != NULL;
	db_path(db, is_local ? "results/local/" : "results/", h->gpu);
	kernels_are_known(h);
	nodes_say_the_same(h);
	struct data *d = data_load(db, h->gpu);
	assert_non_null(d);
	assert_int_equal(forest_load(&f, header), 1);
	same_choices(&f, h);
	same_costs(&f, h);
	same_rows(&f, h);
	for (int s = 0; s < d->n; s++)
		scenario_agrees(&f, h, &d->v[s]);
	char *text = file_text(header);
	assert_non_null(text);
	/* Of choices that the GPU's own rules would not name databases keep few times. */
	if (!is_local && !is_held(text) && !is_borrowed(text) && strcmp(h->gpu, PORTABLE_GPU))
		picks_were_measured(d, &f);
	free(text);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	int n = 0;
	for (int i = 0; i < attune_num_selectors && n < MAX_HEADERS; i++) {
		const struct selector *h = &attune_selectors[i];
		snprintf(names[n], sizeof names[n], "%s: library and database agree", h->gpu);
		tests[n] = (struct CMUnitTest){ names[n], library_says_what_the_database_says, NULL,
						NULL, (void *)(uintptr_t)h };
		n++;
	}
	if (!n) {
		puts("1..0 # SKIP no header is generated");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("heuristics", tests, (size_t)n, NULL, NULL);
}
