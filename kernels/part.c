/* part.c - batches, their parts, and the features that heuristics read. */
#include "device.h"
#include <string.h>

const char *shape_error(const attune_shape *s)
{
	if (s->num_kv_heads < 1 || s->num_query_heads < 1)
		return "num_query_heads and num_kv_heads must be 1 or more";
	if (s->num_query_heads % s->num_kv_heads)
		return "num_query_heads must be a multiple of num_kv_heads";
	if (s->head_size < 8 || s->head_size > 512)
		return "head_size must be 8 to 512";
	if (s->page_size < 1 || s->page_size > 65536)
		return "page_size must be 1 to 65536";
	if ((unsigned)s->dtype > ATTUNE_BF16 || (unsigned)s->kv_dtype > ATTUNE_BF16)
		return "dtype must be F32, F16 or BF16";
	if ((unsigned)s->kv_layout > ATTUNE_KV_CLASSIC)
		return "kv_layout must be ATTUNE_KV_STRIDED or ATTUNE_KV_CLASSIC";
	if (s->kv_layout == ATTUNE_KV_CLASSIC && s->head_size % (16 / dtype_bytes(s->kv_dtype)))
		return "a head of the classic layout must be a multiple of 16 bytes";
	if (s->window < 0)
		return "window must be 0 (none) or more";
	if (!(s->scale >= 0) || !(s->softcap >= 0))
		return "scale and softcap must be 0 or more";
	return NULL;
}

const char *batch_error(const attune_batch *b)
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
	return NULL;
}

static int in_phase(enum phase phase, int query)
{
	if (query < 1)
		return 0;
	return phase == PHASE_ALL || (phase == PHASE_DECODE) == (query <= DECODE_MAX_QUERY);
}

static long long min_ll(long long a, long long b)
{
	return a < b ? a : b;
}

/* Keys that at least one query of the sequence sees. */
static long long live_keys(const attune_shape *s, int query, int seq)
{
	if (!s->window)
		return seq;
	return min_ll(seq, (long long)s->window + query - 1);
}

/* Sum over e = 1 .. n of min(e, cap). */
static long long ramp(long long n, long long cap)
{
	if (n <= 0)
		return 0;
	return n <= cap ? n * (n + 1) / 2 : cap * (cap + 1) / 2 + (n - cap) * cap;
}

/* Query-key pairs of one head: sum over the query's tokens of the keys seen. Token
 * i stands at position e - 1, e = context + 1 + i; a causal one sees min(e, window)
 * keys, any other seq - max(e - window, 0); none where e is not positive. */
static long long pairs(const attune_shape *s, int query, int seq)
{
	const long long context = (long long)seq - query, window = s->window ? s->window : seq;
	if (s->causal)
		return ramp(seq, window) - ramp(context, window);
	return (long long)query * seq - ramp(seq - window, seq) + ramp(context - window, seq);
}

static long long sum_over(const attune_shape *s, const attune_batch *b, enum phase phase,
			  long long (*of)(const attune_shape *, int query, int seq))
{
	long long sum = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		int query = b->query_start[i + 1] - b->query_start[i];
		if (in_phase(phase, query))
			sum += of(s, query, b->seq_lens[i]);
	}
	return sum;
}

long long part_live_keys(const attune_shape *s, const attune_batch *b, enum phase phase)
{
	return sum_over(s, b, phase, live_keys);
}

long long part_pairs(const attune_shape *s, const attune_batch *b, enum phase phase)
{
	return sum_over(s, b, phase, pairs);
}

static void shape_features(struct attune_features *f, const attune_shape *s,
			   const struct device_info *d)
{
	f->num_query_heads = s->num_query_heads;
	f->num_kv_heads = s->num_kv_heads;
	f->group = s->num_query_heads / s->num_kv_heads;
	f->head_size = s->head_size;
	f->page_size = s->page_size;
	f->kv_bytes = dtype_bytes(s->kv_dtype);
	f->window = s->window ? s->window : 1 << 30;
	f->units = d->units;
}

/* Blocks of a launch whose Q blocks have 16 rows, the least that tensor cores take. */
static long long narrow_blocks(const struct part *p)
{
	const int group = (int)p->f.group, block_q = group < 16 ? 16 / group : 1;
	return part_q_blocks(p, block_q) * p->f.num_kv_heads * ((group + 15) / 16);
}

/* Sums of a part over its prefills and over its decodes. */
struct halves {
	long long prefill_pairs, decode_keys;
};

/* Of the time that both halves would take one after the other, on a machine that does so many
 * flops while it reads a byte, the prefills': in 64ths. Head size and KV heads count in both. */
static long long prefill_share(const struct attune_features *f, const struct halves *h)
{
	enum { FLOPS_OF_BYTE = 128 };
	const long long prefill = h->prefill_pairs * f->group * 4;
	const long long decode = h->decode_keys * f->kv_bytes * 2 * FLOPS_OF_BYTE;
	if (!decode)
		return prefill ? 64 : 0;
	return prefill / ((prefill + decode) / 64 + 1);
}

/* What follows from the sums and the ranges. */
static void derive(struct part *p, const struct halves *h)
{
	struct attune_features *f = &p->f;
	f->prefill_share = prefill_share(f, h);
	f->max_query = p->max_query;
	f->rows = f->max_query * f->group;
	f->row_blocks = (f->query_tokens * f->num_query_heads + 63) / 64;
	f->heads_x_seqs = f->num_seqs * f->num_kv_heads;
	f->mean_seq = f->kv_tokens / f->num_seqs;
	f->skew = f->mean_seq ? 16 * f->max_seq / f->mean_seq : 16;
	f->mean_query = f->query_tokens / f->num_seqs;
	f->keys_per_query = f->work / f->query_tokens;
	f->work = (f->work + 4095) / 4096; /* were pairs so far */
	f->kv_kib = f->kv_tokens * f->num_kv_heads * f->head_size * f->kv_bytes * 2 / 1024;
	f->blocks_per_unit = (16 * narrow_blocks(p) + f->units - 1) / f->units;
}

static void widen(attune_span *s, const attune_batch *b, int seq)
{
	const int query = b->query_start[seq + 1] - b->query_start[seq];
	if (!s->seq_count)
		*s = (attune_span){ .seq_begin = seq, .min_query = query };
	s->seq_count = seq + 1 - s->seq_begin;
	s->range_tokens = b->query_start[seq + 1] - b->query_start[s->seq_begin];
	if (query < s->min_query)
		s->min_query = query;
	if (query > s->max_query)
		s->max_query = query;
}

int part_make(struct part *p, enum phase phase, const attune_shape *s, const attune_batch *b,
	      const struct device_info *d)
{
	struct attune_features *f = &p->f;
	struct halves halves = { 0 };
	int last = -1;
	memset(p, 0, sizeof *p);
	shape_features(f, s, d);
	p->min_query = 1 << 30;
	for (int i = 0; i < b->num_seqs; i++) {
		int query = b->query_start[i + 1] - b->query_start[i];
		long long live = live_keys(s, query, b->seq_lens[i]);
		if (in_phase(PHASE_DECODE, query))
			f->decode_seqs++, f->decode_kv += live;
		else
			f->prefill_tokens += query;
		if (!in_phase(phase, query))
			continue;
		widen(in_phase(PHASE_DECODE, query) ? &p->decode : &p->prefill, b, i);
		if (last < 0)
			p->seq_begin = i;
		last = i;
		f->num_seqs++;
		f->query_tokens += query;
		f->kv_tokens += live;
		const long long work = pairs(s, query, b->seq_lens[i]);
		f->work += work;
		if (in_phase(PHASE_DECODE, query))
			halves.decode_keys += live;
		else
			halves.prefill_pairs += work;
		if (live > f->max_seq)
			f->max_seq = live;
		if (query > p->max_query)
			p->max_query = query;
		if (query < p->min_query)
			p->min_query = query;
	}
	if (last < 0)
		return 0;
	p->seq_count = last + 1 - p->seq_begin;
	p->range_tokens = b->query_start[last + 1] - b->query_start[p->seq_begin];
	derive(p, &halves);
	return 1;
}

static long long q_blocks(int seqs, int max_query, long long tokens, int block_q)
{
	return max_query <= block_q ? seqs : tokens / block_q + seqs;
}

long long part_q_blocks(const struct part *p, int block_q)
{
	return q_blocks(p->seq_count, p->max_query, p->range_tokens, block_q);
}

long long span_q_blocks(const attune_span *s, int block_q)
{
	return q_blocks(s->seq_count, s->max_query, s->range_tokens, block_q);
}

long long span_rows(const attune_span *span, const attune_shape *s)
{
	return (long long)span->seq_count * span->max_query * s->num_query_heads;
}

/* n / page_size == (n * magic) >> 32 for all n < 2^20 pages' worth that fit:
 * magic = ceil(2^32 / page_size) errs by less than 1 / page_size as long as
 * n * page_size < 2^32, which 65536 x 65536 tokens would just reach. */
unsigned page_magic(int page_size)
{
	return page_size == 1
		   ? 0
		   : (unsigned)((0x100000000ull + (unsigned)page_size - 1) / (unsigned)page_size);
}
