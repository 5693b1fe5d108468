/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_workload.h - workloads in memory of the CPU, where a test can read them. */
#ifndef TESTS_HARNESS_CPU_WORKLOAD_H
#define TESTS_HARNESS_CPU_WORKLOAD_H

#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/check/workload.h"
#include "kernels/launch/run.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct device cpu;

static int set_up(void **state)
{
	(void)state;
	return device_open(&cpu, "cpu");
}

static int tear_down(void **state)
{
	(void)state;
	device_close(&cpu);
	return 0;
}

static const attune_shape plain = { .size = sizeof(attune_shape),
				    .num_query_heads = 4,
				    .num_kv_heads = 2,
				    .head_size = 16,
				    .page_size = 8,
				    .causal = 1,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16 };

static void scenario_make(struct scenario *s, const attune_shape *shape, const char *text)
{
	char error[120];
	*s = (struct scenario){ .shape = *shape, .seed = 5 };
	s->batch = batch_parse(text, error, sizeof error);
	assert_non_null(s->batch);
}

static void make(struct workload *w, struct pool **pool, const struct scenario *s,
		 enum workload_kind kind, size_t cold_bytes)
{
	if (workload_make(w, &cpu, pool, s, kind, cold_bytes))
		fail_msg("%s", attune_last_error());
}

#endif
