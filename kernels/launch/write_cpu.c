/* SPDX-License-Identifier: Apache-2.0 */
/* write_cpu.c - implements write.h: copies rows, some tokens a cell. */
#include "write.h"
#include "kernels/gpu/helpers/write_args.h"
#include <string.h>

/* A cell copies about so many bytes: less is done before another thread has begun. */
enum { CELL_BYTES = 128 << 10 };

struct writing {
	const struct attune_write *w;
	size_t bytes;  /* of an element */
	size_t tokens; /* of a cell */
};

/* The sequence of a token; -1: it is behind all queries. */
static int seq_of(const struct attune_args *a, int token)
{
	int seq = 0, end = a->num_seqs;
	if (end < 1 || token >= a->query_start[end])
		return -1;
	while (end - seq > 1) {
		const int middle = seq + (end - seq) / 2;
		if (a->query_start[middle] <= token)
			seq = middle;
		else
			end = middle;
	}
	return seq;
}

/* page * page_size + slot; negative: the token is not written. */
static long long slot_of(const struct attune_write *w, int token)
{
	const struct attune_args *a = &w->call.args;
	if (w->slots)
		return w->slots[token];
	const int seq = seq_of(a, token);
	const int at = seq < 0 ? -1 : a->seq_lens[seq] - a->query_start[seq + 1] + token;
	if (at < 0)
		return -1;
	const int *pages = a->block_table + (long long)seq * a->block_table_stride;
	return (long long)pages[at / a->page_size] * a->page_size + at % a->page_size;
}

/* Copies a token's heads. Strides in bytes. */
static void copy_heads(char *to, long long to_stride, const char *from, long long from_stride,
		       int heads, size_t bytes)
{
	if (to_stride == (long long)bytes && from_stride == (long long)bytes) {
		memcpy(to, from, bytes * (size_t)heads);
		return;
	}
	for (int head = 0; head < heads; head++)
		memcpy(to + head * to_stride, from + head * from_stride, bytes);
}

static void write_token(const struct writing *g, int token)
{
	const struct attune_args *a = &g->w->call.args;
	const long long slot = slot_of(g->w, token), bytes = (long long)g->bytes;
	if (slot < 0)
		return;
	const long long page = slot / a->page_size, at = slot % a->page_size;
	const size_t head = (size_t)g->w->head_size * g->bytes;
	char *k = (char *)(uintptr_t)a->k_cache, *v = (char *)(uintptr_t)a->v_cache;
	copy_heads(k + (page * a->k_page_stride + at * a->k_slot_stride) * bytes,
		   a->k_head_stride * bytes,
		   (const char *)a->k_new + token * a->k_new_token_stride * bytes,
		   a->k_new_head_stride * bytes, a->num_kv_heads, head);
	copy_heads(v + (page * a->v_page_stride + at * a->v_slot_stride) * bytes,
		   a->v_head_stride * bytes,
		   (const char *)a->v_new + token * a->v_new_token_stride * bytes,
		   a->v_new_head_stride * bytes, a->num_kv_heads, head);
}

static void write_cell(void *arg, size_t i)
{
	const struct writing *g = arg;
	const size_t n = (size_t)g->w->num_tokens, end = (i + 1) * g->tokens;
	for (size_t t = i * g->tokens; t < end && t < n; t++)
		write_token(g, (int)t);
}

enum attune_status write_on_cpu(struct device *dev, const struct attune_write *w, int bytes)
{
	const long long row = 2ll * w->call.args.num_kv_heads * w->head_size * bytes;
	struct writing g = { w, (size_t)bytes, row < CELL_BYTES ? (size_t)(CELL_BYTES / row) : 1 };
	return cpu_cells(dev, write_cell, &g, ((size_t)w->num_tokens + g.tokens - 1) / g.tokens);
}
