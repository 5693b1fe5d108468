/* SPDX-License-Identifier: Apache-2.0 */
/* t_nvidia_compile.c - compiles the kernels for an H200 by NVRTC; no GPU is needed. The default
 * choice of each kernel compiles, without local memory where a heuristic may name it, and
 * without a wait after each product of a warpgroup. Kernels for this chip alone are compiled for
 * two head sizes, packed and not, or with ATTUNE_SIMT=full for all that they take. The harness's
 * own device code compiles, too. Each kernel takes as many bytes of arguments as a launch
 * passes. Skips itself without NVRTC. */
#include "harness/compile/compile.h"
#include "harness/search/search.h"
#include "kernels/args_maps.h"
#include "kernels/args_more.h"
#include "kernels/gpu/helpers/page_lists.h"
#include "kernels/gpu/helpers/sinks_args.h"
#include "kernels/gpu/helpers/write_args.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tests/support/all_rows.h"
#include <elf.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char arch[] = "sm_90";
enum { MOST_KERNELS = 40, FOR_ALL = 128 /* the head size that each kernel takes */ };

static attune_shape shape_for(const struct kernel *k)
{
	attune_shape s = { .size = sizeof(attune_shape),
			   .num_query_heads = 32,
			   .num_kv_heads = 8,
			   .head_size = 128,
			   .page_size = 16,
			   .dtype = ATTUNE_BF16,
			   .kv_dtype = ATTUNE_BF16,
			   .causal = 1,
			   .has_new_kv = 1 };
	if (k->space->kv_layout != KV_LAYOUT_ANY)
		s.kv_layout = (enum attune_kv_layout)k->space->kv_layout;
	return s;
}

/* Warps that copy next to warpgroups may spill a few words. */
enum { FEW_BYTES = 32 };

static int is_sound(const struct built *b)
{
	const int few = b->kernel->space->is_arch_specific ? FEW_BYTES : 0;
	const int may_spill = !b->kernel->selectable || b->binary.spill_bytes <= few;
	const char *log = b->binary.log ? b->binary.log : "";
	if (b->status == BUILT && b->binary.registers > 0 && !strstr(log, "serialized") &&
	    (may_spill || !b->binary.spill_bytes))
		return 1;
	print_error("%s %s: %d registers, %d bytes of local memory; %s\n", b->kernel->name,
		    b->flags, b->binary.registers, b->binary.spill_bytes, log);
	return 0;
}

/* ---- bytes of the parameter ------------------------------------------------------------ */

struct placed {
	int offset, bytes;
};

/* In a section ".nv.info.<kernel>" of the cubin, which is a list of
 * { form, attribute, bytes or a short value }: the first parameter. */
static struct placed param_in_section(const unsigned char *at, const unsigned char *end)
{
	enum { FORM_BYTES = 4, PARAMETER = 0x17, PARAMETER_BYTES = 12 };
	struct placed found = { -1, -1 };
	while (end - at >= 4) {
		const int value = at[2] | at[3] << 8;
		const unsigned char *is =
		    at + 4; /* index, ordinal, offset, flags and bytes << 18 */
		if (at[0] == FORM_BYTES && at[1] == PARAMETER && value == PARAMETER_BYTES &&
		    !(is[4] | is[5] << 8))
			found = (struct placed){ is[6] | is[7] << 8, is[10] >> 2 | is[11] << 6 };
		at = is + (at[0] == FORM_BYTES ? value : 0);
	}
	return found;
}

static struct placed param_in_cubin(const struct binary *b)
{
	char name[ENTRY_TEXT + 16];
	const unsigned char *file = b->blob.data;
	Elf64_Ehdr head;
	snprintf(name, sizeof name, ".nv.info.%s", b->blob.entry);
	assert_true(b->blob.size > sizeof head);
	memcpy(&head, file, sizeof head);
	assert_memory_equal(head.e_ident, ELFMAG, SELFMAG);
	assert_true(head.e_shoff + head.e_shnum * sizeof(Elf64_Shdr) <= b->blob.size);
	const Elf64_Shdr *section = (const Elf64_Shdr *)(const void *)(file + head.e_shoff);
	const char *names = (const char *)file + section[head.e_shstrndx].sh_offset;
	for (int i = 0; i < head.e_shnum; i++)
		if (!strcmp(names + section[i].sh_name, name))
			return param_in_section(file + section[i].sh_offset,
						file + section[i].sh_offset + section[i].sh_size);
	return (struct placed){ -1, -1 };
}

/* As kernels/launch/run.c launches it, or the call that it is for. */
static size_t bytes_given(const struct kernel *k)
{
	static const struct {
		const char *name;
		size_t bytes;
	} calls[] = { { "page_table", sizeof(struct attune_page_lists_args) },
		      { "sink_rows", sizeof(struct attune_sink_rows_args) },
		      { "widen_sinks", sizeof(struct attune_widen_sinks_args) },
		      { "write_kv", sizeof(struct attune_write) } };
	for (size_t i = 0; i < COUNT(calls); i++)
		if (!strcmp(k->name, calls[i].name))
			return calls[i].bytes;
	return k->space->takes_maps   ? sizeof(struct attune_mapped)
	       : k->space->takes_more ? sizeof(struct attune_call)
				      : sizeof(struct attune_args);
}

static void set_axis(struct config *c, const struct space *s, const char *axis, int value)
{
	for (int i = 0; i < s->num_axes; i++)
		if (!strcmp(s->axis[i].name, axis))
			c->v[i] = value;
}

static void compiles_for(const struct kernel *k, int head_size, int packed)
{
	attune_shape s = shape_for(k);
	struct binaries all = { .arch = arch };
	struct choice c = { .kernel = k };
	struct config wanted;
	struct device_info d;
	s.head_size = head_size;
	gpu_describe(&d, gpu_model("h200"));
	config_default(&wanted, k->space);
	set_axis(&wanted, k->space, "PACKED", packed);
	if (!nearest_legal(&c.config, k, &wanted, &s, NULL, &d)) {
		if (head_size == FOR_ALL)
			fail_msg("no choice of %s is legal", k->name);
		return;
	}
	assert_int_equal(config_value(&c.config, k->space, "PACKED", packed), packed);
	assert_int_equal(binaries_add(&all, &c, &s), 0);
	assert_true(binaries_compile(&all));
	const int sound = is_sound(all.v);
	const struct placed p = sound ? param_in_cubin(&all.v->binary) : (struct placed){ -1, -1 };
	binaries_free(&all);
	assert_true(sound);
	assert_int_equal(p.bytes, bytes_given(k));
	assert_true(!p.offset || k->space->takes_maps);
}

static void the_default_compiles(void **state)
{
	static const int head_sizes[] = { FOR_ALL, 256, 64, 96, 192 };
	const struct kernel *k = *state;
	const int is_for_it = k->space->is_arch_specific;
	const size_t sizes = all_rows_asked() ? COUNT(head_sizes) : 2;
	struct config c;
	config_default(&c, k->space);
	const int packs = is_for_it && config_value(&c, k->space, "PACKED", -1) >= 0;
	for (size_t i = 0; i < (is_for_it ? sizes : 1); i++)
		for (int packed = 0; packed <= packs; packed++)
			compiles_for(k, head_sizes[i], packed);
}

static void the_harness_compiles(void **state)
{
	static const char *const codes[][2] = {
		{ "check/fill.cu", "" },
		{ "ceilings/ceilings.cu", "-DROOF=0" },
		{ "ceilings/ceilings.cu", "-DROOF=1" },
		{ "../kernels/gpu/ceilings/launch.cu", "-DEARLY=0" },
		{ "../kernels/gpu/ceilings/launch.cu", "-DEARLY=1" }
	};
	(void)state;
	for (size_t i = 0; i < COUNT(codes); i++) {
		char path[PATH_MAX];
		struct binary b;
		snprintf(path, sizeof path, "%s/../harness/%s", source_root(), codes[i][0]);
		if (jit_compile_source(&b, path, codes[i][1], arch))
			fail_msg("%s %s: %s", codes[i][0], codes[i][1], b.log);
		assert_int_equal(b.spill_bytes, 0);
		jit_free(&b);
	}
}

int main(void)
{
	static struct CMUnitTest tests[MOST_KERNELS];
	size_t n = 0;
	if (!strcmp(jit_version(BACKEND_GPU, arch), "none")) {
		printf("1..0 # SKIP no NVRTC is here\n");
		return 0;
	}
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == BACKEND_GPU) {
			assert_true(n < COUNT(tests) - 1);
			tests[n++] = (struct CMUnitTest){ k->name, the_default_compiles, NULL, NULL,
							  (void *)(uintptr_t)k };
		}
	tests[n++] = (struct CMUnitTest){ "the harness", the_harness_compiles, NULL, NULL, NULL };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("nvidia compile", tests, n, NULL, NULL);
}
