/* SPDX-License-Identifier: Apache-2.0 */
/* api_values.c - what the tensors of a batch hold. Scores stay of a size at which fp32 is exact enough
 * for the comparison. Slots that no query sees keep their NaN. */
#include "api.h"
#include "harness/check/reference.h"
#include <float.h>
#include <math.h>

/* ---- values ------------------------------------------------------------------------------ */

/* How large elements are: scores stay below some tens. */
struct sizes {
	float q, k, v;
};

static struct sizes draw_sizes(struct dice *d, const attune_shape *s)
{
	const float scale = s->scale > 0 ? s->scale : 1 / sqrtf((float)s->head_size);
	const float wanted = ldexpf(1, between(d, -2, 3)) / sqrtf((float)s->head_size) / scale;
	const int is_f16 = s->dtype == ATTUNE_F16;
	struct sizes z = { wanted, 1, ldexpf(1, between(d, -4, 2)) };
	z.q = fminf(fmaxf(z.q, is_f16 ? 0x1p-8f : 0x1p-90f), is_f16 ? 256 : 0x1p20f);
	if (z.q > 4 * wanted) /* such a scale would make scores too large */
		z.q = 0;
	return z;
}

/* Fills the cache's slot, and what k_new and v_new repeat of it. */
static void fill_slot(struct world *w, struct dice *d, const struct sizes *z, int page, int slot)
{
	const attune_shape *s = &w->s;
	char *v_cache = w->v_from ? w->a[K].host : w->a[V].host;
	for (int h = 0; h < s->num_kv_heads; h++) {
		const int64_t at =
		    (((int64_t)page * s->page_size + slot) * s->num_kv_heads + h) * s->head_size;
		if (w->key[at] == w->key[at])
			return; /* another sequence has it too */
		for (int e = 0; e < s->head_size; e++) {
			const int64_t k = element_at(s, &w->host, 0, page, slot, h, e);
			const int64_t v =
			    element_at(s, &w->host, 1, page, slot, h, e) + (int64_t)w->v_from;
			value_put(s->kv_dtype, w->a[K].host, k, z->k * noise(d));
			value_put(s->kv_dtype, v_cache, v, z->v * noise(d));
			w->key[at + e] = (float)value_of(s->kv_dtype, w->a[K].host, k);
			w->value[at + e] = (float)value_of(s->kv_dtype, v_cache, v);
		}
	}
}

static void repeat_slot(struct world *w, int page, int slot, int token)
{
	const attune_shape *s = &w->s;
	const attune_tensors *t = &w->host;
	for (int h = 0; h < s->num_kv_heads; h++)
		for (int e = 0; e < s->head_size; e++) {
			const int64_t at =
			    (((int64_t)page * s->page_size + slot) * s->num_kv_heads + h) *
				s->head_size +
			    e;
			value_put(s->kv_dtype, w->a[K_NEW].host,
				  token * t->k_new_token_stride + h * t->k_new_head_stride + e,
				  w->key[at]);
			value_put(s->kv_dtype, w->a[V_NEW].host,
				  token * t->v_new_token_stride + h * t->v_new_head_stride + e,
				  w->value[at]);
		}
}

static void fill_cache(struct world *w, struct dice *d, const struct sizes *z)
{
	const int32_t *table = (const int32_t *)w->a[TABLE].host;
	for (int i = 0; i < w->batch.num_seqs; i++) {
		const int seq = w->seq_lens[i], end = w->query_start[i + 1];
		for (int key = first_live(w, i); key < seq; key++) {
			const int page =
			    table[(int64_t)i * w->host.block_table_stride + key / w->s.page_size];
			const int slot = key % w->s.page_size, token = end - (seq - key);
			fill_slot(w, d, z, page, slot);
			if (w->s.has_new_kv && token >= w->query_start[i])
				repeat_slot(w, page, slot, token);
		}
	}
}

static void fill_queries(struct world *w, struct dice *d, const struct sizes *z)
{
	const attune_tensors *t = &w->host;
	for (int row = 0; row < w->query_start[w->batch.num_seqs]; row++)
		for (int h = 0; h < w->s.num_query_heads; h++)
			for (int e = 0; e < w->s.head_size; e++)
				value_put(w->s.dtype, w->a[Q].host,
					  row * t->q_token_stride + h * t->q_head_stride + e,
					  z->q * noise(d));
}

static float draw_sink(struct dice *d)
{
	switch (below(d, 12)) {
	case 0: return -INFINITY;
	case 1: return -FLT_MAX;
	case 2: return FLT_MAX;
	case 3: return 1e4f * noise(d);
	default: return 8 * noise(d);
	}
}

/* Not infinity, to which a large one may round. */
static void put_sink(struct world *w, int head, float sink)
{
	void *sinks = w->a[SINKS].host;
	value_put(w->s.sinks_dtype, sinks, head, sink);
	if (value_of(w->s.sinks_dtype, sinks, head) == INFINITY)
		value_put(w->s.sinks_dtype, sinks, head, 6e4f);
	w->sinks[head] = (float)value_of(w->s.sinks_dtype, sinks, head);
}

/* Sinks, slopes and scales; what is largest follows. */
static void fill_floats(struct world *w, struct dice *d, const struct sizes *z)
{
	const attune_shape *s = &w->s;
	float *const slopes = (float *)w->a[SLOPES].host;
	const float steep = ldexpf(1, -between(d, 0, 12));
	double scale[2] = { 1, 1 };
	int longest = 0;
	for (int i = 0; i < s->num_query_heads; i++) {
		put_sink(w, i, draw_sink(d));
		slopes[i] = steep * (one_in(d, 8) ? noise(d) : fabsf(noise(d)));
	}
	for (int v = 0; v < 2; v++) {
		struct array *a = &w->a[v ? V_SCALES : K_SCALES];
		for (size_t i = 0; i < a->bytes / sizeof(float); i++)
			((float *)a->host)[i] = 0.25f + fabsf(noise(d));
		scale[v] = s->kv_dtype == ATTUNE_E4M3 ? 1.25 : 1;
	}
	for (int i = 0; i < w->batch.num_seqs; i++) {
		const int query = w->query_start[i + 1] - w->query_start[i];
		longest = w->seq_lens[i] + query > longest ? w->seq_lens[i] + query : longest;
	}
	w->largest_value = 1.07 * z->v * scale[1]; /* E4M3 rounds up by a sixteenth */
	const double dot = 1.1 * z->q * z->k * scale[0] * s->head_size *
			   (s->scale > 0 ? s->scale : 1 / sqrt(s->head_size));
	w->largest_score =
	    (s->softcap > 0 ? s->softcap : dot) + (s->has_alibi ? steep * longest : 0);
}

void values_fill(struct world *w, struct dice *d)
{
	const struct sizes z = draw_sizes(d, &w->s);
	fill_cache(w, d, &z);
	fill_queries(w, d, &z);
	fill_floats(w, d, &z);
}
