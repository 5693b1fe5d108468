/* SPDX-License-Identifier: Apache-2.0 */
/* cells.h - cells of one scenario or a few, added one by one, and their costs in a matrix. */
#ifndef TESTS_TUNER_CELLS_H
#define TESTS_TUNER_CELLS_H

#include "tuner/policy/policy.h"
#include "tests/support/synthetic.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/heard.h"

#define QBLOCK(m) with("qblock", "BLOCK_M=" #m " TILE_SIZE=64")

static struct data *begin(void)
{
	struct data *d = data_new("h200", &h200_run);
	assert_non_null(d);
	return d;
}

static int32_t cost(const struct matrix *m, const struct data *d, int row, const char *kernel,
		    const char *choice)
{
	for (int c = 0; c < m->cols; c++) {
		char text[MAX_CHOICE_TEXT];
		const struct choice *at = &d->choice[m->choice[c]];
		config_text(text, sizeof text, &at->config, at->kernel->space);
		if (!strcmp(at->kernel->name, kernel) && !strcmp(text, choice))
			return m->cost[row * m->cols + c];
	}
	fail_msg("no column %s %s", kernel, choice);
	return 0;
}

/* ---- two passes ------------------------------------------------------------------------- */
static int choice_of(const struct data *d, const char *kernel, const char *text)
{
	for (int c = 0; c < d->num_choices; c++) {
		char words[MAX_CHOICE_TEXT];
		config_text(words, sizeof words, &d->choice[c].config, d->choice[c].kernel->space);
		if (!strcmp(d->choice[c].kernel->name, kernel) && !strcmp(words, text))
			return c;
	}
	fail_msg("no choice %s %s", kernel, text);
	return -1;
}

#endif
