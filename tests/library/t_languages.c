/* SPDX-License-Identifier: Apache-2.0 */
/* t_languages.c - one forest as a header (compiled, parsed by the tuner, and read by the library, as
 * of ATTUNE_HEURISTICS) and as JSON (walked here) gives the same answers for a million feature vectors,
 * and the same rows of choices: in C, C++ and device code.
 * The forests are random, with everything that a header can hold. t_languages_segments.c compares
 * segment costs. */
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "kernels/select/selector.h"
#include "tests/support/synthetic.h"
#include <stdio.h>
#include <dlfcn.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>
#include "languages.h"

enum { VECTORS = 1000000, POOL = 64, DEPTH = 7 };

/* ---- a forest, and vectors that walk all over it ---------------------------------------- */
/* Any that the decision has. */
static int random_action(enum decision decision, unsigned long long *seed)
{
	static const int ways[] = { SAYS_SERIAL, SAYS_ONE_LAUNCH, SAYS_STREAMS, SAYS_SPARING16,
				    SAYS_SPARING112 };
	const int ids = decision == DECIDE_EARLY ? MOST_EARLY + 1 : CHOICES;
	const int words = decision == DECIDE_OVERLAP ? (int)COUNT(ways) : 1;
	const int r = below(seed, ids + words);
	return r < ids ? r : ways[r - ids]; /* of the others -1, too */
}

/* The root's index; thresholds over the whole range, some of them 0. No leaf is near the root. */
static int random_node(struct tree *t, int depth, enum decision decision, unsigned long long *seed)
{
	const int at = tree_new_node(t);
	if (!depth || (depth < DEPTH - 1 && next_random(seed) % 8 == 0)) {
		t->v[at].action = random_action(decision, seed);
		return at;
	}
	const int feature = (int)(next_random(seed) % ATTUNE_NUM_FEATURES);
	const long long threshold = (long long)(next_random(seed) >> next_random(seed) % 31);
	const int holds = random_node(t, depth - 1, decision, seed);
	const int above = random_node(t, depth - 1, decision, seed);
	t->v[at].feature = feature;
	t->v[at].threshold = threshold;
	t->v[at].below = holds;
	t->v[at].above = above;
	return at;
}

/* Rows of 0 to 4 members, of choices that leaves name. */
static void random_rows(struct forest *f, unsigned long long *seed)
{
	for (int id = 0; id < CHOICES; id++) {
		struct attune_list row = { 1, { (short)id, -1, -1, -1 } };
		const int members = id % (ATTUNE_LIST_MEMBERS + 1);
		while (row.n < members) {
			const int other = below(seed, CHOICES);
			int is_new = 1;
			for (int i = 0; i < row.n; i++)
				is_new &= row.at[i] != other;
			if (is_new)
				row.at[row.n++] = (short)other;
		}
		if (members && forest_names(f, id))
			f->list[id] = row;
	}
}

static void random_forest(struct forest *f)
{
	unsigned long long seed = 30;
	*f = (struct forest){ .gpu = "h200" };
	random_choices(f, &seed);
	random_costs(f, &seed);
	for (int t = 0; t < NUM_DECISIONS; t++) {
		random_node(&f->tree[t], DEPTH, (enum decision)t, &seed);
		assert_true(tree_tidy(&f->tree[t]));
		assert_true(tree_leaves(&f->tree[t]) > 12);
	}
	random_rows(f, &seed);
	f->mixed = (struct mixed_rates){ 1713, 73, 3600, 4300, 4132, 6018, MOST_RATE, 1 };
}

/* pool[feature]: thresholds, their neighbours, extremes, and values in between. */
static void fill_pool(const struct forest *f, long long pool[ATTUNE_NUM_FEATURES][POOL])
{
	unsigned long long seed = 3;
	int n[ATTUNE_NUM_FEATURES] = { 0 };
	for (int k = 0; k < ATTUNE_NUM_FEATURES; k++) {
		pool[k][n[k]++] = 0;
		pool[k][n[k]++] = 1ll << 62;
	}
	for (int t = 0; t < NUM_DECISIONS; t++)
		for (int i = 0; i < f->tree[t].n; i++) {
			const struct node *v = &f->tree[t].v[i];
			for (int d = -1; d <= 1 && v->feature >= 0; d++)
				if (v->threshold + d >= 0 && n[v->feature] < POOL)
					pool[v->feature][n[v->feature]++] = v->threshold + d;
		}
	for (int k = 0; k < ATTUNE_NUM_FEATURES; k++)
		while (n[k] < POOL)
			pool[k][n[k]++] =
			    (long long)(next_random(&seed) >> next_random(&seed) % 31);
}

/* Vector i + 1 is vector i with one feature changed. */
struct walk {
	unsigned long long state;
	struct attune_features f;
};

static void step(struct walk *w, long long pool[ATTUNE_NUM_FEATURES][POOL])
{
	const unsigned r = next_random(&w->state);
	((long long *)&w->f)[r / POOL % ATTUNE_NUM_FEATURES] =
	    pool[r / POOL % ATTUNE_NUM_FEATURES][r % POOL];
}

static int walk_json(const json_t *node, const struct attune_features *f)
{
	const json_t *feature;
	while ((feature = json_object_get(node, "feature")) != NULL) {
		int k = 0;
		while (strcmp(feature_names[k], json_string_value(feature)))
			k++;
		const long long limit = json_integer_value(json_object_get(node, "at_most"));
		node =
		    json_object_get(node, ((const long long *)f)[k] <= limit ? "below" : "above");
	}
	return (int)json_integer_value(json_object_get(node, "action"));
}

static int says(const struct forest *f, int decision, const struct attune_features *x)
{
	const struct tree *t = &f->tree[decision];
	return t->v[tree_leaf(t, x)].action;
}

typedef int (*decide_fn)(int, const struct attune_features *);

static decide_fn compile(const char *header, void **handle)
{
	static const char wrapper[] = "#include \"attune_h200.h\"\n"
				      "int decide(int d, const struct attune_features *f);\n"
				      "int decide(int d, const struct attune_features *f)\n"
				      "{ return d == 0 ? attune_h200_prefill(f) : d == 1 ?\n"
				      "attune_h200_decode(f) : d == 2 ? "
				      "attune_h200_overlap(f) : attune_h200_early(f); }\n";
	char command[900];
	decide_fn decide;
	write_text("attune_h200.h", header);
	write_text("wrap.c", wrapper);
	snprintf(command, sizeof command, "cc -O1 -shared -fPIC -Ikernels -I%s -o %s %s", folder,
		 in_folder("wrap.so"), in_folder("wrap.c"));
	assert_int_equal(system(command), 0);
	*handle = dlopen(in_folder("wrap.so"), RTLD_NOW);
	assert_non_null(*handle);
	*(void **)&decide = dlsym(*handle, "decide");
	return decide;
}

/* The forest's own answer to every vector, as bytes; the other languages must agree. */
static signed char *expected(const struct forest *f, long long pool[ATTUNE_NUM_FEATURES][POOL])
{
	signed char *out = malloc((size_t)VECTORS * NUM_DECISIONS);
	struct walk w = { .state = 5 };
	assert_non_null(out);
	for (int i = 0; i < VECTORS; i++) {
		step(&w, pool);
		for (int d = 0; d < NUM_DECISIONS; d++)
			out[i * NUM_DECISIONS + d] = (signed char)says(f, d, &w.f);
	}
	return out;
}

struct fixture {
	struct data *d;
	struct forest f;
	long long pool[ATTUNE_NUM_FEATURES][POOL];
	signed char *want;
};

static char *emitted(const struct fixture *x, const char *language)
{
	char *text = *language == 'c' ? forest_emit(&x->f, x->d) : forest_emit_json(&x->f, x->d);
	assert_non_null(text);
	return text;
}

static void test_c_and_parsed(void **state)
{
	const struct fixture *x = *state;
	struct walk w = { .state = 5 };
	struct forest parsed;
	void *handle;
	char *text = emitted(x, "c");
	decide_fn decide = compile(text, &handle);
	assert_true(forest_parse(&parsed, text, "text"));
	assert_memory_equal(parsed.choice, x->f.choice, sizeof *parsed.choice * CHOICES);
	same_list(&x->f, parsed.costs, parsed.num_costs);
	assert_memory_equal(parsed.list, x->f.list, sizeof parsed.list);
	assert_memory_equal(&parsed.mixed, &x->f.mixed, sizeof parsed.mixed);
	for (int i = 0; i < VECTORS; i++) {
		step(&w, (long long(*)[POOL])x->pool);
		for (int d = 0; d < NUM_DECISIONS; d++) {
			const int want = x->want[i * NUM_DECISIONS + d];
			if (decide(d, &w.f) != want || says(&parsed, d, &w.f) != want)
				fail_msg("vector %d, %s", i, decision_names[d]);
		}
	}
	forest_free(&parsed);
	dlclose(handle);
	free(text);
}

/* ---- rows of choices -------------------------------------------------------------------- */
/* On a machine with a GPU its code answers. */
static const char rows_source[] =
    "#include \"attune_h200.h\"\n"
    "#ifdef __CUDACC__\n"
    "__global__ void ask(int id, struct attune_list *row) { *row = attune_h200_list(id); }\n"
    "static struct attune_list of(int id)\n"
    "{\n"
    "	struct attune_list row = attune_h200_list(id), *there;\n"
    "	int devices = 0;\n"
    "	if (cudaGetDeviceCount(&devices) || !devices || cudaMalloc(&there, sizeof row))\n"
    "		return row;\n"
    "	ask<<<1, 1>>>(id, there);\n"
    "	if (cudaMemcpy(&row, there, sizeof row, cudaMemcpyDeviceToHost))\n"
    "		row.n = 0;\n"
    "	cudaFree(there);\n"
    "	return row;\n"
    "}\n"
    "#else\n"
    "static struct attune_list of(int id) { return attune_h200_list(id); }\n"
    "#endif\n"
    "#ifdef __cplusplus\nextern \"C\"\n#endif\n"
    "void list(int id, struct attune_list *row);\n"
    "void list(int id, struct attune_list *row) { *row = of(id); }\n";

static struct attune_list row_of(const struct forest *f, int id)
{
	const struct attune_list alone = { 1, { (short)id, -1, -1, -1 } };
	return id >= 0 && f->list[id].n ? f->list[id] : alone;
}

static void rows_in(const struct forest *f, const char *compiler, const char *source)
{
	char command[900];
	void (*list)(int, struct attune_list *);
	write_text(source, rows_source);
	snprintf(command, sizeof command,
		 "PATH=$PATH:/usr/local/cuda/bin %s -Ikernels -I%s -o %s %s", compiler, folder,
		 in_folder("rows.so"), in_folder(source));
	assert_int_equal(system(command), 0);
	void *handle = dlopen(in_folder("rows.so"), RTLD_NOW);
	assert_non_null(handle);
	*(void **)&list = dlsym(handle, "list");
	assert_non_null(list);
	for (int id = SAYS_DEFAULTS; id < CHOICES; id++) {
		struct attune_list got = { 0 }, want = row_of(f, id);
		list(id, &got);
		assert_memory_equal(&got, &want, sizeof want);
	}
	dlclose(handle);
	assert_int_equal(unlink(in_folder("rows.so")), 0);
}

static void test_rows(void **state)
{
	const struct fixture *x = *state;
	char *text = emitted(x, "c");
	int members[ATTUNE_LIST_MEMBERS + 1] = { 0 };
	for (int id = 0; id < CHOICES; id++)
		members[x->f.list[id].n]++;
	for (int n = 0; n <= ATTUNE_LIST_MEMBERS; n++)
		assert_true(members[n]);
	write_text("attune_h200.h", text);
	rows_in(&x->f, "cc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror -shared -fPIC",
		"rows.c");
	rows_in(&x->f, "c++ -std=c++17 -Wall -Wextra -Wconversion -Werror -shared -fPIC",
		"rows.cc");
	if (!system("PATH=$PATH:/usr/local/cuda/bin nvcc --version >/dev/null 2>&1"))
		rows_in(&x->f, "nvcc -Werror all-warnings -shared -Xcompiler -fPIC", "rows.cu");
	free(text);
}

static void rows_of_json(const json_t *list, const struct forest *f)
{
	size_t rows = 0;
	for (int id = 0; id < CHOICES; id++) {
		const json_t *row = json_array_get(list, rows), *then;
		if (!f->list[id].n)
			continue;
		rows++;
		then = json_object_get(row, "then");
		assert_int_equal(json_integer_value(json_object_get(row, "id")), id);
		assert_int_equal(json_array_size(then), f->list[id].n - 1);
		for (int i = 1; i < f->list[id].n; i++)
			assert_int_equal(json_integer_value(json_array_get(then, (size_t)i - 1)),
					 f->list[id].at[i]);
	}
	assert_int_equal(json_array_size(list), rows);
}

static void test_json(void **state)
{
	const struct fixture *x = *state;
	struct walk w = { .state = 5 };
	char *text = emitted(x, "json");
	json_error_t error;
	json_t *o = json_loads(text, 0, &error);
	if (!o)
		fail_msg("%d:%d: %s", error.line, error.column, error.text);
	assert_string_equal(json_string_value(json_object_get(o, "schema")), "attune-heuristics-7");
	assert_int_equal(json_array_size(json_object_get(o, "features")), ATTUNE_NUM_FEATURES);
	for (int i = 0; i < VECTORS; i++) {
		step(&w, (long long(*)[POOL])x->pool);
		for (int d = 0; d < NUM_DECISIONS; d++)
			if (walk_json(json_object_get(o, decision_names[d]), &w.f) !=
			    x->want[i * NUM_DECISIONS + d])
				fail_msg("vector %d, %s", i, decision_names[d]);
	}
	for (int i = 0; i < CHOICES; i++) {
		const json_t *c = json_array_get(json_object_get(o, "choices"), (size_t)i);
		const struct space *s = x->f.choice[i].kernel->space;
		const struct config *config = &x->f.choice[i].config;
		const int is_formula = config_is_formula(config, s) || config_is_fitted(config, s);
		const json_t *formula = json_object_get(c, "formula");
		assert_int_equal(json_object_size(json_object_get(c, "tunables")), s->num_axes);
		assert_true(is_formula ? json_is_object(formula) : json_is_null(formula));
	}
	rows_of_json(json_object_get(o, "lists"), &x->f);
	const json_t *mixed = json_object_get(o, "mixed");
	assert_int_equal(json_object_size(mixed), 8);
	assert_int_equal(json_integer_value(json_object_get(mixed, "unit_flops")), 1713);
	assert_int_equal(json_integer_value(json_object_get(mixed, "leave_ns")), MOST_RATE);
	json_decref(o);
	free(text);
}

static void test_read_by_the_library(void **state)
{
	const struct fixture *x = *state;
	struct walk w = { .state = 5 };
	struct override *o;
	char *text = emitted(x, "c"), words[MAX_CHOICE_TEXT];
	write_text("rules.h", text);
	if (override_open(&o, in_folder("rules.h"), &h200_run.device))
		fail_msg("%s", attune_last_error());
	const struct selector *s = override_selector(o);
	assert_int_equal(s->num_choices, CHOICES);
	for (int i = 0; i < CHOICES; i++) {
		const struct choice *c = &x->f.choice[i];
		config_text(words, sizeof words, &c->config, c->kernel->space);
		assert_string_equal(s->choices[i].kernel, c->kernel->name);
		assert_string_equal(s->choices[i].text, words);
	}
	same_list(&x->f, s->costs, s->num_costs);
	assert_memory_equal(&s->mixed, &x->f.mixed, sizeof s->mixed);
	for (int id = 0; id < CHOICES; id++) {
		const struct attune_list got = selector_list(s, id), want = row_of(&x->f, id);
		assert_memory_equal(&got, &want, sizeof want);
	}
	for (int i = 0; i < VECTORS; i++) {
		step(&w, (long long(*)[POOL])x->pool);
		for (int d = 0; d < NUM_DECISIONS; d++)
			if (selector_says(s, (enum decision)d, &w.f) !=
			    x->want[i * NUM_DECISIONS + d])
				fail_msg("vector %d, %s", i, decision_names[d]);
	}
	override_close(o);
	free(text);
}

static int begin(void **state)
{
	struct fixture *x = calloc(1, sizeof *x);
	if (!mkdtemp(folder) || !x)
		return -1;
	x->d = synthetic_data(0);
	random_forest(&x->f);
	fill_pool(&x->f, x->pool);
	x->want = expected(&x->f, x->pool);
	*state = x;
	return 0;
}

static int end(void **state)
{
	struct fixture *x = *state;
	char command[300];
	forest_free(&x->f);
	data_free(x->d);
	free(x->want);
	free(x);
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c_and_parsed),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_read_by_the_library),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, begin, end);
}
