/* t_priced.c - the costs of choices that the library prices (kernels/ship/untuned_costs.c): they
 * are those that the committed times of the H200 give, but for zeros. After a change of the times
 * or of the fit, ATTUNE_WRITE=1 build/t_priced prints the table's rows. */
#include "estimates.h"
#include "harness/base/base.h"
#include "kernels/ship/priced.h"
#include "tuner/data/data.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void print_costs(const struct part_costs *c, int is_last)
{
	const struct segment_costs *s = &c->segments;
	printf("\t\t{ %d, { %d, %d, %lld, %lld, %lld, %lld }, %lld, %lld, %lld, %lld }%s\n",
	       c->head_size, s->slots, s->start, s->path, s->split, s->segments, s->merge,
	       c->launch, c->total, c->kib, c->rows, is_last ? " } }," : ",");
}

static void print_priced(const struct priced *p)
{
	printf("\t{ \"%s\", \"%s\", PHASE_%s, %d, {\n", p->kernel, p->values,
	       p->phase == PHASE_PREFILL ? "PREFILL" : "DECODE", p->is_named);
	for (int i = 0; i < PRICED_SIZES; i++)
		print_costs(&p->at[i], i == PRICED_SIZES - 1);
}

static void costs_are_those_of_the_database(void **state)
{
	struct data *d = data_load("results/h200.sqlite", "h200");
	(void)state;
	assert_non_null(d);
	for (const struct priced *p = attune_priced; p->kernel; p++) {
		struct priced fresh = *p;
		assert_true(priced_fit(&fresh, d));
		if (getenv("ATTUNE_WRITE")) {
			print_priced(&fresh);
			continue;
		}
		for (int i = 0; i < PRICED_SIZES; i++)
			if (p->at[i].segments.slots)
				assert_memory_equal(&fresh.at[i], &p->at[i], sizeof p->at[i]);
	}
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(costs_are_those_of_the_database) };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("priced", tests, NULL, NULL);
}
