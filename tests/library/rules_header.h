/* SPDX-License-Identifier: Apache-2.0 */
/* rules_header.h - writes headers of few rules, for ATTUNE_HEURISTICS. */
#ifndef TESTS_LIBRARY_RULES_HEADER_H
#define TESTS_LIBRARY_RULES_HEADER_H

#include "kernels/select/header_text.h"
#include "kernels/spec/kernel.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { RULES_HEAD = 6000, RULES_TEXT = 20000, RULES_CHOICES = 16, RULES_GPU = 64 };

struct rules {
	const char *choice[RULES_CHOICES]; /* "segmented BLOCK_M=16 ..."; named c0, c1, ... */
	/* Rows of LISTS; NULL: an older header, which has neither these nor their function. */
	const char *lists;
	const char *segments;              /* rows of SEGMENTS; NULL: none */
	const char *mixed;                 /* the row of MIXED; NULL: none */
	/* What their only leaf returns; NULL: choice 0, serial, and no early tree. */
	const char *prefill, *decode, *overlap, *early;
};

static inline void rules_upper(char upper[RULES_GPU], const char *gpu)
{
	size_t at = 0;
	do
		upper[at] = (char)toupper((unsigned char)gpu[at]);
	while (gpu[at++]);
}

/* A header up to CHOICES, with this library's hashes of all kernels of such a device. */
static inline const char *rules_head(const char *gpu)
{
	static char text[RULES_HEAD];
	const enum backend backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	char upper[RULES_GPU];
	rules_upper(upper, gpu);
	int n = snprintf(text, sizeof text,
			 "#ifndef ATTUNE_%s_H\n#define ATTUNE_%s_H\n#include "
			 "\"attune_features.h\"\n#define ATTUNE_%s_GPU \"%s\"\n#define "
			 "ATTUNE_%s_ARCH \"sm_90\"\n#define ATTUNE_%s_KERNELS(KERNEL) ",
			 upper, upper, upper, gpu, upper, upper);
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == backend)
			n += snprintf(text + n, sizeof text - (size_t)n,
				      "\\\n\tKERNEL(%s, %s, 0x%016llxull) ",
				      backend == BACKEND_CPU ? "cpu" : "gpu", k->name,
				      kernel_hash(k));
	snprintf(text + n, sizeof text - (size_t)n,
		 "\\\n\tKERNEL(rules, features, 0x%016llxull)\n#define ATTUNE_%s_SHAPES(SHAPES) "
		 "SHAPES(\"128\", \"BF16 F16\")\n",
		 rules_hash(), upper);
	return text;
}

/* The whole header of these rules. */
static inline const char *rules_header(const char *gpu, const struct rules *rules)
{
	static char text[RULES_TEXT];
	const char *says[] = { rules->prefill ? rules->prefill : "0",
			       rules->decode ? rules->decode : "0",
			       rules->overlap ? rules->overlap : "serial", rules->early };
	char upper[RULES_GPU], answers[2][HEADER_CODE], code[HEADER_CODE];
	rules_upper(upper, gpu);
	int n = snprintf(text, sizeof text, "%s#define ATTUNE_%s_CHOICES(CHOICE)", rules_head(gpu),
			 upper);
	for (int i = 0; i < RULES_CHOICES && rules->choice[i]; i++) {
		const int kernel = (int)strcspn(rules->choice[i], " ");
		const char *tunables = rules->choice[i] + kernel;
		n += snprintf(text + n, sizeof text - (size_t)n,
			      " \\\n\tCHOICE(%d, c%d, %.*s, \"%s\")", i, i, kernel,
			      rules->choice[i], tunables + (*tunables == ' '));
	}
	header_enum(answers, gpu, upper);
	header_list_function(code, gpu, upper);
	n += snprintf(text + n, sizeof text - (size_t)n, "\n%s%s\n};\n", answers[0],
		      rules->lists ? answers[1] : "");
	if (rules->lists)
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "#define ATTUNE_%s_LISTS(LIST) %s\n%s", upper, rules->lists, code);
	n +=
	    snprintf(text + n, sizeof text - (size_t)n, "#define ATTUNE_%s_SEGMENTS(SEGMENTS) %s\n",
		     upper, rules->segments ? rules->segments : "");
	if (rules->mixed)
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "#define ATTUNE_%s_MIXED(MIXED) %s\n", upper, rules->mixed);
	for (int d = 0; d < 4 && says[d]; d++)
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "ATTUNE_SELECT int attune_%s_%s(const struct attune_features *f)\n{\n"
			      "\t(void)f;\n\treturn %s;\n}\n",
			      gpu,
			      (const char *const[]){ "prefill", "decode", "overlap", "early" }[d],
			      says[d]);
	snprintf(text + n, sizeof text - (size_t)n, "#endif\n");
	return text;
}

#endif
