/* SPDX-License-Identifier: Apache-2.0 */
/* corner_rows.h - rows that compile kernels at run time and run them over all corner batches and
 * phases, through the gate that a sweep uses. Include after gpu_rows.h. */
#ifndef TESTS_SUPPORT_CORNER_ROWS_H
#define TESTS_SUPPORT_CORNER_ROWS_H

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	struct binary b;
	enum attune_status status;
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log ? b.log : "no compiler");
	status = dev.ops->load(&dev, code, &b.blob);
	jit_free(&b);
	return status;
}

static void passes_the_corners(void **state)
{
	const struct row *r = *state;
	struct loaded l;
	struct verdict v;
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	for (const char *const *text = corner_batches; *text; text++) {
		run_phases(&v, r, &l, *text, ~0u);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s: %s", *text, outcome_name(v.outcome), v.text);
	}
	unload_choice(&l);
}

#endif
