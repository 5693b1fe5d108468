/* SPDX-License-Identifier: Apache-2.0 */
/* t_simt_mutants.c - kernels with one mistake each (mutant_rows.h), which the gate must notice
 * on the emulated GPU, with turns in order or in one of a few other orders. A row fails if its
 * text is no longer in the source: give it another text, or remove the row with the code. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "tests/support/all_rows.h"
#include <stdio.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "tests/support/gpu_rows.h"
#include "tests/simt/objects.h"
#include "tests/simt/simt_device.h"
#include "front_rows.h"
#include "mutant_rows.h"

enum { SEEDS = 4, UNITS = 7 };

static const struct mutant *now;

static void folder_of(char *path, size_t size, const struct mutant *m)
{
	snprintf(path, size, "mutant%d", (int)(m - mutants));
}

/* ---- the text ----------------------------------------------------------------------------- */

static void write_file(const char *path, const char *first, size_t n, const char *second,
		       const char *rest)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(first, 1, n, f) != n || fputs(second, f) < 0 || fputs(rest, f) < 0 ||
	    fclose(f))
		fail_msg("%s cannot be written", path);
}

static const struct mutant *copied;

/* Makes the same folder, or the file with the mistake if it is there. */
static int copy(const char *from, const struct stat *st, int type, struct FTW *ftw)
{
	const struct mutant *m = copied;
	const char *name = from + ftw->base;
	char folder[32], to[SIMT_PATH];
	(void)st;
	folder_of(folder, sizeof folder, m);
	snprintf(to, sizeof to, "%s/%s%s", simt_folder(), folder,
		 from + strlen(simt_folder()) + strlen("/gpu"));
	if (type == FTW_D) {
		mkdir(to, 0777);
		return 0;
	}
	char *text = source_text(from);
	assert_non_null(text);
	char *at = strcmp(name, m->file) ? NULL : strstr(text, m->text);
	if (!at && !strcmp(name, m->file))
		fail_msg("%s: has no more \"%s\"", name, m->text);
	if (at)
		write_file(to, text, (size_t)(at - text), m->instead, at + strlen(m->text));
	else
		write_file(to, text, strlen(text), "", "");
	free(text);
	return 0;
}

/* Copies all of gpu/, so that includes find the mistake. */
static void make_folder(const struct mutant *m)
{
	char path[SIMT_PATH];
	snprintf(path, sizeof path, "%s/gpu", simt_folder());
	copied = m;
	assert_int_equal(nftw(path, copy, 16, FTW_PHYS), 0);
}

/* ---- runs --------------------------------------------------------------------------------- */

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	char folder[32], source[100];
	folder_of(folder, sizeof folder, now);
	snprintf(source, sizeof source, "%s%s", folder, strchr(k->source, '/'));
	return simt_load(&dev, code, source, flags);
}

static void make_row(struct row *r, const struct mutant *m)
{
	char name[32];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(m->kernel, " "), m->kernel);
	*r = (struct row){ .choice = default_choice(kernel_find(BACKEND_GPU, name)) };
	const int is_e4m3 = !strncmp(m->shape, E4M3, strlen(E4M3));
	const char *shape = m->shape + (is_e4m3 ? strlen(E4M3) : 0);
	while (strncmp(shapes[r->shape].name, shape, strlen(shape)))
		assert_true(++r->shape < (int)COUNT(shapes));
	attune_shape *s = &shapes[r->shape].s;
	s->kv_dtype = is_e4m3 ? ATTUNE_E4M3 : s->dtype;
	s->has_new_kv = !is_e4m3;
	/* tickets, clusters and early launches, where there are any */
	for (int i = 0; i < r->choice.kernel->space->num_axes; i++) {
		const char *axis = r->choice.kernel->space->axis[i].name;
		if (!strcmp(axis, "TICKETS") || !strcmp(axis, "COMBINE") || !strcmp(axis, "EARLY"))
			r->choice.config.v[i] = 1;
	}
	choice_change(&r->choice, m->kernel + strlen(name));
}

static int is_noticed_by_the_gate(const struct mutant *m)
{
	struct row r;
	struct loaded l;
	struct verdict v = { .outcome = OUTCOME_OK };
	simt_pose(&dev, m->gpu);
	make_row(&r, m);
	load_choice(&l, &r.choice, &shapes[r.shape].s);
	front_shape = &shapes[r.shape].s;
	simt_say_front(&dev, m->gpu == SIMT_H200 ? what_is_pending : NULL);
	struct code *codes[1 + NUM_HELPERS] = { l.code };
	int n = 1;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (l.helper[h])
			codes[n++] = l.helper[h];
	assert_int_equal(simt_compile(codes, n), ATTUNE_OK);
	for (unsigned seed = 0; seed < SEEDS && v.outcome == OUTCOME_OK; seed++) {
		simt_set(&dev, UNITS, seed);
		run_phases(&v, &r, &l, m->batch, ~0u);
	}
	unload_choice(&l);
	return v.outcome != OUTCOME_OK;
}

static void is_noticed(void **state)
{
	now = *state;
	make_folder(now);
	if (!is_noticed_by_the_gate(now))
		fail_msg("%s: \"%s\" for \"%s\" goes unnoticed", now->file, now->instead,
			 now->text);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(mutants)];
	const size_t step = all_rows_asked() ? 1 : 2;
	size_t n = 0;
	if (simt_open(&dev, UNITS, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_give_up_after(&dev, 2); /* a mistake may make a loop endless */
	for (size_t i = 0; i < COUNT(mutants); i += step)
		tests[n++] = (struct CMUnitTest){ mutants[i].name, is_noticed, NULL, NULL,
						  (void *)(uintptr_t)&mutants[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("simt_mutants", tests, n, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
