/* SPDX-License-Identifier: Apache-2.0 */
/* t_portable.c - portable rules: what they are learned from, and that some member of each of their rows
 * is legal wherever a kernel of ours is. */
#include "tests/support/synthetic.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- the rows' ends --------------------------------------------------------------------- */
#define RING "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=0 SEGMENTS=1"
#define CLUSTER "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=4"
#define SMALL "segmented BLOCK_M=64 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=1"
#define LARGE "segmented BLOCK_M=64 TILE_SIZE=128 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=1"

/* Rows of choice 0, which both trees name or one. The other tree names a choice whose row runs
 * everything. */
static const struct {
	const char *name, *choice[4];
	int n, prefills, decodes, proven;
} rows[] = {
	{ "prefills: the last member fits the smallest GPU", { LARGE, SMALL }, 2, 1, 0, 1 },
	{ "prefills: head size 256 has no member", { LARGE }, 1, 1, 0, 0 },
	{ "decodes: E4M3 caches and LSE by ring, all pages by segmented",
	  { RING, SMALL },
	  2,
	  0,
	  1,
	  1 },
	{ "decodes: pages of 1 have no member", { RING, CLUSTER }, 2, 0, 1, 0 },
	{ "decodes: E4M3 caches have no member", { SMALL, LARGE }, 2, 0, 1, 0 },
	{ "decodes: a member of sm_90 is none", { SMALL, CLUSTER }, 2, 0, 1, 0 },
	{ "both", { LARGE, RING, SMALL }, 3, 1, 1, 1 },
	{ "both: only members count, not the other choices", { LARGE, RING, SMALL }, 2, 1, 1, 0 },
};

static int add_choice(struct forest *f, const char *text)
{
	char error[600];
	assert_true(
	    choice_parse(&f->choice[f->num_choices], BACKEND_GPU, text, error, sizeof error));
	return f->num_choices++;
}

static void make_forest(struct forest *f, size_t r)
{
	*f = (struct forest){ .gpu = PORTABLE_GPU };
	for (int i = 0; i < 4 && rows[r].choice[i]; i++) {
		add_choice(f, rows[r].choice[i]);
		if (i < rows[r].n)
			f->list[0].at[f->list[0].n++] = (short)i;
	}
	const short sound = (short)add_choice(f, LARGE);
	add_choice(f, RING);
	add_choice(f, SMALL);
	f->list[sound] = (struct attune_list){ 3, { sound, sound + 1, sound + 2 } };
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(tree_new_node(&f->tree[t]), 0);
		f->tree[t].v[0].action = t <= DECIDE_DECODE ? sound : SAYS_SERIAL;
	}
	if (rows[r].prefills)
		f->tree[DECIDE_PREFILL].v[0].action = 0;
	if (rows[r].decodes)
		f->tree[DECIDE_DECODE].v[0].action = 0;
}

static void rows_are_proven(void **state)
{
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		struct forest f;
		make_forest(&f, r);
		if (rows_prove(&f) != rows[r].proven)
			fail_msg("%s", rows[r].name);
		forest_free(&f);
	}
}

/* The library would take the kernels' defaults, which portable rules are to replace. */
static void a_leaf_without_a_choice_is_refused(void **state)
{
	(void)state;
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		struct forest f;
		make_forest(&f, 0);
		assert_true(rows_prove(&f));
		struct tree *tree = &f.tree[t];
		assert_int_equal(tree_new_node(tree), 1);
		assert_int_equal(tree_new_node(tree), 2);
		tree->v[1].action = tree->v[0].action;
		tree->v[0].feature = 0;
		tree->v[0].below = 1;
		tree->v[0].above = 2;
		tree->v[2].action = SAYS_DEFAULTS;
		assert_false(rows_prove(&f));
		forest_free(&f);
	}
}

/* All choices are there, but no row: ends are found among them. A full row keeps the choice learned
 * where the first is illegal, and loses a rival. */
static void open_rows_are_closed(void **state)
{
	static const short rivals[4] = { 0, 3, 4, 5 };
	struct data *d = data_new("h200", &h200_run);
	struct forest f;
	(void)state;
	assert_true(data_finish(d));
	for (int full = 0; full < 2; full++) {
		make_forest(&f, COUNT(rows) - 1);
		for (int i = 3; i < 6; i++)
			f.choice[i] = f.choice[0];
		f.list[0].n = full ? 4 : 0;
		memcpy(f.list[0].at, rivals, sizeof rivals);
		assert_false(rows_prove(&f));
		assert_true(rows_close(&f, d));
		assert_true(rows_prove(&f));
		assert_int_equal(f.list[0].n, full ? 4 : 3);
		assert_int_equal(f.list[0].at[0], 0);
		assert_int_equal(f.list[0].at[1], full ? 5 : 2);
		forest_free(&f);
	}
	data_free(d);
}

/* ---- where a file of them is taken -------------------------------------------------------- */
/* The H200's header under that name, as the file of ATTUNE_HEURISTICS. */
static void a_file_is_taken_from_sm_80_on(void **state)
{
	static const struct {
		const char *gpu, *arch;
		int taken;
	} r[] = {
		{ "a100", "sm_80", 1 },  { "l40s", "sm_89", 1 }, { "h100", "sm_90", 1 },
		{ "thor", "sm_110", 1 }, { "t4", "sm_75", 0 },   { "mi300", "gfx942", 0 },
	};
	char path[] = "/tmp/attune_portable.XXXXXX", *text = file_text("generated/attune_h200.h");
	char *wide = text ? malloc(4 * strlen(text)) : NULL;
	(void)state;
	assert_non_null(wide);
	size_t n = 0;
	for (const char *at = text; *at;) {
		const int lower = !strncmp(at, "h200", 4), upper = !strncmp(at, "H200", 4);
		if (lower || upper)
			n += (size_t)sprintf(wide + n, "%s", lower ? "portable" : "PORTABLE"),
			    at += 4;
		else
			wide[n++] = *at++;
	}
	wide[n] = '\0';
	const int fd = mkstemp(path);
	assert_true(fd >= 0 && file_put(path, wide));
	close(fd);
	for (size_t i = 0; i < COUNT(r); i++) {
		struct device_info d = { .backend = BACKEND_GPU, .units = 100, .lanes = 32 };
		struct override *o;
		snprintf(d.gpu, sizeof d.gpu, "%s", r[i].gpu);
		snprintf(d.arch, sizeof d.arch, "%s", r[i].arch);
		const enum attune_status status = override_open(&o, path, &d);
		if ((status == ATTUNE_OK) != r[i].taken)
			fail_msg("%s: %s", r[i].gpu, attune_last_error());
		override_close(o);
	}
	unlink(path);
	free(wide);
	free(text);
}

/* ---- what is learned from --------------------------------------------------------------- */
/* Cells that the smallest GPU may not run do not count, neither as choices nor as the fastest. */
static void only_portable_choices_count(void **state)
{
	char db[PATH_TEXT];
	int all_times = 0, faster = 0;
	(void)state;
	db_path(db, "results/", PORTABLE_GPU);
	assert_string_equal(db, "results/" PORTABLE_ROWS ".sqlite");
	struct data *all = data_load(db, PORTABLE_ROWS), *d = data_load(db, PORTABLE_GPU);
	assert_non_null(all);
	assert_non_null(d);
	assert_string_equal(d->arch, all->run.device.arch);
	assert_string_equal(d->run.device.arch, "sm_80");
	assert_int_equal(d->run.device.units, all->run.device.units);
	assert_int_equal(d->num_early, 0);
	assert_true(d->num_cells > all->num_cells / 10 && d->num_cells < all->num_cells);
	for (int c = 0; c < d->num_choices; c++) /* for parts of little work */
		for (int s = 0; !strcmp(d->choice[c].kernel->name, "naive") && s < d->n; s++)
			for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
				assert_false(isfinite(data_time(d, s, p, c)));
	for (int s = 0; s < d->n; s++)
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
			struct choice_iter i = choices_of(d, s, p, p);
			while (choices_next(&i))
				assert_false(d->choice[i.choice].kernel->space->is_arch_specific);
		}
	for (int s = 0, k = 0; s < d->n; s++) {
		while (k < all->n && strcmp(all->v[k].key, d->v[s].key))
			k++;
		assert_in_range(k, 0, all->n - 1); /* both are sorted alike */
		all_times += isfinite(data_oracle(d, s));
		faster +=
		    data_oracle(d, s) < 0.98 * data_oracle(all, k); /* by the clocks of races */
	}
	if (all_times < d->n / 2 || faster > d->n / 50)
		fail_msg("of %d scenarios %d have a time, %d a faster one", d->n, all_times,
			 faster);
	data_free(all);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_proven),
		cmocka_unit_test(a_leaf_without_a_choice_is_refused),
		cmocka_unit_test(open_rows_are_closed),
		cmocka_unit_test(a_file_is_taken_from_sm_80_on),
		cmocka_unit_test(only_portable_choices_count),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("portable", tests, NULL, NULL);
}
