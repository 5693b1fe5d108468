/* plugged.c - for t_plugin_leaf.sh: runs a decode batch, a prefill batch and one of both through the
 * library, with the plug-in of the file that is given, if any; prints each plan, and "right" where
 * the output equals plain arithmetic. */
#include <attune_plugin.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQS = 3, QUERY_HEADS = 4, KV_HEADS = 1, HEAD = 128, PAGE = 16, TABLE = 8, TOKENS = 64 };
static float k_cache[SEQS * TABLE][PAGE][HEAD], v_cache[SEQS * TABLE][PAGE][HEAD];
static float q[TOKENS][QUERY_HEADS][HEAD], out[TOKENS][QUERY_HEADS][HEAD];
static int32_t block_table[SEQS][TABLE];

static void check(enum attune_status status, const char *what)
{
	if (status) {
		fprintf(stderr, "%s: %s\n", what, attune_last_error());
		exit(1);
	}
}

static void fill(float *v, size_t n)
{
	static unsigned seed = 1;
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		v[i] = (float)(seed >> 8) / 8388608 - 1;
	}
}

static double row_error(int seq, int token, int head, int keys)
{
	double want[HEAD] = { 0 }, sum = 0, error = 0;
	for (int key = 0; key < keys; key++) {
		const int page = block_table[seq][key / PAGE], slot = key % PAGE;
		double dot = 0;
		for (int d = 0; d < HEAD; d++)
			dot += q[token][head][d] * k_cache[page][slot][d];
		const double weight = exp(dot / sqrt(HEAD));
		sum += weight;
		for (int d = 0; d < HEAD; d++)
			want[d] += weight * v_cache[page][slot][d];
	}
	for (int d = 0; d < HEAD; d++)
		error = fmax(error, fabs(want[d] / sum - out[token][head][d]));
	return error;
}

static void step(const attune_op *op, const char *name, const int32_t *start, const int32_t *lens)
{
	const attune_batch batch = { .size = sizeof(attune_batch),
				     .num_seqs = SEQS,
				     .query_start = start,
				     .seq_lens = lens };
	const attune_tensors t = { .size = sizeof(attune_tensors),
				   .out = out,
				   .q = q,
				   .k_cache = k_cache,
				   .v_cache = v_cache,
				   .block_table = block_table[0],
				   .query_start = start,
				   .seq_lens = lens,
				   .q_token_stride = QUERY_HEADS * HEAD,
				   .q_head_stride = HEAD,
				   .out_token_stride = QUERY_HEADS * HEAD,
				   .out_head_stride = HEAD,
				   .k_page_stride = PAGE * HEAD,
				   .k_slot_stride = HEAD,
				   .k_head_stride = HEAD,
				   .v_page_stride = PAGE * HEAD,
				   .v_slot_stride = HEAD,
				   .v_head_stride = HEAD,
				   .block_table_stride = TABLE };
	attune_plan plan = { .size = sizeof plan };
	char text[600];
	double error = 0;
	check(attune_plan_batch(op, &batch, &plan), "attune_plan_batch");
	check(attune_plan_plugins(op, &batch, &t, 0, NULL, &plan), "attune_plan_plugins");
	check(attune_plan_text(op, &plan, text, sizeof text), "attune_plan_text");
	void *workspace = aligned_alloc(64, (plan.workspace + 64) / 64 * 64);
	memset(out, 0, sizeof out);
	check(attune_run(op, &plan, &t, workspace, plan.workspace, NULL), "attune_run");
	attune_free_plan(op, &plan);
	free(workspace);
	for (int seq = 0; seq < SEQS; seq++)
		for (int i = start[seq]; i < start[seq + 1]; i++)
			for (int head = 0; head < QUERY_HEADS; head++)
				error =
				    fmax(error, row_error(seq, i, head,
							  lens[seq] - (start[seq + 1] - i - 1)));
	printf("%s: %s: %s\n", name, error < 1e-5 ? "right" : "WRONG", text);
}

static void load(const char *file)
{
	void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	void *symbol = object ? dlsym(object, "attune_plugins") : NULL;
	const attune_plugin *const *(*list)(void);
	if (!symbol) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	memcpy(&list, &symbol, sizeof list);
	check(attune_register_plugin(list()[0]), "attune_register_plugin");
}

int main(int argc, char **argv)
{
	static const int32_t decode_start[] = { 0, 1, 2, 3 }, decode_lens[] = { 21, 51, 101 };
	static const int32_t prefill_start[] = { 0, 20, 29, 59 }, prefill_lens[] = { 20, 50, 100 };
	static const int32_t mixed_start[] = { 0, 20, 21, 22 };
	const attune_shape shape = { .size = sizeof(attune_shape),
				     .num_query_heads = QUERY_HEADS,
				     .num_kv_heads = KV_HEADS,
				     .head_size = HEAD,
				     .page_size = PAGE,
				     .causal = 1,
				     .dtype = ATTUNE_F32,
				     .kv_dtype = ATTUNE_F32 };
	attune_context *ctx;
	attune_op *op;
	char unused[600];
	fill(&k_cache[0][0][0], sizeof k_cache / sizeof(float));
	fill(&v_cache[0][0][0], sizeof v_cache / sizeof(float));
	fill(&q[0][0][0], sizeof q / sizeof(float));
	for (int i = 0; i < SEQS * TABLE; i++)
		block_table[i % SEQS][i / SEQS] = i;
	if (argc > 1)
		load(argv[1]);
	check(attune_open(&ctx, "cpu"), "attune_open");
	check(attune_prepare(ctx, &shape, &op), "attune_prepare");
	step(op, "decode", decode_start, decode_lens);
	step(op, "prefill", prefill_start, prefill_lens);
	step(op, "mixed", mixed_start, prefill_lens);
	check(attune_unused_choices(op, unused, sizeof unused), "attune_unused_choices");
	printf("unused: %s\n", unused);
	attune_release(op);
	attune_close(ctx);
	return 0;
}
