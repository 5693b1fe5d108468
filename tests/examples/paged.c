/* SPDX-License-Identifier: Apache-2.0 */
/* paged.c - attention over a small paged KV cache on the CPU: a prefill batch, then a decode batch.
 * Each row of the output is compared with a naive computation. */
#include <attune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEQS = 3, QUERY_HEADS = 8, KV_HEADS = 2, HEAD = 64 };
enum { PAGE = 16, TABLE = 8, PAGES = SEQS * TABLE, TOKENS = 64 };

static float k_cache[PAGES][PAGE][KV_HEADS][HEAD], v_cache[PAGES][PAGE][KV_HEADS][HEAD];
static float q[TOKENS][QUERY_HEADS][HEAD], out[TOKENS][QUERY_HEADS][HEAD];
static int32_t block_table[SEQS][TABLE];

static void check(enum attune_status status)
{
	if (status == ATTUNE_OK)
		return;
	fprintf(stderr, "%s: %s\n", attune_status_text(status), attune_last_error());
	exit(1);
}

static void fill(float *v, size_t n) /* with numbers from -1 to 1 */
{
	static unsigned seed = 1;
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		v[i] = (float)(seed >> 8) / 8388608 - 1;
	}
}

/* The largest error in a row of out: the token sees keys 0 .. keys - 1 of the sequence. */
static double row_error(int seq, int token, int head, int keys)
{
	const int kv_head = head / (QUERY_HEADS / KV_HEADS);
	double want[HEAD] = { 0 }, sum = 0, error = 0;
	for (int key = 0; key < keys; key++) {
		const int page = block_table[seq][key / PAGE], slot = key % PAGE;
		double dot = 0;
		for (int d = 0; d < HEAD; d++)
			dot += q[token][head][d] * k_cache[page][slot][kv_head][d];
		const double weight = exp(dot / sqrt(HEAD));
		sum += weight;
		for (int d = 0; d < HEAD; d++)
			want[d] += weight * v_cache[page][slot][kv_head][d];
	}
	for (int d = 0; d < HEAD; d++)
		error = fmax(error, fabs(want[d] / sum - out[token][head][d]));
	return error;
}

/* A step. The cache already holds K and V of its tokens. */
static void step(const attune_op *op, void *workspace, size_t bytes, const char *name,
		 const int32_t *query_start, const int32_t *seq_lens)
{
	// clang-format off
	const attune_batch batch = { .size = sizeof batch, .num_seqs = SEQS,
		.query_start = query_start, .seq_lens = seq_lens };
	const attune_tensors tensors = { .size = sizeof tensors, /* strides in elements */
		.out = out, .out_token_stride = QUERY_HEADS * HEAD, .out_head_stride = HEAD,
		.q = q, .q_token_stride = QUERY_HEADS * HEAD, .q_head_stride = HEAD,
		.k_cache = k_cache, .k_page_stride = PAGE * KV_HEADS * HEAD,
		.k_slot_stride = KV_HEADS * HEAD, .k_head_stride = HEAD,
		.v_cache = v_cache, .v_page_stride = PAGE * KV_HEADS * HEAD,
		.v_slot_stride = KV_HEADS * HEAD, .v_head_stride = HEAD,
		.block_table = block_table[0], .block_table_stride = TABLE,
		.query_start = query_start, .seq_lens = seq_lens
	};
	// clang-format on
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	double error = 0;
	check(attune_plan_batch(op, &batch, &plan));
	check(attune_plan_text(op, &plan, text, sizeof text));
	check(attune_run(op, &plan, &tensors, workspace, bytes, NULL));
	for (int seq = 0; seq < SEQS; seq++)
		for (int t = query_start[seq]; t < query_start[seq + 1]; t++)
			for (int head = 0; head < QUERY_HEADS; head++) {
				const int keys = seq_lens[seq] - (query_start[seq + 1] - t - 1);
				error = fmax(error, row_error(seq, t, head, keys));
			}
	printf("%s of %d tokens: out[0] = %f, largest error %.1e: %s\n    %s\n", name,
	       (int)query_start[SEQS], out[0][0][0], error, error < 1e-5 ? "right" : "WRONG", text);
	if (!(error < 1e-5))
		exit(1);
}

int main(void)
{
	static const int32_t prefill_start[] = { 0, 20, 29, 59 }, prefill_lens[] = { 20, 50, 100 };
	static const int32_t decode_start[] = { 0, 1, 2, 3 }, decode_lens[] = { 21, 51, 101 };
	// clang-format off
	const attune_shape shape = { .size = sizeof shape, .num_query_heads = QUERY_HEADS,
		.num_kv_heads = KV_HEADS, .head_size = HEAD, .page_size = PAGE, .causal = 1,
		.dtype = ATTUNE_F32, .kv_dtype = ATTUNE_F32 };
	// clang-format on
	attune_context *ctx;
	attune_op *op;
	size_t bytes;
	fill(&k_cache[0][0][0][0], sizeof k_cache / sizeof(float));
	fill(&v_cache[0][0][0][0], sizeof v_cache / sizeof(float));
	fill(&q[0][0][0], sizeof q / sizeof(float));
	for (int i = 0; i < PAGES; i++) /* a sequence's pages are not neighbours */
		block_table[i % SEQS][i / SEQS] = i;

	check(attune_open(&ctx, "cpu"));
	check(attune_prepare(ctx, &shape, &op));
	check(attune_max_workspace(op, SEQS, TOKENS, &bytes)); /* enough for every step below */
	void *workspace = malloc(bytes + 1);
	if (!workspace)
		return 1;
	printf("%s\n", attune_device_name(ctx));
	step(op, workspace, bytes, "prefill", prefill_start, prefill_lens);
	step(op, workspace, bytes, "decode", decode_start, decode_lens);
	free(workspace);
	attune_release(op);
	attune_close(ctx);
	return 0;
}
