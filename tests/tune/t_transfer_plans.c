/* t_transfer_plans.c - which plans of two launches a GPU takes from another's database
 * (tuner/transfer/transfer.h), on two made-up GPUs. */
#include "tests/support/synthetic.h"
#include "tuner/data/filling.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/two_gpus.h"

/* Plans of two launches: an own time stays, others of pass A are translated, those of pass B are
 * not. */
static void plans_are_translated(void **state)
{
	static const struct {
		int is_own;
		char pass;
		const char *segments;
		double us;
	} plans[] = { { 0, 'A', "SEGMENTS=1", 50 },
		      { 0, 'A', "SEGMENTS=2", 60 },
		      { 0, 'B', "SEGMENTS=4", 70 },
		      { 1, 'A', "SEGMENTS=1", 99 } };
	const struct world world = world_of_choices();
	struct data *d[2];
	int found = 0;
	(void)state;
	for (int own = 0; own < 2; own++) {
		const struct made_up_gpu *g = own ? &second_gpu : &first_gpu;
		const struct asked all = { g, &world, NULL, 0.01 };
		d[own] = world_data(g);
		for (int i = 0; i < 30; i++)
			add_world_scenario(d[own], &all, i, "train");
		for (size_t k = 0; k < COUNT(plans); k++) {
			char parts[2][MAX_PART_TEXT], text[2 * MAX_PART_TEXT];
			if (plans[k].is_own != own)
				continue;
			snprintf(parts[0], sizeof parts[0], "qblock %s",
				 with("qblock", "BLOCK_M=64 TILE_SIZE=64"));
			snprintf(parts[1], sizeof parts[1], "segmented %s",
				 with("segmented", plans[k].segments));
			parts_text(text, sizeof text, parts[0], parts[1], ATTUNE_STREAMS);
			struct store_cell c =
			    cell_like(world_batch(2), "plan", "plan", text, plans[k].us);
			c.gpu = g->gpu;
			c.pass = plans[k].pass;
			assert_true(data_add(d[own], &c));
		}
		assert_true(data_finish(d[own]));
	}
	struct data *both = data_transfer(d[1], d[0]);
	assert_int_equal(both->num_plans, 2);
	for (int i = 0; i < both->num_plans; i++) {
		const struct cell *c = &both->plan[i].cell;
		assert_int_equal(both->plan[i].pass, PASS_A);
		if (c->translated)
			assert_true(c->us > 60 && c->us < 120);
		else
			assert_true(c->us == 99);
		found |= 1 << c->translated;
	}
	assert_int_equal(found, 3);
	data_free(both);
	data_free(d[0]);
	data_free(d[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(plans_are_translated) };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("transfer_plans", tests, NULL, NULL);
}
