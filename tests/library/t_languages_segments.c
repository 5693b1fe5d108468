/* t_languages_segments.c - segment costs in Python and JSON against the library: for random
 * costs and batches, the cost of a number of segments, and the legal number that is selected. */
#include "tuner/emit/emit.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include "kernels/select/selector.h"
#include "tests/support/synthetic.h"
#include <stdio.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "languages.h"

enum { ESTIMATES = 20000, FITTED = 6000 };

struct fixture {
	struct data *d;
	struct forest f;
};

static FILE *to_file(const char *name)
{
	FILE *out = fopen(in_folder(name), "w");
	assert_non_null(out);
	return out;
}

static void print_features(FILE *out, const struct attune_features *f)
{
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		fprintf(out, " %lld", ((const long long *)f)[i]);
}

static void write_rules(const struct fixture *x)
{
	char *text = forest_emit_as("python", &x->f, x->d);
	assert_non_null(text);
	write_text("rules.py", text);
	free(text);
	FILE *out = to_file("names");
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		fprintf(out, "%s ", feature_names[i]);
	assert_int_equal(fclose(out), 0);
}

/* The whole batch, its prefills or its decodes. */
static void some_part(struct part *p, attune_shape *s, unsigned long long *seed)
{
	assert_true(random_part(p, s, seed));
	s->head_size = 32 << below(seed, 4);
	p->f.head_size = s->head_size;
	if (!below(seed, 3)) { /* queries that differ */
		p->f.max_query += below(seed, 900);
		p->f.window = 1 + below(seed, 4000);
	}
	if (!below(seed, 16)) { /* amounts are cut off so that sums do not overflow */
		p->f.num_seqs = 4096;
		p->f.query_tokens = 1 << 17;
		p->f.window = p->f.max_seq = p->f.keys_per_query = 1 << 20;
	}
}

/* ---- what they come to ------------------------------------------------------------------- */
static const char ask_costs[] = "import sys\n"
				"sys.path.insert(0, sys.argv[1])\n"
				"from rules import *\n"
				"names = open(sys.argv[1] + '/names').read().split()\n"
				"n = 0\n"
				"for line in open(sys.argv[1] + '/asked'):\n"
				"    at, v, want, *f = map(int, line.split())\n"
				"    got = segments_cost(SEGMENTS[at], dict(zip(names, f)), v)\n"
				"    assert got == want, (line, got)\n"
				"    n += 1\n"
				"assert n == 20000, n\n";

static void test_costs(void **state)
{
	const struct fixture *x = *state;
	unsigned long long seed = 61;
	if (!has_python())
		return;
	write_rules(x);
	FILE *out = to_file("asked");
	for (int i = 0; i < ESTIMATES; i++) {
		const int at = below(&seed, x->f.num_costs);
		const int v = below(&seed, 3) ? 1 + below(&seed, 64) : 1;
		const struct choice *c = &x->f.choice[x->f.costs[at].id];
		struct block_shape block;
		attune_shape s;
		struct part p;
		some_part(&p, &s, &seed);
		block_shape_of(&block, &c->config, c->kernel);
		fprintf(out, "%d %d %lld", at, v,
			segments_cost(&x->f.costs[at].costs, &block, &p.f, v));
		print_features(out, &p.f);
		putc('\n', out);
	}
	assert_int_equal(fclose(out), 0);
	run_python("costs.py", ask_costs);
}

/* ---- which is taken ----------------------------------------------------------------------- */
/* One line: the choice, the answer or -1 where there are no costs, features, and legal values. How
 * many of these there are. */
static int ask_fitted(FILE *out, const struct forest *f, int id, const struct part *p,
		      const attune_shape *shape)
{
	const struct choice *c = &f->choice[id];
	const struct space *s = c->kernel->space;
	const struct axis *a = &s->axis[s->formula_axis];
	const struct segment_costs *costs = costs_for(f->costs, f->num_costs, id, shape->head_size);
	struct config at = c->config, means;
	char legal[200] = "";
	int n = 0;
	for (int i = 0; i < a->num_values; i++) {
		at.v[s->formula_axis] = a->values[i];
		if (s->why_illegal(&at, shape, p, &h200_run.device))
			continue;
		sprintf(legal + strlen(legal), " %d", a->values[i]);
		n++;
	}
	if (!n) {
		assert_non_null(config_fitted(&means, &c->config, c->kernel, costs, shape, p,
					      &h200_run.device));
		return 0;
	}
	const char *why =
	    config_fitted(&means, &c->config, c->kernel, costs, shape, p, &h200_run.device);
	assert_int_equal(!why, costs != NULL);
	fprintf(out, "%d %d", id, costs ? means.v[s->formula_axis] : -1);
	print_features(out, &p->f);
	fprintf(out, "%s\n", legal);
	return n;
}

static const char ask_for_fitted[] =
    "import sys\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from rules import *\n"
    "names = open(sys.argv[1] + '/names').read().split()\n"
    "n, seen, none = 0, set(), 0\n"
    "for line in open(sys.argv[1] + '/asked'):\n"
    "    id, want, *f = map(int, line.split())\n"
    "    legal = f[len(names):]\n"
    "    kernel, tunables, formula = CHOICES[id]\n"
    "    assert formula.keys() == {'axis', 'values'}, formula\n"
    "    assert tunables[formula['axis']] is None and set(legal) <= set(formula['values'])\n"
    "    got = fitted_segments(id, dict(zip(names, f)), legal)\n"
    "    assert (-1 if got is None else got) == want, (line, got)\n"
    "    n, none = n + 1, none + (got is None)\n"
    "    seen.add((kernel, got))\n"
    "assert n > 3000 and none < n // 2, (n, none)\n"
    "assert fitted_segments(len(CHOICES), {'head_size': 64}, [1]) is None\n"
    "assert {k for k, v in seen} == {'segmented', 'ring', 'warpgroup'}\n"
    "assert all(len({v for k, v in seen if k == one}) > 2 for one, v in seen), seen\n"
    "assert len({v for k, v in seen}) > 10, seen\n";

static void test_fitted(void **state)
{
	const struct fixture *x = *state;
	unsigned long long seed = 67;
	int cut = 0;
	if (!has_python())
		return;
	write_rules(x);
	FILE *out = to_file("asked");
	for (int i = 0; i < FITTED; i++) {
		attune_shape s;
		struct part p;
		some_part(&p, &s, &seed);
		cut += ask_fitted(out, &x->f, 3 + 4 * (i % (CHOICES / 4)), &p, &s) > 1;
	}
	assert_int_equal(fclose(out), 0);
	assert_true(cut > 3000);
	run_python("fitted.py", ask_for_fitted);
}

/* ---- JSON --------------------------------------------------------------------------------- */
static long long number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static void same_row(const json_t *row, const struct forest *f, const struct selector_costs *want)
{
	const struct choice *choice = &f->choice[want->id];
	const struct segment_costs *c = &want->costs;
	struct block_shape block;
	block_shape_of(&block, &choice->config, choice->kernel);
	assert_int_equal(json_object_size(row), 12);
	assert_true(number(row, "id") == want->id && number(row, "head_size") == want->head_size);
	assert_true(number(row, "rows") == block.rows && number(row, "tile") == block.tile &&
		    number(row, "heads") == block.heads &&
		    number(row, "clusters") == block.clusters);
	assert_true(number(row, "slots") == c->slots && number(row, "start") == c->start);
	assert_true(number(row, "path") == c->path && number(row, "split") == c->split &&
		    number(row, "segments") == c->segments && number(row, "merge") == c->merge);
}

/* Of a choice by costs there is but the axis, and its values. */
static void same_formula(const json_t *choice, const struct choice *want)
{
	const struct space *s = want->kernel->space;
	const struct axis *a = &s->axis[s->formula_axis];
	const json_t *formula = json_object_get(choice, "formula");
	const json_t *values = json_object_get(formula, "values");
	assert_int_equal(json_object_size(formula), 2);
	assert_string_equal(json_string_value(json_object_get(formula, "axis")), a->name);
	assert_int_equal(json_array_size(values), a->num_values);
	for (int k = 0; k < a->num_values; k++)
		assert_int_equal(json_integer_value(json_array_get(values, (size_t)k)),
				 a->values[k]);
	assert_true(json_is_null(json_object_get(json_object_get(choice, "tunables"), a->name)));
	assert_non_null(strstr(json_string_value(json_object_get(choice, "text")), "=fitted"));
}

static void test_json(void **state)
{
	const struct fixture *x = *state;
	char *text = forest_emit_as("json", &x->f, x->d);
	assert_non_null(text);
	json_t *o = json_loads(text, 0, NULL);
	const json_t *list = json_object_get(o, "segments"),
		     *choices = json_object_get(o, "choices");
	assert_int_equal(json_array_size(list), x->f.num_costs);
	for (int i = 0; i < x->f.num_costs; i++)
		same_row(json_array_get(list, (size_t)i), &x->f, &x->f.costs[i]);
	for (int id = 3; id < CHOICES; id += 4)
		same_formula(json_array_get(choices, (size_t)id), &x->f.choice[id]);
	json_decref(o);
	free(text);
}

static int begin(void **state)
{
	struct fixture *x = calloc(1, sizeof *x);
	unsigned long long seed = 59;
	if (!mkdtemp(folder) || !x)
		return -1;
	x->d = synthetic_data(0);
	x->f = (struct forest){ .gpu = "h200" };
	random_choices(&x->f, &seed);
	random_costs(&x->f, &seed);
	for (int t = 0; t < NUM_DECISIONS; t++) {
		const int root = tree_new_node(&x->f.tree[t]);
		x->f.tree[t].v[root].action = t >= DECIDE_OVERLAP ? -1 : 3;
	}
	*state = x;
	return 0;
}

static int end(void **state)
{
	struct fixture *x = *state;
	char command[300];
	forest_free(&x->f);
	data_free(x->d);
	free(x);
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_fitted),
		cmocka_unit_test(test_json),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("languages_segments", tests, begin, end);
}
