/* t_languages_prices.c - what prices come to, in Python and JSON as in the library: estimates
 * of random prices and batches, and the cheapest of those that are legal. */
#include "../kernels/heuristics.h"
#include "synthetic.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "languages.h"

enum { ESTIMATES = 20000, CHEAPEST = 4000 };

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
}

/* ---- estimates ---------------------------------------------------------------------------- */
static const char ask_estimates[] = "import sys\n"
				    "sys.path.insert(0, sys.argv[1])\n"
				    "from rules import *\n"
				    "names = open(sys.argv[1] + '/names').read().split()\n"
				    "n = 0\n"
				    "for line in open(sys.argv[1] + '/asked'):\n"
				    "    at, v, want, *f = map(int, line.split())\n"
				    "    got = estimate(PRICES[at], dict(zip(names, f)), v)\n"
				    "    assert got == want, (line, got)\n"
				    "    n += 1\n"
				    "assert n == 20000, n\n";

static void test_estimates(void **state)
{
	const struct fixture *x = *state;
	unsigned long long seed = 61;
	if (!has_python())
		return;
	write_rules(x);
	FILE *out = to_file("asked");
	for (int i = 0; i < ESTIMATES; i++) {
		const int at = below(&seed, x->f.num_prices);
		const int v = below(&seed, 3) ? 1 + below(&seed, 64) : 1;
		attune_shape s;
		struct part p;
		some_part(&p, &s, &seed);
		fprintf(out, "%d %d %lld", at, v, price_estimate(&x->f.price[at].price, &p.f, v));
		print_features(out, &p.f);
		putc('\n', out);
	}
	assert_int_equal(fclose(out), 0);
	run_python("estimates.py", ask_estimates);
}

/* ---- the cheapest ------------------------------------------------------------------------- */
/* One line: decision, the answer or -1 thrice, features, and what is legal as id:value. */
static void ask_cheapest(FILE *out, const struct forest *f, enum decision decision,
			 const struct part *p, const attune_shape *s)
{
	long long least = -1;
	int best = -1, value = -1;
	char legal[6000] = "";
	size_t n = 0;
	for (int id = 0; id < f->num_choices; id++) {
		const struct choice *c = &f->choice[id];
		const int axis = c->kernel->space->formula_axis;
		const struct axis *a = axis < 0 ? NULL : &c->kernel->space->axis[axis];
		const struct price *price =
		    price_for(f->price, f->num_prices, decision, id, s->head_size);
		struct config at = c->config;
		for (int i = 0; i < (a ? a->num_values : 1); i++) {
			if (a)
				at.v[axis] = a->values[i];
			if (!c->kernel->space->why_illegal(&at, s, p, &h200_run.device))
				n += (size_t)snprintf(legal + n, sizeof legal - n, " %d:%d", id,
						      a ? a->values[i] : 1);
		}
		const long long fs = price ? config_cheapest(&at, &c->config, c->kernel, price, s,
							     p, &h200_run.device)
					   : -1;
		if (fs < 0 || (best >= 0 && fs >= least))
			continue;
		least = fs;
		best = id;
		value = a ? at.v[axis] : 1;
	}
	assert_true(n < sizeof legal);
	fprintf(out, "%s %lld %d %d", decision_names[decision], least, best, value);
	print_features(out, &p->f);
	fprintf(out, "%s\n", legal);
}

static const char ask_for_cheapest[] =
    "import sys\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from rules import *\n"
    "names = open(sys.argv[1] + '/names').read().split()\n"
    "n = 0\n"
    "for line in open(sys.argv[1] + '/asked'):\n"
    "    decision, *rest = line.split()\n"
    "    want = tuple(map(int, rest[:3]))\n"
    "    f = dict(zip(names, map(int, rest[3:])))\n"
    "    may = {tuple(map(int, pair.split(':'))) for pair in rest[3 + len(names):]}\n"
    "    got = cheapest(decision, f, lambda id, v: (id, v) in may) or (-1, -1, -1)\n"
    "    assert got == want, (line, got)\n"
    "    n += 1\n"
    "assert n == 4000, n\n";

static void test_cheapest(void **state)
{
	const struct fixture *x = *state;
	unsigned long long seed = 67;
	if (!has_python())
		return;
	write_rules(x);
	FILE *out = to_file("asked");
	for (int i = 0; i < CHEAPEST; i++) {
		attune_shape s;
		struct part p;
		some_part(&p, &s, &seed);
		ask_cheapest(out, &x->f, (enum decision)(i % NUM_PRICED), &p, &s);
	}
	assert_int_equal(fclose(out), 0);
	run_python("cheapest.py", ask_for_cheapest);
}

/* ---- JSON --------------------------------------------------------------------------------- */
static long long number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static void test_json(void **state)
{
	const struct fixture *x = *state;
	char *text = forest_emit_as("json", &x->f, x->d);
	assert_non_null(text);
	json_t *o = json_loads(text, 0, NULL);
	const json_t *list = json_object_get(o, "prices");
	assert_int_equal(json_array_size(list), x->f.num_prices);
	for (int i = 0; i < x->f.num_prices; i++) {
		const struct selector_price *p = &x->f.price[i];
		const struct space *s = x->f.choice[p->id].kernel->space;
		const json_t *row = json_array_get(list, (size_t)i);
		const json_t *axis = json_object_get(row, "axis");
		const json_t *values = json_object_get(row, "values");
		assert_string_equal(json_string_value(json_object_get(row, "decision")),
				    decision_names[p->decision]);
		assert_true(number(row, "id") == p->id && number(row, "head_size") == p->head_size);
		assert_true(number(row, "rows") == p->price.rows &&
			    number(row, "tile") == p->price.tile &&
			    number(row, "heads") == p->price.heads &&
			    number(row, "slots") == p->price.slots &&
			    number(row, "start") == p->price.start);
		for (int t = 0; t < NUM_PRICE_TERMS; t++)
			assert_true(number(json_object_get(row, "fs"), price_names[t]) ==
				    p->price.fs[t]);
		if (s->formula_axis < 0) {
			assert_true(json_is_null(axis));
			assert_int_equal(json_array_size(values), 0);
			continue;
		}
		const struct axis *a = &s->axis[s->formula_axis];
		assert_string_equal(json_string_value(axis), a->name);
		assert_int_equal(json_array_size(values), a->num_values);
		for (int k = 0; k < a->num_values; k++)
			assert_int_equal(json_integer_value(json_array_get(values, (size_t)k)),
					 a->values[k]);
	}
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
	random_prices(&x->f, &seed);
	for (int t = 0; t < NUM_DECISIONS; t++) {
		const int root = tree_new_node(&x->f.tree[t]);
		x->f.tree[t].v[root].action = t >= DECIDE_OVERLAP ? -1 : SAYS_CHEAPEST;
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
		cmocka_unit_test(test_estimates),
		cmocka_unit_test(test_cheapest),
		cmocka_unit_test(test_json),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("languages_prices", tests, begin, end);
}
