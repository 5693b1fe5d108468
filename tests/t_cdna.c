/* t_cdna.c - what a compiler made of the GPU's kernels for gfx942, executed instruction by
 * instruction (tests/cdna/cdna.h), against the definition. Skips itself without a compiler or a
 * disassembler. Arguments: only these kernels. */
#include "../harness/harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "cdna/cdna_device.h"
#include "gpu_rows.h"
#include "simt/simt_device.h"

static const struct {
	int units;
	unsigned seed;
	const char *batch;
} runs[] = {
	{ 4, 0, "q1s1_q0s100_q1s40_q3s9" },
	{ 132, 1, "q1s33_q18_q1s70" },
	{ 7, 2, "q2s2_q4s65_q1s131" },
};

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	return cdna_load_kernel(code, k, flags);
}

static void passes(void **state)
{
	const struct row *r = *state;
	struct loaded l;
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	for (size_t i = 0; i < COUNT(runs); i++) {
		struct verdict v;
		simt_set(&dev, runs[i].units, runs[i].seed);
		run_phases(&v, r, &l, runs[i].batch, ~0u);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s, seed %u: %s: %s", runs[i].batch, runs[i].seed,
				 outcome_name(v.outcome),
				 v.outcome == OUTCOME_CRASH ? attune_last_error() : v.text);
	}
	unload_choice(&l);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[MAX_TESTS];
	const char *why_not = cdna_why_not();
	if (why_not) {
		printf("1..0 # SKIP %s\n", why_not);
		return 0;
	}
	if (simt_open(&dev, 4, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	simt_pose(&dev, SIMT_MI300X);
	for (size_t i = 0; i < COUNT(shapes); i++)
		shapes[i].s.has_new_kv = 1;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == BACKEND_GPU && k->selectable &&
		    is_asked(k->name, argc - 1, argv + 1)) {
			const struct choice c = default_choice(k);
			add_point(&c, 2);
		}
	for (size_t i = 0; i < num_rows; i++)
		tests[i] = (struct CMUnitTest){ rows[i].name, passes, NULL, NULL, &rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("cdna", tests, num_rows, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
