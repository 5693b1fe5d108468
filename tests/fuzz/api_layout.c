/* SPDX-License-Identifier: Apache-2.0 */
/* api_layout.c - how the tensors of a batch lie in memory: strides, their order, the gaps between rows,
 * the sizes of arrays, and which pages the block table names. An array has no byte beyond its last
 * element. */
#include "api.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- strides ----------------------------------------------------------------------------- */

enum { MOST_DIMS = 3 };

/* Of a tensor whose innermost `inner` elements are dense. A dimension of one has any stride. Returns
 * the elements from the first to behind the last. */
static int64_t draw_strides(struct dice *d, int unit, int dims, const int *size, int64_t inner,
			    int64_t *stride)
{
	int order[MOST_DIMS] = { 0, 1, 2 };
	int64_t end = inner;
	for (int i = dims - 1; i > 0; i--) { /* the innermost dimension comes last */
		const int j = one_in(d, 3) ? below(d, i + 1) : i, at = order[i];
		order[i] = order[j];
		order[j] = at;
	}
	for (int i = dims - 1; i >= 0; i--) {
		const int64_t gap = one_in(d, 3) ? between(d, 1, 9) : 0;
		int64_t *s = &stride[order[i]];
		*s = (end + unit - 1) / unit * unit + gap * unit;
		end += (size[order[i]] - 1) * *s;
		if (size[order[i]] == 1 && one_in(d, 2))
			*s = unit * PICK(d, 0, 3, -1, 1 << 20, -(1 << 20));
	}
	return end;
}

int64_t element_at(const attune_shape *s, const attune_tensors *t, int is_v, int page, int slot,
		   int head, int e)
{
	const int x = 16 / dtype_bytes(s->kv_dtype);
	const int64_t first = is_v ? page * t->v_page_stride + head * t->v_head_stride
				   : page * t->k_page_stride + head * t->k_head_stride;
	if (s->kv_layout == ATTUNE_KV_STRIDED)
		return first + slot * (is_v ? t->v_slot_stride : t->k_slot_stride) + e;
	return first + (is_v ? (int64_t)e * s->page_size + slot
			     : ((int64_t)(e / x) * s->page_size + slot) * x + e % x);
}

/* K and V, apart, as [page][2][...] in one array, or side by side in each row. */
static int64_t draw_cache(struct world *w, struct dice *d, int unit)
{
	const attune_shape *s = &w->s;
	const int is_classic = s->kv_layout == ATTUNE_KV_CLASSIC, is_joint = one_in(d, 4);
	const int size[] = { w->pages, is_classic ? 1 : s->page_size, s->num_kv_heads };
	const int64_t inner = is_classic ? (int64_t)s->head_size * s->page_size : s->head_size;
	int64_t k[3], v[3];
	int64_t end = draw_strides(d, unit, 3, size, inner, k);
	int64_t v_end = draw_strides(d, unit, 3, size, inner, v);
	if (!is_joint && !is_classic && one_in(d, 3)) {
		end = draw_strides(d, unit, 3, size, 2 * inner, k);
		memcpy(v, k, sizeof v);
		w->v_from = (size_t)inner;
		v_end = 0;
	}
	if (is_joint && w->pages > 1 && k[0] > k[1] && k[0] > k[2]) {
		const int64_t page = k[0];
		memcpy(v, k, sizeof v);
		w->v_from = (size_t)page;
		k[0] = v[0] = 2 * page;
		end += (w->pages - 1) * page + page;
		v_end = 0;
	}
	if (s->page_size > 1) { /* equal ones say ragged K and V; of one page any stride will do */
		k[0] += k[0] == k[1] ? unit : 0;
		v[0] += v[0] == v[1] ? unit : 0;
	}
	w->host.k_page_stride = k[0], w->host.k_slot_stride = k[1], w->host.k_head_stride = k[2];
	w->host.v_page_stride = v[0], w->host.v_slot_stride = v[1], w->host.v_head_stride = v[2];
	w->slots_in_groups = k[1] > 0 && v[1] > 0 && k[0] > 0 && v[0] > 0 &&
			     k[0] % (8 * k[1]) == 0 && v[0] % (8 * v[1]) == 0;
	w->a[K].bytes = (size_t)end * (size_t)dtype_bytes(s->kv_dtype);
	return v_end;
}

static size_t draw_scales(struct dice *d, const attune_shape *s, int seqs, int64_t *seq,
			  int64_t *head)
{
	int64_t stride[2] = { 0, 0 };
	const int size[] = { one_in(d, 3) ? 1 : seqs, one_in(d, 3) ? 1 : s->num_kv_heads };
	const int64_t end = draw_strides(d, 1, 2, size, 1, stride);
	*seq = size[0] > 1 ? stride[0] : 0; /* one for all: a stride of 0 */
	*head = size[1] > 1 ? stride[1] : 0;
	return (size_t)end * sizeof(float);
}

/* A tensor of rows, by token and head: its bytes, from the first row to behind the last. */
static size_t draw_rows(struct dice *d, int unit, const int size[2], int row,
			enum attune_dtype type, int64_t *token, int64_t *head)
{
	int64_t v[2];
	const int64_t end = draw_strides(d, unit, 2, size, row, v);
	*token = v[0];
	*head = v[1];
	return (size_t)end * (size_t)dtype_bytes(type);
}

static void draw_all_rows(struct world *w, struct dice *d, int unit)
{
	const attune_shape *s = &w->s;
	const int tokens = w->query_start[w->batch.num_seqs], n = s->head_size;
	const int rows[] = { tokens ? tokens : 1, s->num_query_heads };
	const int keys[] = { rows[0], s->num_kv_heads };
	attune_tensors *t = &w->host;
	t->size = sizeof *t;
	w->a[Q].bytes =
	    draw_rows(d, unit, rows, n, s->dtype, &t->q_token_stride, &t->q_head_stride);
	w->a[OUT].bytes =
	    draw_rows(d, unit, rows, n, s->dtype, &t->out_token_stride, &t->out_head_stride);
	w->a[LSE].bytes =
	    draw_rows(d, 1, rows, 1, ATTUNE_F32, &t->lse_token_stride, &t->lse_head_stride);
	w->a[K_NEW].bytes =
	    draw_rows(d, unit, keys, n, s->kv_dtype, &t->k_new_token_stride, &t->k_new_head_stride);
	w->a[V_NEW].bytes =
	    draw_rows(d, unit, keys, n, s->kv_dtype, &t->v_new_token_stride, &t->v_new_head_stride);
}

/* ---- pages ------------------------------------------------------------------------------- */

/* The first slot of sequence i that any of its queries sees; none if it has no query. */
int first_live(const struct world *w, int i)
{
	const int query = w->query_start[i + 1] - w->query_start[i], seq = w->seq_lens[i];
	const long long first = w->s.window ? (long long)seq - query - w->s.window + 1 : 0;
	return !query || first > seq ? seq : first < 0 ? 0 : (int)first;
}

static int pages_of(const struct world *w, int i)
{
	return (w->seq_lens[i] + w->s.page_size - 1) / w->s.page_size;
}

static int first_page(const struct world *w, int i)
{
	const int first = first_live(w, i);
	return first < w->seq_lens[i] ? first / w->s.page_size : pages_of(w, i);
}

static void shuffle(struct dice *d, int *v, int n)
{
	for (int i = n - 1; i > 0; i--) {
		const int j = below(d, i + 1), at = v[i];
		v[i] = v[j];
		v[j] = at;
	}
}

/* Counts pages, and draws the table's stride and its end: that of its last sequence with keys. */
static void size_table(struct world *w, struct dice *d)
{
	int longest = w->row_pages, last = -1;
	w->pages = one_in(d, 2) ? below(d, 4) : 0; /* that no entry names */
	for (int i = 0; i < w->batch.num_seqs; i++) {
		longest = pages_of(w, i) > longest ? pages_of(w, i) : longest;
		w->pages += pages_of(w, i) - first_page(w, i);
		last = w->seq_lens[i] ? i : last;
	}
	w->pages += !w->pages;
	w->host.block_table_stride = longest + (one_in(d, 2) ? below(d, 9) : 0);
	w->entries = last < 0 ? 0 : last * w->host.block_table_stride + pages_of(w, last);
	if (w->row_pages)
		w->entries = w->batch.num_seqs * w->host.block_table_stride;
	else if (w->batch.num_seqs == 1 && one_in(d, 3))
		w->host.block_table_stride = PICK(d, 0, -1, INT_MAX, INT_MIN);
	w->a[TABLE].bytes = (size_t)w->entries * sizeof(int32_t);
}

/* An earlier sequence whose page is live there, for a prefix that both have. -1: none. */
static int shared_page(const struct world *w, struct dice *d, int i, int page)
{
	const int32_t *table = (const int32_t *)w->a[TABLE].host;
	const int other = i && one_in(d, 8) ? below(d, i) : -1;
	if (other < 0 || page < first_page(w, other) || page >= pages_of(w, other))
		return -1;
	return table[(int64_t)other * w->host.block_table_stride + page];
}

void table_fill(struct world *w, struct dice *d)
{
	int32_t *table = (int32_t *)w->a[TABLE].host;
	int *unused = malloc((size_t)w->pages * sizeof *unused), left = w->pages;
	if (!unused)
		fault("the test: no memory");
	for (int i = 0; i < w->pages; i++)
		unused[i] = i;
	shuffle(d, unused, w->pages);
	for (int i = 0; i < w->entries; i++)
		table[i] = PICK(d, INT_MAX, INT_MIN, -1, 0x40000000);
	for (int i = 0; i < w->batch.num_seqs; i++)
		for (int p = first_page(w, i); p < pages_of(w, i); p++) {
			const int shared = shared_page(w, d, i, p);
			table[(int64_t)i * w->host.block_table_stride + p] =
			    shared >= 0 ? shared : unused[--left];
		}
	free(unused);
}

/* ---- sizes of arrays --------------------------------------------------------------------- */

void layout_draw(struct world *w, struct dice *d)
{
	const int is_gpu = w->dev->info.backend == BACKEND_GPU;
	const int unit = !is_gpu ? 1 : w->s.kv_dtype == ATTUNE_E4M3 ? 16 : 8;
	const size_t heads = (size_t)w->s.num_query_heads * sizeof(float);
	const int seqs = w->batch.num_seqs;
	attune_tensors *t = &w->host;
	size_table(w, d);
	w->a[V].bytes = (size_t)draw_cache(w, d, unit) * (size_t)dtype_bytes(w->s.kv_dtype);
	draw_all_rows(w, d, unit);
	w->a[STARTS].bytes = (size_t)(seqs + 1) * sizeof(int32_t);
	w->a[LENS].bytes = (size_t)seqs * sizeof(int32_t);
	w->a[SINKS].bytes = heads / sizeof(float) * (size_t)dtype_bytes(w->s.sinks_dtype);
	w->a[SLOPES].bytes = heads;
	w->a[K_SCALES].bytes =
	    draw_scales(d, &w->s, seqs ? seqs : 1, &t->k_scale_seq_stride, &t->k_scale_head_stride);
	w->a[V_SCALES].bytes =
	    draw_scales(d, &w->s, seqs ? seqs : 1, &t->v_scale_seq_stride, &t->v_scale_head_stride);
}
