/* SPDX-License-Identifier: Apache-2.0 */
/* t_emit.c - generated headers: every byte of a small one, the same bytes from the same cells,
 * no compiler warnings; and the compiled text, the parsed text and the tree agree. */
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/tree/tree.h"
#include "tuner/induce/early_decision.h"
#include "tests/support/synthetic.h"
#include <stdio.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include "golden_header.h"
#include "small_forest.h"
#include "tests/support/heard.h"

static char folder[] = "/tmp/t_emit.XXXXXX";

/* ---- a small one, by hand ---------------------------------------------------------- */
/* The choices are of qblock and segmented, and the defaults may take reduce. */
static const char *golden_kernels(void)
{
	static char text[400];
	snprintf(text, sizeof text,
		 "#define ATTUNE_H200_KERNELS(KERNEL) \\\n"
		 "\tKERNEL(gpu, qblock, 0x%016llxull) KERNEL(gpu, segmented, 0x%016llxull) "
		 "KERNEL(gpu, reduce, 0x%016llxull) \\\n"
		 "\tKERNEL(rules, features, 0x%016llxull)\n",
		 kernel_hash(kernel_find(BACKEND_GPU, "qblock")),
		 kernel_hash(kernel_find(BACKEND_GPU, "segmented")),
		 kernel_hash(kernel_find(BACKEND_GPU, "reduce")), rules_hash());
	return text;
}

static void test_every_byte(void **state)
{
	struct data *d = small_data();
	struct forest f;
	char want[10000];
	(void)state;
	small_forest(&f, d);
	char *text = forest_emit(&f, d);
	assert_non_null(text);
	snprintf(want, sizeof want, golden, golden_legend, golden_kernels(),
		 with("segmented", "SEGMENTS=0"), with("qblock", "BLOCK_M=32"));
	assert_string_equal(text, want);
	free(text);
	forest_free(&f);
	data_free(d);
}

/* The legend explains units that are left to the decodes where a leaf leaves some. */
static void test_legend_of_spared_units(void **state)
{
	struct data *d = small_data();
	struct forest f, parsed;
	(void)state;
	small_forest(&f, d);
	f.tree[DECIDE_OVERLAP].v[0].action = SAYS_SPARING16 - 1;
	char *text = forest_emit(&f, d);
	assert_non_null(strstr(text, "\n *       streams_sparing32   the same; "));
	assert_non_null(strstr(text, "\treturn h200_streams_sparing32; /* not measured */\n"));
	assert_true(forest_parse(&parsed, text, "text"));
	assert_int_equal(parsed.tree[DECIDE_OVERLAP].v[0].action, SAYS_SPARING16 - 1);
	forest_free(&parsed);
	free(text);
	forest_free(&f);
	data_free(d);
}

/* ---- the synthetic one ---------------------------------------------------------------- */
static char *synthetic_header(unsigned long long seed, struct forest *f)
{
	struct data *d = synthetic_data(seed);
	assert_true(forest_induce(f, d, &default_limits));
	char *text = forest_emit(f, d);
	assert_non_null(text);
	data_free(d);
	return text;
}

static void test_same_cells_same_bytes(void **state)
{
	struct forest f;
	char *first = synthetic_header(0, &f);
	(void)state;
	forest_free(&f);
	for (unsigned long long seed = 1; seed <= 3; seed++) {
		char *other = synthetic_header(seed, &f);
		assert_string_equal(first, other);
		free(other);
		forest_free(&f);
	}
	free(first);
}

static void write_text(const char *name, const char *text, char path[256])
{
	snprintf(path, 256, "%s/%s", folder, name);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

/* Runs a compiler in the repository's root; its exit status. */
static int compile(const char *compiler, const char *source, const char *to)
{
	char command[900];
	snprintf(command, sizeof command, "%s -Ikernels -I%s -o %s %s", compiler, folder, to,
		 source);
	return system(command);
}

static const char wrapper[] = "#include \"attune_h200.h\"\n"
			      "#ifdef __cplusplus\nextern \"C\"\n#endif\n"
			      "int decide(int d, const struct attune_features *f);\n"
			      "int decide(int d, const struct attune_features *f)\n"
			      "{\n"
			      "\treturn d == 0 ? attune_h200_prefill(f) :\n"
			      "\t\td == 1 ? attune_h200_decode(f) : attune_h200_overlap(f);\n"
			      "}\n";

static void test_compiles_in_all_its_languages(void **state)
{
	static const char *const rows[][2] = {
		{ "wrap.c", "cc -std=c11 -Wall -Wextra -Wpedantic -Werror -c" },
		{ "wrap.cc", "c++ -std=c++11 -Wall -Wextra -Werror -c" },
		{ "wrap.cu", "PATH=$PATH:/usr/local/cuda/bin nvcc -c" },
	};
	struct forest f;
	char path[256], object[300];
	char *text = synthetic_header(0, &f);
	(void)state;
	write_text("attune_h200.h", text, path);
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (i == 2 &&
		    system("PATH=$PATH:/usr/local/cuda/bin nvcc --version >/dev/null 2>&1"))
			continue;
		write_text(rows[i][0], wrapper, path);
		snprintf(object, sizeof object, "%s/%s.o", folder, rows[i][0]);
		assert_int_equal(compile(rows[i][1], path, object), 0);
	}
	free(text);
	forest_free(&f);
}

static long long random_value(unsigned long long *seed)
{
	const unsigned bits = next_random(seed) % 22;
	return (long long)(next_random(seed) & ((1u << bits) - 1)) + 1;
}

static void test_compiled_parsed_and_grown_agree(void **state)
{
	struct forest f, parsed;
	unsigned long long seed = 17;
	char path[256], library[300];
	char *text = synthetic_header(0, &f);
	(void)state;
	write_text("attune_h200.h", text, path);
	write_text("wrap.c", wrapper, path);
	snprintf(library, sizeof library, "%s/wrap.so", folder);
	assert_int_equal(compile("cc -O1 -shared -fPIC", path, library), 0);
	void *handle = dlopen(library, RTLD_NOW);
	assert_non_null(handle);
	int (*decide)(int, const struct attune_features *);
	*(void **)&decide = dlsym(handle, "decide");
	assert_non_null(decide);
	assert_true(forest_parse(&parsed, text, "text"));
	assert_true(tree_leaves(&f.tree[DECIDE_DECODE]) > 2);
	for (int i = 0; i < 100000; i++) {
		struct attune_features x;
		for (int k = 0; k < ATTUNE_NUM_FEATURES; k++)
			((long long *)&x)[k] = random_value(&seed);
		for (int d = 0; d < DECIDE_EARLY; d++) {
			const int got = decide(d, &x);
			const struct tree *a = &f.tree[d], *b = &parsed.tree[d];
			assert_int_equal(got, a->v[tree_leaf(a, &x)].action);
			assert_int_equal(got, b->v[tree_leaf(b, &x)].action);
		}
	}
	dlclose(handle);
	free(text);
	forest_free(&f);
	forest_free(&parsed);
}

static void test_read_back(void **state)
{
	struct forest f, parsed;
	char *text = synthetic_header(0, &f);
	(void)state;
	assert_true(forest_parse(&parsed, text, "text"));
	assert_string_equal(parsed.gpu, "h200");
	assert_int_equal(parsed.num_choices, f.num_choices);
	assert_memory_equal(parsed.choice, f.choice, sizeof *f.choice * (size_t)f.num_choices);
	assert_int_equal(parsed.num_costs, f.num_costs);
	for (int i = 0; i < f.num_costs; i++)
		same_costs(&parsed.costs[i], &f.costs[i]);
	for (int d = 0; d < NUM_DECISIONS; d++) {
		assert_int_equal(tree_leaves(&parsed.tree[d]), tree_leaves(&f.tree[d]));
		for (int i = 0; i < f.tree[d].n; i++)
			if (f.tree[d].v[i].feature < 0)
				assert_int_equal(parsed.tree[d].v[i].support,
						 f.tree[d].v[i].support);
	}
	forest_free(&parsed);
	char *id = strstr(text, "return h200_");
	assert_non_null(id);
	memset(id + 7, ' ', strcspn(id + 7, ";"));
	memcpy(id + 7, "77", 2);
	listen_begin();
	const int read = forest_parse(&parsed, text, "text");
	const char *said = heard();
	assert_false(read);
	assert_non_null(strstr(said, "text:"));
	assert_non_null(strstr(said, "a name of CHOICES"));
	free(text);
	forest_free(&f);
}

/* A leaf says how many scenarios it was learned from, and how good it is on them. */
static void test_leaves_have_their_figures(void **state)
{
	struct data *d = synthetic_data(0);
	struct forest f;
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	char *header = forest_emit(&f, d), wanted[120];
	int leaves = 0;
	assert_non_null(header);
	for (int i = 0; i < f.tree[DECIDE_DECODE].n; i++) {
		const struct node *v = &f.tree[DECIDE_DECODE].v[i];
		if (v->feature >= 0)
			continue;
		snprintf(wanted, sizeof wanted, "; /* %d scenario%s, %.3f", v->support,
			 v->support == 1 ? "" : "s",
			 exp((double)v->cost / (double)v->weight / 1e6));
		if (!strstr(header, wanted))
			fail_msg("no '%s'", wanted);
		leaves++;
	}
	assert_true(leaves > 2);
	/* it also says how good the whole tree is */
	int said = 0;
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		const struct making *m = &f.making[t];
		snprintf(wanted, sizeof wanted, "slowdown of this tree: %.4f; with", m->made);
		if (m->made > 0 && !strstr(header, wanted))
			fail_msg("no '%s'", wanted);
		said += m->made > 0;
	}
	assert_true(said > 0);
	free(header);
	forest_free(&f);
	data_free(d);
}

/* Budgets hold, and every leaf has rows and a box. */
static void count_box(void *arg, int at, const struct box *b)
{
	(void)at, (void)b;
	++*(int *)arg;
}

static void test_budgets(void **state)
{
	static const struct limits rows[] = { { .leaves = 1, .variants = 12 },
					      { .leaves = 3, .variants = 2 },
					      { .leaves = 12, .variants = 12 },
					      { .leaves = 40, .variants = 3 } };
	struct data *d = synthetic_data(0);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct forest f;
		struct box all;
		int boxes = 0;
		box_all(&all);
		assert_true(forest_induce(&f, d, &rows[i]));
		assert_true(f.num_choices <= 2 * rows[i].variants);
		for (int t = 0; t < NUM_DECISIONS; t++) {
			assert_true(tree_leaves(&f.tree[t]) <= rows[i].leaves);
			if (t < forest_decisions(&f))
				tree_boxes(&f.tree[t], &all, count_box, &boxes);
			for (int n = 0; n < f.tree[t].n; n++)
				assert_true(f.tree[t].v[n].feature >= 0 || t >= DECIDE_OVERLAP ||
					    f.tree[t].v[n].support > 0);
		}
		assert_int_equal(boxes, forest_leaves(&f));
		forest_free(&f);
	}
	data_free(d);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[300];
	(void)state;
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_legend_of_spared_units),
		cmocka_unit_test(test_same_cells_same_bytes),
		cmocka_unit_test(test_compiles_in_all_its_languages),
		cmocka_unit_test(test_compiled_parsed_and_grown_agree),
		cmocka_unit_test(test_read_back),
		cmocka_unit_test(test_leaves_have_their_figures),
		cmocka_unit_test(test_budgets),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
