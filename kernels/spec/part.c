/* SPDX-License-Identifier: Apache-2.0 */
/* part.c - checks shapes and batches, and computes the parts of a batch and their features. */
#include "device_info.h"
#include "part.h"
#include <float.h>
#include <string.h>

/* Limits that keep arithmetic exact: kernels hold positions, their differences with a window, and
 * block numbers in ints, and the bytes of all keys and of all partial sums in long longs. */
enum { MOST_HEADS = 65535, MOST_TOKENS = 1 << 29 };
static const long long most_key_heads = 1ll << 48, most_padded_rows = 1ll << 42;
/* Kernels multiply by scale * log2(e) and divide by softcap. tanh is exact to 2^-23, so a capped
 * score is exact to 2^-23 of its cap. */
static const float most_scale = 0x1p120f, most_softcap = 1000, least_softcap = 1e-4f;

const char *shape_error(const attune_shape *s)
{
	if (s->num_kv_heads < 1 || s->num_query_heads < 1)
		return "num_query_heads and num_kv_heads must be 1 or more";
	if (s->num_query_heads > MOST_HEADS)
		return "num_query_heads must be 65535 or less";
	if (s->num_query_heads % s->num_kv_heads)
		return "num_query_heads must be a multiple of num_kv_heads";
	if (s->head_size < 8 || s->head_size > 512)
		return "head_size must be 8 to 512";
	if (s->page_size < 1 || s->page_size > 65536)
		return "page_size must be 1 to 65536";
	if ((unsigned)s->dtype > ATTUNE_BF16 || (unsigned)s->kv_dtype > ATTUNE_E4M3)
		return "dtype must be F32, F16 or BF16, kv_dtype one of these or E4M3";
	if (s->kv_dtype == ATTUNE_E4M3 && s->dtype == ATTUNE_F32)
		return "with an E4M3 cache dtype must be F16 or BF16";
	if ((unsigned)s->sinks_dtype > ATTUNE_BF16)
		return "sinks_dtype must be F32, F16 or BF16";
	if ((unsigned)s->kv_layout > ATTUNE_KV_CLASSIC)
		return "kv_layout must be ATTUNE_KV_STRIDED or ATTUNE_KV_CLASSIC";
	if (s->kv_layout == ATTUNE_KV_CLASSIC && s->head_size % (16 / dtype_bytes(s->kv_dtype)))
		return "a head of the classic layout must be a multiple of 16 bytes";
	if (s->window < 0)
		return "window must be 0 (none) or more";
	if (!(s->scale >= 0 && s->scale <= most_scale))
		return "scale must be 0 (1 / sqrt(head_size)) to 2^120";
	if (!(s->softcap >= 0 && s->softcap <= most_softcap))
		return "softcap must be 0 (none) to 1000";
	if (s->scale > 0 && s->scale < FLT_MIN)
		return "scale must not be below the least normal float, 1.2e-38";
	if (s->softcap > 0 && s->softcap < least_softcap)
		return "softcap must be 0 (none) or at least 1e-4";
	if (s->softcap > 0 && s->scale / s->softcap > most_scale)
		return "scale / softcap must be 2^120 or less";
	return NULL;
}

/* The most keys for which key * page_magic() >> 32 is the page number. */
static long long most_keys(int page_size)
{
	const long long excess =
	    page_size == 1 ? 0 : (long long)page_magic(page_size) * page_size - (1ll << 32);
	const long long most = excess ? ((1ll << 32) - 1) / excess : MOST_TOKENS;
	return most < MOST_TOKENS ? most : MOST_TOKENS;
}

/* The number of sequences and of query tokens, the longest query and sequence, all keys
 * together. */
struct sizes {
	long long seqs, tokens, query, seq, keys;
};

static const char *sizes_error(const struct sizes *m, const attune_shape *s)
{
	const long long most = most_keys(s->page_size);
	if (m->seq > most)
		return most == MOST_TOKENS ? "a sequence has 2^29 keys at most"
					   : "sequences are too long for pages of this "
					     "size: use a power of two";
	if (m->query > MOST_TOKENS)
		return "a query has 2^29 tokens at most";
	if ((m->seqs + m->tokens) * s->num_query_heads > MOST_BATCH_ROWS)
		return "tokens and sequences together, times num_query_heads, must be below 2^31";
	if (m->keys > most_key_heads / s->num_kv_heads)
		return "keys of all sequences, times num_kv_heads, must be 2^48 or less";
	if (m->seqs * m->query > most_padded_rows / s->num_query_heads)
		return "num_seqs times the longest query, times num_query_heads, must be 2^42 or "
		       "less";
	return NULL;
}

static const char *size_error(const attune_batch *b, const attune_shape *s)
{
	struct sizes m = { b->num_seqs, b->num_seqs ? b->query_start[b->num_seqs] : 0, 0, 0, 0 };
	for (int i = 0; i < b->num_seqs; i++) {
		m.query = max_of(m.query, b->query_start[i + 1] - b->query_start[i]);
		m.seq = max_of(m.seq, b->seq_lens[i]);
		m.keys += b->seq_lens[i];
	}
	return sizes_error(&m, s);
}

const char *maxima_error(int num_seqs, int num_tokens, int max_query, int max_keys,
			 const attune_shape *s)
{
	const struct sizes m = { num_seqs, num_tokens, max_query, max_keys,
				 (long long)num_seqs * max_keys };
	if (num_seqs < 0 || num_tokens < 0 || max_query < 0 || max_keys < 0)
		return "num_seqs, num_tokens, max_query and max_keys must be 0 or more";
	return sizes_error(&m, s);
}

const char *batch_error(const attune_batch *b, const attune_shape *s)
{
	if (b->num_seqs < 0)
		return "num_seqs must be 0 or more";
	if (b->num_seqs && (!b->query_start || !b->seq_lens))
		return "query_start and seq_lens must be given";
	if (b->num_seqs && b->query_start[0] != 0)
		return "query_start must begin with 0";
	for (int i = 0; i < b->num_seqs; i++) {
		if (b->query_start[i + 1] < b->query_start[i])
			return "query_start must not decrease";
		if (b->seq_lens[i] < 0)
			return "seq_lens must be 0 or more";
	}
	return s ? size_error(b, s) : NULL;
}

int window_of(const attune_shape *s)
{
	return s->window > MOST_TOKENS ? 0 : s->window;
}

void batch_table(const attune_batch *b, int page_size, int *seq, int *pages)
{
	int last = b->num_seqs - 1;
	while (last >= 0 && !b->seq_lens[last])
		last--;
	*seq = last < 0 ? 0 : last;
	*pages = last < 0 ? 0 : (b->seq_lens[last] - 1) / page_size + 1;
}

static int in_phase(enum phase phase, int query)
{
	return query > 0 && (phase == PHASE_ALL || seq_phase(query) == phase);
}

static long long sum_over(const attune_shape *shape, const attune_batch *b, enum phase phase,
			  long long (*of)(const struct part_shape *, int query, int seq))
{
	const struct part_shape s = { .causal = shape->causal, .window = window_of(shape) };
	long long sum = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		int query = b->query_start[i + 1] - b->query_start[i];
		if (in_phase(phase, query))
			sum += of(&s, query, b->seq_lens[i]);
	}
	return sum;
}

long long part_live_keys(const attune_shape *s, const attune_batch *b, enum phase phase)
{
	return sum_over(s, b, phase, seq_live_keys);
}

long long part_pairs(const attune_shape *s, const attune_batch *b, enum phase phase)
{
	return sum_over(s, b, phase, seq_pairs);
}

void part_shape_of(struct part_shape *out, const attune_shape *s, const struct device_info *d)
{
	*out = (struct part_shape){
		.causal = s->causal,
		.window = window_of(s),
		.f = { .num_query_heads = s->num_query_heads,
		       .num_kv_heads = s->num_kv_heads,
		       .group = s->num_query_heads / s->num_kv_heads,
		       .head_size = s->head_size,
		       .page_size = s->page_size,
		       .kv_bytes = dtype_bytes(s->kv_dtype),
		       .window = window_of(s) ? window_of(s) : 1 << 30,
		       .units = d->units },
	};
}

static void span_from(attune_span *s, const struct part_sums *t, const attune_batch *b)
{
	const int end = (int)t->most[MOST_SEQ] + 1;
	if (!t->sum[SUM_SEQS])
		return;
	s->seq_begin = (int)-t->most[MOST_NEG_SEQ];
	s->seq_count = end - s->seq_begin;
	s->min_query = (int)-t->most[MOST_NEG_QUERY];
	s->max_query = (int)t->most[MOST_QUERY];
	s->range_tokens = b->query_start[end] - b->query_start[s->seq_begin];
}

/* Adds a run of one-token decodes as sums_add would; such a query sees all live keys. Returns the
 * sequence after the run. */
static int add_ones(struct part_sums *t, const struct part_shape *s, const attune_batch *b,
		    int from)
{
	long long keys = 0, most = 0;
	int i = from;
	for (; i < b->num_seqs && b->query_start[i + 1] - b->query_start[i] == 1; i++) {
		const long long live = seq_live_keys(s, 1, b->seq_lens[i]);
		keys += live;
		most = max_of(most, live);
	}
	if (i == from)
		return i;
	t->sum[SUM_SEQS] += i - from;
	t->sum[SUM_QUERIES] += i - from;
	t->sum[SUM_KEYS] += keys;
	t->sum[SUM_PAIRS] += keys;
	t->most[MOST_KEYS] = max_of(t->most[MOST_KEYS], most);
	t->most[MOST_QUERY] = max_of(t->most[MOST_QUERY], 1);
	t->most[MOST_NEG_QUERY] = max_of(t->most[MOST_NEG_QUERY], -1);
	t->most[MOST_NEG_SEQ] = max_of(t->most[MOST_NEG_SEQ], -from);
	t->most[MOST_SEQ] = max_of(t->most[MOST_SEQ], i - 1);
	return i;
}

void batch_count(struct batch_sums *c, const attune_shape *shape, const attune_batch *b,
		 const struct device_info *d)
{
	part_shape_of(&c->shape, shape, d);
	for (int i = 0; i <= PHASE_DECODE; i++)
		sums_start(&c->of[i]);
	int i = 0;
	while ((i = add_ones(&c->of[PHASE_DECODE], &c->shape, b, i)) < b->num_seqs) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query > 0)
			sums_add(&c->of[seq_phase(query)], &c->shape, i, query, b->seq_lens[i]);
		i++;
	}
	c->of[PHASE_ALL] = c->of[PHASE_PREFILL];
	sums_join(&c->of[PHASE_ALL], &c->of[PHASE_DECODE]);
}

int part_of_batch(struct part *p, enum phase phase, const struct batch_sums *c,
		  const attune_batch *b)
{
	memset(p, 0, sizeof *p);
	if (phase != PHASE_DECODE)
		span_from(&p->prefill, &c->of[PHASE_PREFILL], b);
	if (phase != PHASE_PREFILL)
		span_from(&p->decode, &c->of[PHASE_DECODE], b);
	return part_from(p, &c->shape, &c->of[phase], &c->of[PHASE_PREFILL], &c->of[PHASE_DECODE],
			 b->query_start);
}

int part_make(struct part *p, enum phase phase, const attune_shape *shape, const attune_batch *b,
	      const struct device_info *d)
{
	struct batch_sums c;
	batch_count(&c, shape, b, d);
	return part_of_batch(p, phase, &c, b);
}

long long span_q_blocks(const attune_span *s, int block_q)
{
	return q_blocks_of(s->seq_count, s->max_query, s->range_tokens, block_q);
}

long long span_rows(const attune_span *span, const attune_shape *s)
{
	return (long long)span->seq_count * span->max_query * s->num_query_heads;
}

/* magic = ceil(2^32 / page_size): n / page_size == (n * magic) >> 32 while
 * n * (magic * page_size - 2^32) < 2^32. most_keys() is that limit; powers of two have none. */
unsigned page_magic(int page_size)
{
	return page_size == 1
		   ? 0
		   : (unsigned)((0x100000000ull + (unsigned)page_size - 1) / (unsigned)page_size);
}
