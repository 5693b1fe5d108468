/* SPDX-License-Identifier: Apache-2.0 */
/* t_amd_compile.c - compiles the kernels for AMD's GPUs, none of which is needed: the default
 * choices compile, use no scratch memory, use the matrix units, and leave room for as many waves
 * as the table says. Skips itself without a compiler for gfx942. */
#include "harness/compile/compile.h"
#include "harness/search/search.h"
#include "kernels/gpu/ceilings/roofline.h"
#include "harness/ceilings/suite.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const gpus[] = { "mi250", "mi300", "mi350" };

/* At least so many matrix instructions, and waves on a SIMD, of the default choice: the one that a
 * sweep begins with. */
static const struct row {
	const char *kernel;
	int matrices, waves;
} rows[] = {
	{ "naive", 0, 8 },
	{ "qblock", 16, 3 },
	{ "segmented", 16, 3 },
	{ "qblock_static", 16, 2 },
	{ "segmented_static", 16, 2 },
	{ "prefix_prefill", 16, 2 },
	{ "decode2d", 16, 3 },
	{ "pod", 32, 2 },
	{ "classic_v1", 0, 2 },
	{ "classic_v2", 0, 2 },
	{ "reduce", 0, 8 },
	{ "schedule", 0, 8 },
};

static int here(const struct gpu_model *m)
{
	return strcmp(jit_version(BACKEND_GPU, m->arch), "none") != 0;
}

static attune_shape shape_for(const struct kernel *k, enum attune_dtype dtype)
{
	attune_shape s = { .size = sizeof(attune_shape), .num_query_heads = 32,
			   .num_kv_heads = 8,
			   .head_size = 128,
			   .page_size = 16,
			   .dtype = dtype,
			   .kv_dtype = dtype,
			   .causal = 1,
			   .has_new_kv = 1 };
	if (k->space->kv_layout != KV_LAYOUT_ANY)
		s.kv_layout = (enum attune_kv_layout)k->space->kv_layout;
	return s;
}

/* Instructions of the form VOP3P from operation 0x34 on, but for moves of AGPRs. */
static int count_matrices(const struct blob *code)
{
	int n = 0;
	for (size_t i = 0; i + 4 <= code->size; i += 4) {
		uint32_t word;
		memcpy(&word, (const char *)code->data + i, 4);
		const unsigned op = word >> 16 & 0x7f;
		n += word >> 23 == 0xd38 >> 3 && op >= 0x34 && op != 0x58 && op != 0x59;
	}
	return n;
}

static int fits(const struct row *r, const struct built *b, const struct gpu_model *m,
		const struct choice *c, const attune_shape *s, const struct device_info *d)
{
	static const int32_t query_start[] = { 0, 300, 301 }, seq_lens[] = { 3000, 2000 };
	const attune_batch batch = { sizeof(attune_batch), 2, query_start, seq_lens };
	struct part part;
	struct geometry g;
	struct resident resident;
	if (b->status == REFUSED_BY_COMPILER) {
		print_error("%s %s %s: %s\n", m->gpu, r->kernel, b->flags, b->binary.log);
		return 0;
	}
	assert_true(part_make(&part, PHASE_ALL, s, &batch, d));
	c->kernel->space->geometry(&c->config, s, &part, d, &g);
	gpu_resident(&resident, arch_limits(m->arch), &b->binary, &g);
	const int matrices = count_matrices(&b->binary.blob);
	if (b->binary.registers >= 0 && !b->binary.spill_bytes && matrices >= r->matrices &&
	    resident.waves >= r->waves)
		return 1;
	print_error("%s %s %s: %d registers, %d bytes of scratch memory, %d matrix instructions "
		    "(%d), %d waves a SIMD (%d)\n",
		    m->gpu, r->kernel, b->flags, b->binary.registers, b->binary.spill_bytes,
		    matrices, r->matrices, resident.waves, r->waves);
	return 0;
}

static void defaults_fit(void **state)
{
	const struct gpu_model *m = gpu_model(*state);
	struct binaries all = { .arch = m->arch };
	struct device_info d;
	struct choice choice[COUNT(rows)];
	struct config wanted;
	int at[COUNT(rows)][2], bad = 0;
	gpu_describe(&d, m);
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int f16 = 0; f16 < 2; f16++) {
			const struct kernel *k = kernel_find(BACKEND_GPU, rows[i].kernel);
			const attune_shape s = shape_for(k, f16 ? ATTUNE_F16 : ATTUNE_BF16);
			choice[i].kernel = k;
			config_default(&wanted, k->space);
			if (!nearest_legal(&choice[i].config, k, &wanted, &s, NULL, &d))
				fail_msg("%s: no choice of %s is legal", m->gpu, k->name);
			at[i][f16] = binaries_add(&all, &choice[i], &s);
			assert_true(at[i][f16] >= 0);
		}
	assert_true(binaries_compile(&all));
	for (size_t i = 0; i < COUNT(rows); i++)
		for (int f16 = 0; f16 < 2; f16++) {
			const attune_shape s =
			    shape_for(choice[i].kernel, f16 ? ATTUNE_F16 : ATTUNE_BF16);
			bad += !fits(&rows[i], &all.v[at[i][f16]], m, &choice[i], &s, &d);
		}
	binaries_free(&all);
	assert_int_equal(bad, 0);
}

/* ---- the harness's own device code -------------------------------------------------------- */

static void the_harness_compiles(void **state)
{
	static const char *const codes[][2] = { { "check/fill.cu", "" },
						{ "ceilings/ceilings.cu", "-DROOF=0" },
						{ "ceilings/ceilings.cu", "-DROOF=1" },
						{ "../kernels/gpu/ceilings/launch.cu", "-DEARLY=0" } };
	const struct gpu_model *m = gpu_model(*state);
	for (size_t i = 0; i < COUNT(codes); i++) {
		char path[PATH_MAX];
		struct binary b;
		snprintf(path, sizeof path, "%s/../harness/%s", source_root(), codes[i][0]);
		if (jit_compile_source(&b, path, codes[i][1], m->arch))
			fail_msg("%s: %s %s: %s", m->gpu, codes[i][0], codes[i][1], b.log);
		assert_int_equal(b.spill_bytes, 0);
		jit_free(&b);
	}
}

/* Registers hold all loads in flight. */
static void the_roofline_compiles(void **state)
{
	const struct gpu_model *m = gpu_model(*state);
	struct device_info d;
	struct read_pattern a;
	gpu_describe(&d, m);
	for (int i = 0; pattern_nth(&a, &d, i); i++) {
		char path[PATH_MAX], flags[128];
		struct binary b;
		snprintf(path, sizeof path, "%s/gpu/ceilings/roofline.cu", source_root());
		pattern_flags(flags, sizeof flags, &a);
		if (jit_compile_source(&b, path, flags, m->arch))
			fail_msg("%s: %s: %s", m->gpu, flags, b.log);
		assert_int_equal(b.spill_bytes, 0);
		assert_true(b.registers >= a.stages * ROOFLINE_ITEM / 4 / 64);
		jit_free(&b);
	}
}

/* ---- what the compiler says of occupancy -------------------------------------------------- */

/* The last registers that it takes are named in the flags. */
static const char source[] =
    "extern \"C\" __attribute__((global, amdgpu_flat_work_group_size(256, 256))) void\n"
    "ENTRY(float *p)\n"
    "{\n"
    "	static __attribute__((shared)) float s[LDS];\n"
    "	const int t = __builtin_amdgcn_workitem_id_x();\n"
    "	s[t % LDS] = p[t];\n"
    "	__builtin_amdgcn_s_barrier();\n"
    "	asm volatile(\"\" ::: LAST);\n"
    "	p[t] = s[(t + 1) % LDS];\n"
    "}\n";

static int said(const char *log, const char *what)
{
	const char *at = strstr(log, what);
	if (!at)
		fail_msg("the compiler does not say \"%s\": %s", what, log);
	return atoi(at + strlen(what));
}

static void occupancy_is_the_compilers(void **state)
{
	static const struct {
		const char *last;
		int lds;
	} cases[] = {
		{ "\"v8\"", 1 },          { "\"v63\"", 1 },
		{ "\"v64\"", 1 },         { "\"v71\"", 1 },
		{ "\"v72\"", 1 },         { "\"v79\"", 1 },
		{ "\"v80\"", 1 },         { "\"v95\"", 1 },
		{ "\"v96\"", 1 },         { "\"v127\"", 1 },
		{ "\"v128\"", 1 },        { "\"v167\"", 1 },
		{ "\"v168\"", 1 },        { "\"v255\"", 1 },
		{ "\"v90\",\"a31\"", 1 }, { "\"v100\",\"a200\"", 1 },
		{ "\"s70\"", 1 },         { "\"s90\"", 1 },
		{ "\"s101\"", 1 },        { "\"v8\"", 2100 },
		{ "\"v8\"", 2600 },       { "\"v8\"", 3500 },
		{ "\"v8\"", 6000 },       { "\"v8\"", 9000 },
		{ "\"v8\"", 16000 },      { "\"v70\"", 5000 },
		{ "\"v200\"", 3500 },
	};
	const struct gpu_model *m = gpu_model(*state);
	const struct geometry g = { .threads = 256 };
	char path[] = "/tmp/t_amd.XXXXXX.cu";
	const int fd = mkstemps(path, 3);
	assert_true(fd >= 0 && write(fd, source, sizeof source - 1) == sizeof source - 1);
	close(fd);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct resident r;
		struct binary b;
		char flags[200];
		snprintf(flags, sizeof flags,
			 "-DLAST=%s -DLDS=%d -Rpass-analysis=kernel-resource-usage", cases[i].last,
			 cases[i].lds);
		assert_int_equal(jit_compile_source(&b, path, flags, m->arch), 0);
		gpu_resident(&r, arch_limits(m->arch), &b, &g);
		const int want = said(b.log, "Occupancy [waves/SIMD]: ");
		if (r.waves != want || b.agprs != said(b.log, " AGPRs: ") ||
		    b.sgprs != said(b.log, "SGPRs: ") ||
		    b.spill_bytes != said(b.log, "ScratchSize [bytes/lane]: ") ||
		    b.smem_static != said(b.log, "LDS Size [bytes/block]: "))
			fail_msg("%s %s: %d waves, %d registers, %d AGPRs, %d SGPRs, %d bytes of "
				 "LDS, %d of scratch; but: %s",
				 m->gpu, flags, r.waves, b.registers, b.agprs, b.sgprs,
				 b.smem_static, b.spill_bytes, b.log);
		jit_free(&b);
	}
	unlink(path);
}

int main(void)
{
	static const struct {
		const char *name, *compiler; /* expected */
		void (*run)(void **);
	} kinds[] = {
		{ "defaults", "", defaults_fit },
		{ "the harness", "", the_harness_compiles },
		{ "the roofline", "", the_roofline_compiles },
		{ "occupancy", "clang 22",
		  occupancy_is_the_compilers }, /* others may count otherwise */
	};
	static struct CMUnitTest tests[COUNT(gpus) * COUNT(kinds)];
	static char name[COUNT(tests)][40];
	size_t n = 0;
	if (!here(gpu_model("mi300"))) {
		printf("1..0 # SKIP no compiler for gfx942: clang-22 and lld-22 would do\n");
		return 0;
	}
	for (size_t i = 0; i < COUNT(gpus) * COUNT(kinds); i++) {
		const char *gpu = gpus[i / COUNT(kinds)];
		const size_t k = i % COUNT(kinds);
		const char *compiler = jit_version(BACKEND_GPU, gpu_model(gpu)->arch);
		if (!here(gpu_model(gpu)) ||
		    strncmp(compiler, kinds[k].compiler, strlen(kinds[k].compiler)))
			continue;
		snprintf(name[n], sizeof name[n], "%s: %s", gpu, kinds[k].name);
		tests[n] = (struct CMUnitTest){ name[n], kinds[k].run, NULL, NULL,
						(void *)(uintptr_t)gpu };
		n++;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("amd compile", tests, n, NULL, NULL);
}
