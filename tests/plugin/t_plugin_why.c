/* t_plugin_why.c - which plug-in the rules name for a batch, and why it does not run there
 * (plan_plugins): the tool says it beside its times. */
#include "leaf_plugins.h"
#include "kernels/api/plugins.h"
#include "kernels/launch/op.h"

/* Prefills, then decodes. In `mixed` of cpu_step.h they take turns. */
static const int ordered[][2] = { { 40, 40 }, { 33, 100 }, { 1, 300 }, { 4, 64 } };

/* name and why are NULL where the rules name no plug-in. */
static const struct {
	const char *label, *row, *prefill, *decode, *mixed;
	const int (*batch)[2];
	int num_seqs;
	const char *name, *why; /* why: NULL: it runs */
} leaves[] = {
	{ "it runs", "good 1 UNROLL=4", "0", "0", "0", decodes, 3, "good", NULL },
	{ "ours", "good 1 UNROLL=4", "0", "ours", "0", decodes, 3, NULL, NULL },
	{ "not registered", "absent 1 UNROLL=4", "0", "0", "0", decodes, 3, "absent",
	  "no plug-in of this name is registered" },
	{ "it refuses the batch", "picky 1 UNROLL=4", "0", "0", "0", decodes, 3, "picky",
	  "every batch" },
	{ "it cannot plan", "planless 1 UNROLL=4", "0", "0", "0", decodes, 3, "planless",
	  "plug-in planless: plan: no luck today" },
	{ "no promise", "finite 1 UNROLL=4", "0", "0", "0", decodes, 3, "finite",
	  "it needs what the tensors do not have or the caller does not promise" },
	{ "both parts", "good 1 UNROLL=4", "0", "0", "parts", ordered, 4, "good", NULL },
	{ "one part", "good 1 UNROLL=4", "ours", "0", "parts", ordered, 4, "good", NULL },
	{ "no part", "good 1 UNROLL=4", "ours", "ours", "parts", ordered, 4, NULL, NULL },
	{ "one launch", "good 1 UNROLL=4", "ours", "ours", "0", ordered, 4, "good", NULL },
	{ "one launch, refused", "picky 1 UNROLL=4", "ours", "ours", "0", ordered, 4, "picky",
	  "every batch" },
	{ "parts that are not in order", "good 1 UNROLL=4", "ours", "0", "parts", mixed, 6, "good",
	  "a plug-in takes sequences that follow one another" },
};

static int is_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void it_tells_which_is_named_and_why_it_does_not_run(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(leaves); i++) {
		attune_context *ctx =
		    open_with(leaves[i].row, leaves[i].prefill, leaves[i].decode, leaves[i].mixed);
		attune_op *op = prepare(ctx);
		struct plugin_leaf leaf;
		attune_plan plan = { .size = sizeof plan };
		struct step s;
		step_make(&s, leaves[i].num_seqs, leaves[i].batch);
		if (attune_plan_batch(op, &s.batch, &plan) ||
		    plan_plugins(op, &s.batch, &s.t, 0, NULL, &plan, &leaf))
			fail_msg("%s", attune_last_error());
		if (!is_same(leaf.row ? leaf.row->name : NULL, leaves[i].name) ||
		    !is_same(leaf.why, leaves[i].why))
			fail_msg("%s: %s: %s", leaves[i].label, leaf.row ? leaf.row->name : "none",
				 leaf.why ? leaf.why : "runs");
		step_free(&s);
		attune_release(op);
		attune_close(ctx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_tells_which_is_named_and_why_it_does_not_run),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, register_all, NULL);
}
