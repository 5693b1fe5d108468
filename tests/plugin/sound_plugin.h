/* SPDX-License-Identifier: Apache-2.0 */
/* sound_plugin.h - a plug-in that can be registered, and that remembers what refuses() was told. */
#ifndef TESTS_SOUND_PLUGIN_H
#define TESTS_SOUND_PLUGIN_H

#include "kernels/spec/device_info.h"
#include "harness/plugin/plugin.h"
#include "kernels/spec/kernel.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "never_runs.h"

__attribute__((unused)) static const attune_shape a_llama = { .size = sizeof(attune_shape),
							      .num_query_heads = 32,
							      .num_kv_heads = 8,
							      .head_size = 128,
							      .page_size = 16,
							      .causal = 1,
							      .dtype = ATTUNE_BF16,
							      .kv_dtype = ATTUNE_BF16 };

/* What refuses() was told last. */
static struct {
	int calls, value, has_part;
	attune_shape shape;
	attune_plugin_part part;
	attune_plugin_device device;
} told;

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *part,
			   const attune_plugin_device *device)
{
	told.calls++;
	told.value = values[0];
	told.has_part = part != NULL;
	told.shape = *s;
	told.device = *device;
	if (part)
		told.part = *part;
	return values[0] == 8 ? "not 8" : NULL;
}

static const int values[] = { 0, 8, 16 }, negatives[] = { -2, -1 };
static const attune_plugin_axis axes[] = {
	{ "SPLITS", "most splits of a sequence", values, 3, 16 },
	{ "DEPTH", NULL, negatives, 2, -1 },
};
static const attune_plugin sound = { .abi = ATTUNE_PLUGIN_ABI,
				     .name = "mine",
				     .version = "617264c1 2026-08-06",
				     .about = "one of mine",
				     .backend = "cpu",
				     .axes = axes,
				     .num_axes = 2,
				     .refuses = refuses,
				     .prepare = never_prepares,
				     .plan = never_plans,
				     .launch = never_launches,
				     .free_plan = frees_no_plan,
				     .free_op = frees_no_op };

#define LETTERS_31 "abcdefghijklmnopqrstuvwxyzabcde"
#define VERSION_48 "123456789012345678901234567890123456789012345678"
static const int wide_values[] = { -2147483647 };
/* An axis of 24 characters with its blank: 8 of them, and a name of 31, are the most. */
#define LONG_AXIS(letter)                                            \
	{                                                            \
		letter "AAAAAAAAAA", "", wide_values, 1, -2147483647 \
	}
#define SEVEN_LONG_AXES                                                                 \
	LONG_AXIS("A"), LONG_AXIS("B"), LONG_AXIS("C"), LONG_AXIS("D"), LONG_AXIS("E"), \
	    LONG_AXIS("F"), LONG_AXIS("G")

__attribute__((unused)) static int num_kernels(void)
{
	int n = 0;
	while (attune_kernels[n].name)
		n++;
	return n;
}

__attribute__((unused)) static void refuse(const char *label, const attune_plugin *p,
					   const char *line)
{
	const int before = num_kernels();
	if (plugin_register(p) != ATTUNE_INVALID)
		fail_msg("%s: it is not refused", label);
	if (!strstr(attune_last_error(), line) || strchr(attune_last_error(), '\n'))
		fail_msg("%s: \"%s\"", label, attune_last_error());
	assert_int_equal(num_kernels(), before);
}

#endif
