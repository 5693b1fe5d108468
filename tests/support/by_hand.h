/* SPDX-License-Identifier: Apache-2.0 */
/* by_hand.h - data of a few cells with known times. Include after cmocka.h and synthetic.h. */
#ifndef TESTS_SUPPORT_BY_HAND_H
#define TESTS_SUPPORT_BY_HAND_H

/* us 0: it failed. */
static inline void add(struct data *d, const char *batch, const char *phase, const char *kernel,
		       const char *set, double us)
{
	struct store_cell c = cell_like(batch, phase, kernel, with(kernel, set), us);
	char both[2 * MAX_CHOICE_TEXT + 64];
	if (!strcmp(phase, "plan")) { /* both parts by the same kernel */
		snprintf(both, sizeof both, "prefill: %s %s | decode: %s %s", kernel, c.choice,
			 kernel, c.choice);
		c.kernel = "plan";
		c.choice = both;
	}
	if (us <= 0) {
		c.outcome = "resources";
		c.median_us = NAN;
	}
	assert_true(data_add(d, &c));
}

static inline int scenario_named(const struct data *d, const char *batch)
{
	for (int s = 0; s < d->n; s++)
		if (!strcmp(d->v[s].batch_text, batch))
			return s;
	fail_msg("no scenario %s", batch);
	return -1;
}

static inline int close_to(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

#endif
