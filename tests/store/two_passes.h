/* SPDX-License-Identifier: Apache-2.0 */
/* two_passes.h - a decode batch whose times of the second pass differ from those of the first, and
 * rules that pick one of its choices. Include after commands.h. */
#ifndef TESTS_STORE_TWO_PASSES_H
#define TESTS_STORE_TWO_PASSES_H

enum { NUM_FIRST = 24, PICK = 1 };

static const char *segmented(int i)
{
	static const int segments[] = { 2, 3, 4, 6, 8, 12 };
	char set[80];
	snprintf(set, sizeof set, "BLOCK_M=%d TILE_SIZE=%d SEGMENTS=%d", i % 2 ? 16 : 32,
		 i / 2 % 2 ? 32 : 64, segments[i / 4]);
	return with("segmented", set);
}

/* A decode batch. First pass: 24 choices, of which number 0 takes the least, by luck. Second pass:
 * the pick, number 4 as fast within noise, number 5 a fifth slower. The header picks number 1. */
static void make_passes(const char *db, const char *header)
{
	static const struct {
		int choice;
		double us;
	} again[] = { { PICK, 102 }, { 4, 102.1 }, { 5, 122.4 } };
	struct synthetic v = { "8q1s4k", "decode", "train", 0, 0 };
	struct forest f = { .num_choices = 1, .gpu = "h200" };
	struct store *st = store_open(db, 0);
	const long long first = store_begin_run(st, &h200_run);
	const char *where;
	for (int i = 0; i < NUM_FIRST; i++) {
		v.us = i ? 100 + i : 95;
		put_choice(st, first, &v, "segmented", segmented(i));
	}
	const long long second = store_begin_run(st, &h200_run);
	store_stage(st, "b");
	for (size_t i = 0; i < COUNT(again); i++) {
		v.us = again[i].us;
		put_choice(st, second, &v, "segmented", segmented(again[i].choice));
	}
	store_close(st);
	struct data *d = data_load(db, "h200");
	for (int t = 0; t < NUM_DECISIONS; t++)
		assert_true(tree_constant(&f.tree[t], t == DECIDE_OVERLAP ? SAYS_SERIAL
						      : t == DECIDE_EARLY ? SAYS_OWN
									  : 0));
	f.choice[0].kernel = kernel_find(BACKEND_GPU, "segmented");
	assert_true(
	    config_parse(&f.choice[0].config, f.choice[0].kernel->space, segmented(PICK), &where));
	char *text = forest_emit(&f, d);
	FILE *out = fopen(header, "w");
	assert_true(text && out && fputs(text, out) >= 0 && !fclose(out));
	free(text);
	forest_free(&f);
	data_free(d);
}

#endif
