/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c - settles the batches of a warm-up on the CPU and keeps the result in a file; the next start
 * reads the file and times nothing. Several ranks do the same: one settles and writes the file, the
 * others read it, and all compare digests before they capture graphs.
 *
 *   settle FILE */
#include <attune_settle.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	LAYERS = 2,
	MOST_SEQS = 8,
	QUERY_HEADS = 8,
	KV_HEADS = 2,
	HEAD = 64,
	PAGE = 16,
	PAGES = 256
};
enum { MOST_TOKENS = 128, MOST_KEYS = 500, MOST_TEXT = 1 << 20 };

static float k_cache[LAYERS][PAGES][PAGE][KV_HEADS][HEAD],
    v_cache[LAYERS][PAGES][PAGE][KV_HEADS][HEAD];
static float q[MOST_TOKENS][QUERY_HEADS][HEAD], out[MOST_TOKENS][QUERY_HEADS][HEAD];
static char text[MOST_TEXT];

static void check(enum attune_status status)
{
	if (status == ATTUNE_OK)
		return;
	fprintf(stderr, "%s: %s\n", attune_status_text(status), attune_last_error());
	exit(1);
}

/* Settles a batch of n sequences with as many query tokens each, as a server's warm-up steps have. */
static double settle(const attune_op *op, int n, int query)
{
	// clang-format off
	int32_t starts[MOST_SEQS + 1] = { 0 }, lens[MOST_SEQS];
	const attune_batch batch = { .size = sizeof batch, .num_seqs = n,
		.query_start = starts, .seq_lens = lens };
	const attune_settle_how how = { .size = sizeof how, .num_layers = LAYERS, .num_pages = PAGES,
		.most_ms = 5000 }; /* a CPU has large caches to overwrite; on a GPU 0 does */
	attune_tensors layers[LAYERS];
	size_t bytes;
	double ms;
	for (int i = 0; i < LAYERS; i++) /* no block table: the call makes its own */
		layers[i] = (attune_tensors){ .size = sizeof *layers, /* strides in elements */
			.out = out, .out_token_stride = QUERY_HEADS * HEAD, .out_head_stride = HEAD,
			.q = q, .q_token_stride = QUERY_HEADS * HEAD, .q_head_stride = HEAD,
			.k_cache = k_cache[i], .k_page_stride = PAGE * KV_HEADS * HEAD,
			.k_slot_stride = KV_HEADS * HEAD, .k_head_stride = HEAD,
			.v_cache = v_cache[i], .v_page_stride = PAGE * KV_HEADS * HEAD,
			.v_slot_stride = KV_HEADS * HEAD, .v_head_stride = HEAD };
	// clang-format on
	for (int i = 0; i < n; i++) {
		starts[i + 1] = starts[i] + query;
		lens[i] = MOST_KEYS;
	}
	check(attune_settle_sizes(op, &batch, &how, &bytes));
	void *workspace = malloc(bytes);
	if (!workspace)
		exit(1);
	check(attune_settle(op, &batch, layers, &how, workspace, bytes, NULL, &ms));
	free(workspace);
	return ms;
}

static void warm_up(attune_context *ctx, const attune_op *op, const char *path)
{
	size_t size;
	double ms = 0;
	for (int n = 1; n <= MOST_SEQS; n *= 2)
		ms += settle(op, n, 1);
	ms += settle(op, 1, MOST_TOKENS);
	check(attune_settled_commit(ctx)); /* from here on plans may be others */
	check(attune_settled_text(ctx, text, sizeof text, &size));
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(text, 1, size, f) != size || fclose(f)) {
		perror(path);
		exit(1);
	}
	printf("settled in %.0f ms\n", ms);
}

/* What another start, or another rank, has settled. 0: there is none, or it does not count here. */
static int read_settled(attune_context *ctx, const char *path)
{
	FILE *f = fopen(path, "rb");
	int taken, dropped;
	if (!f)
		return 0;
	const size_t size = fread(text, 1, sizeof text, f);
	fclose(f);
	if (attune_settled_read(ctx, text, size, &taken, &dropped)) { /* such as another GPU */
		fprintf(stderr, "%s: %s\n", path, attune_last_error());
		return 0;
	}
	check(attune_settled_commit(ctx));
	printf("read %d cells; %d are of choices that are gone\n", taken, dropped);
	return 1;
}

int main(int argc, char **argv)
{
	// clang-format off
	const attune_shape shape = { .size = sizeof shape, .num_query_heads = QUERY_HEADS,
		.num_kv_heads = KV_HEADS, .head_size = HEAD, .page_size = PAGE, .causal = 1,
		.dtype = ATTUNE_F32, .kv_dtype = ATTUNE_F32 };
	// clang-format on
	attune_context *ctx;
	attune_op *op;
	if (argc != 2)
		return fputs("usage: settle FILE\n", stderr), 2;
	for (size_t i = 0; i < sizeof k_cache / sizeof(float); i++) /* not all zeros */
		(&k_cache[0][0][0][0][0])[i] = (float)(i % 101) / 50 - 1;
	check(attune_open(&ctx, "cpu"));
	check(attune_prepare(ctx, &shape, &op));
	if (!read_settled(ctx, argv[1]))
		warm_up(ctx, op, argv[1]);
	printf("digest %016llx\n", (unsigned long long)attune_settled_digest(ctx));
	/* attune_plan_batch and attune_run as ever, and graphs, which are captured now */
	attune_release(op);
	attune_close(ctx);
	return 0;
}
