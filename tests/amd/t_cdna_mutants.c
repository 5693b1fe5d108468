/* SPDX-License-Identifier: Apache-2.0 */
/* t_cdna_mutants.c - mistakes that t_cdna must notice: a change in compiled code, or an
 * instruction that is executed as another one. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/cdna/cdna.h"
#include "tests/cdna/cdna_device.h"
#include "tests/support/gpu_rows.h"
#include "tests/simt/simt_device.h"

enum { SEEDS = 4 };

// clang-format off
static const struct mutant {
	const char *name;
	struct cdna_mutant m;
	const char *kernel, *batch;
} mutants[] = {
	{ "none", { "v_no_such", 0, CDNA_DROP, NULL, 0 }, "naive", "q1s33" },
	{ "a matrix product is left out", { "v_mfma_f32_16x16x16_bf16", 1, CDNA_DROP, NULL, 0 }, "qblock", "q17s3" },
	{ "matrices change places", { "v_mfma_f32_16x16x16_bf16", 0, CDNA_SWAP, NULL, 0 }, "qblock", "q17s3" },
	{ "barriers are left out", { "s_barrier", 0, CDNA_DROP, NULL, 0 }, "naive", "q1s133" },
	{ "barriers are left out, CLASSIC", { "s_barrier", 0, CDNA_DROP, NULL, 0 }, "classic_v1", "q1s300" },
	{ "exp2 is left out", { "v_exp_f32", 0, CDNA_RENAME, "v_mov_b32", 0 }, "naive", "q1s33" },
	{ "masks are not narrowed", { "s_and_saveexec_b64", 0, CDNA_RENAME, "s_or_saveexec_b64", 0 }, "naive", "q1s33" },
	{ "another lane is asked", { "ds_bpermute_b32", 0, CDNA_OFFSET, NULL, 4 }, "naive", "q1s33" },
	{ "another argument is read", { "s_load_dwordx2", 0, CDNA_OFFSET, NULL, 8 }, "naive", "q1s33" },
	{ "quotients are not fixed up", { "v_div_fixup_f32", 0, CDNA_RENAME, "v_max3_f32", 0 }, "naive", "q1s33" },
	{ "differences change sides", { "v_sub_f32", 0, CDNA_SWAP, NULL, 0 }, "naive", "q1s33" },
	{ "stores are 16 bytes off", { "global_store_dwordx4", 0, CDNA_OFFSET, NULL, 16 }, "qblock", "q17s3" },
	{ "a load is a page off", { "global_load_dwordx4", 1, CDNA_OFFSET, NULL, 4096 }, "qblock", "q17s3" },
	{ "bytes change places", { "v_perm_b32", 1, CDNA_SWAP, NULL, 0 }, "qblock", "q17s3" },
	{ "a write to LDS is 8 bytes off", { "ds_write_b64", 1, CDNA_OFFSET, NULL, 8 }, "qblock", "q17s3" },
};
// clang-format on

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	return cdna_load_kernel(code, dev.info.arch, k, flags);
}

/* On the first shape that is legal. */
static void make_row(struct row *r, const struct mutant *m)
{
	*r = (struct row){ .choice = default_choice(kernel_find(BACKEND_GPU, m->kernel)) };
	const struct choice *c = &r->choice;
	while (c->kernel->space->why_illegal(&c->config, &shapes[r->shape].s, NULL, &dev.info))
		assert_true(++r->shape < (int)COUNT(shapes));
}

static int passes(const struct mutant *m)
{
	struct row r;
	struct loaded l;
	struct verdict v = { .outcome = OUTCOME_OK };
	make_row(&r, m);
	cdna_mutate(&m->m);
	load_choice(&l, &r.choice, &shapes[r.shape].s);
	const int changed = cdna_mutations();
	cdna_mutate(NULL);
	if (!changed && m != mutants)
		fail_msg("%s has no %s any more", m->kernel, m->m.op);
	for (unsigned seed = 0; seed < SEEDS && v.outcome == OUTCOME_OK; seed++) {
		simt_set(&dev, 4, seed);
		run_phases(&v, &r, &l, m->batch, 1u << PHASE_ALL);
	}
	unload_choice(&l);
	return v.outcome == OUTCOME_OK;
}

static void is_noticed(void **state)
{
	const struct mutant *m = *state;
	if (passes(m) != (m == mutants))
		fail_msg("%s: %s", m->kernel, m == mutants ? "does not pass" : "goes unnoticed");
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(mutants)];
	const char *why_not = cdna_why_not("gfx942");
	if (why_not) {
		printf("1..0 # SKIP %s\n", why_not);
		return 0;
	}
	if (simt_open(&dev, 4, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_pose(&dev, SIMT_MI300X);
	for (size_t i = 0; i < COUNT(mutants); i++)
		tests[i] = (struct CMUnitTest){ mutants[i].name, is_noticed, NULL, NULL,
						(void *)(uintptr_t)&mutants[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("cdna_mutants", tests, COUNT(tests), NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
