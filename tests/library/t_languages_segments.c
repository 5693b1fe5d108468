/* SPDX-License-Identifier: Apache-2.0 */
/* t_languages_segments.c - segment costs in JSON: the rows and the choices that they belong to. */
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

struct fixture {
	struct data *d;
	struct forest f;
};

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
	char *text = forest_emit_json(&x->f, x->d);
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
	if (!x)
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
	forest_free(&x->f);
	data_free(x->d);
	free(x);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("languages_segments", tests, begin, end);
}
