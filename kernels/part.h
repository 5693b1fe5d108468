/* part.h - the part of a batch that one launch computes, and its features, in integers. */
#ifndef ATTUNE_PART_H
#define ATTUNE_PART_H

#include "attune_features.h"
#include "attune.h"

/* A query of at most this many tokens belongs to the decode part: one token,
 * or a few speculative ones. */
enum { DECODE_MAX_QUERY = 8 };

enum phase { PHASE_ALL, PHASE_PREFILL, PHASE_DECODE };

struct part {
	struct attune_features f;
	int seq_begin, seq_count, min_query, max_query;
	/* query_start[seq_begin + seq_count] - query_start[seq_begin], with the tokens of sequences
	 * in between that are not of this part */
	long long range_tokens;
	/* The same for its prefill and its decode sequences; seq_count 0: none. */
	attune_span prefill, decode;
	/* ESTIMATE of a .def: geometry() derived it from features that a launch does not have. 0:
	 * not computed yet; MOST_ESTIMATE: the one that needs most workspace. */
	int estimated;
};

enum { MOST_ESTIMATE = -1 };

/* The inputs of a part from the layer and the device. */
struct part_shape {
	int causal, window;
	struct attune_features f; /* those that do not depend on the batch; others 0 */
};

/* Sums and maxima over the sequences of a phase; order and grouping do not matter. NEG_: a minimum,
 * as the maximum of negatives. */
enum { SUM_SEQS, SUM_QUERIES, SUM_KEYS, SUM_PAIRS, NUM_SUMS };
enum { MOST_KEYS, MOST_QUERY, MOST_NEG_QUERY, MOST_NEG_SEQ, MOST_SEQ, NUM_MOST };
struct part_sums {
	long long sum[NUM_SUMS], most[NUM_MOST];
};

static inline long long min_of(long long a, long long b)
{
	return a < b ? a : b;
}

static inline long long max_of(long long a, long long b)
{
	return a > b ? a : b;
}

/* n / of, rounded up. */
static inline long long parts_of(long long n, long long of)
{
	return (n + of - 1) / of;
}

/* Phase of a sequence; PHASE_ALL: in none. */
static inline enum phase seq_phase(int query)
{
	return query < 1 ? PHASE_ALL : query <= DECODE_MAX_QUERY ? PHASE_DECODE : PHASE_PREFILL;
}

/* Keys that at least one query of the sequence sees. */
static inline long long seq_live_keys(const struct part_shape *s, int query, int seq)
{
	return s->window ? min_of(seq, (long long)s->window + query - 1) : seq;
}

/* Sum over e = 1 .. n of min(e, cap). */
static inline long long ramp(long long n, long long cap)
{
	if (n <= 0)
		return 0;
	return n <= cap ? n * (n + 1) / 2 : cap * (cap + 1) / 2 + (n - cap) * cap;
}

/* Query-key pairs of one head: sum over the query's tokens of the keys seen. Token
 * i stands at position e - 1, e = context + 1 + i; a causal one sees min(e, window)
 * keys, any other seq - max(e - window, 0); none where e is not positive. */
static inline long long seq_pairs(const struct part_shape *s, int query, int seq)
{
	const long long context = (long long)seq - query, window = s->window ? s->window : seq;
	if (s->causal)
		return ramp(seq, window) - ramp(context, window);
	return (long long)query * seq - ramp(seq - window, seq) + ramp(context - window, seq);
}

static inline void sums_start(struct part_sums *t)
{
	for (int i = 0; i < NUM_SUMS; i++)
		t->sum[i] = 0;
	for (int i = 0; i < NUM_MOST; i++)
		t->most[i] = -(1ll << 40);
}

/* Sequence `index` of the batch. */
static inline void sums_add(struct part_sums *t, const struct part_shape *s, int index, int query,
			 int seq)
{
	const long long keys = seq_live_keys(s, query, seq);
	t->sum[SUM_SEQS]++;
	t->sum[SUM_QUERIES] += query;
	t->sum[SUM_KEYS] += keys;
	t->sum[SUM_PAIRS] += seq_pairs(s, query, seq);
	t->most[MOST_KEYS] = max_of(t->most[MOST_KEYS], keys);
	t->most[MOST_QUERY] = max_of(t->most[MOST_QUERY], query);
	t->most[MOST_NEG_QUERY] = max_of(t->most[MOST_NEG_QUERY], -query);
	t->most[MOST_NEG_SEQ] = max_of(t->most[MOST_NEG_SEQ], -index);
	t->most[MOST_SEQ] = max_of(t->most[MOST_SEQ], index);
}

static inline void sums_join(struct part_sums *t, const struct part_sums *more)
{
	for (int i = 0; i < NUM_SUMS; i++)
		t->sum[i] += more->sum[i];
	for (int i = 0; i < NUM_MOST; i++)
		t->most[i] = max_of(t->most[i], more->most[i]);
}

/* Q blocks of block_q tokens as the kernels number them: sequence i of the part starts at block
 * (query_start[i] - query_start[seq_begin]) / block_q + i, which leaves room for each sequence's
 * last, partial block without a prefix sum. If no query is longer than block_q: one block a
 * sequence. */
static inline long long q_blocks_of(int seqs, int max_query, long long tokens, int block_q)
{
	return max_query <= block_q ? seqs : tokens / block_q + seqs;
}

static inline long long part_q_blocks(const struct part *p, int block_q)
{
	return q_blocks_of(p->seq_count, p->max_query, p->range_tokens, block_q);
}

/* Blocks of a launch at one segment, with Q blocks of so many rows. */
static inline long long part_blocks(const struct part *p, int rows)
{
	const int group = (int)p->f.group, block_q = group < rows ? rows / group : 1;
	return part_q_blocks(p, block_q) * p->f.num_kv_heads * ((group + rows - 1) / rows);
}

/* The prefills' share, in 64ths, of the time of both phases in turn, on a machine that does
 * FLOPS_OF_BYTE flops while it reads a byte. Head size and KV heads are factors of both and
 * cancel. */
static inline long long part_prefill_share(const struct attune_features *f, long long prefill_pairs,
					long long decode_keys)
{
	enum { FLOPS_OF_BYTE = 128 };
	const long long prefill = prefill_pairs * f->group * 4;
	const long long decode = decode_keys * f->kv_bytes * 2 * FLOPS_OF_BYTE;
	if (!decode)
		return prefill ? 64 : 0;
	return prefill / ((prefill + decode) / 64 + 1);
}

/* Derives the other features from the sums and the ranges. */
static inline void part_derive(struct part *p)
{
	struct attune_features *f = &p->f;
	f->max_query = p->max_query;
	f->rows = f->max_query * f->group;
	f->row_blocks = (f->query_tokens * f->num_query_heads + 63) / 64;
	f->heads_x_seqs = f->num_seqs * f->num_kv_heads;
	f->mean_seq = f->kv_tokens / f->num_seqs;
	f->skew = f->mean_seq ? 16 * f->max_seq / f->mean_seq : 16;
	f->mean_query = f->query_tokens / f->num_seqs;
	f->keys_per_query = f->work / f->query_tokens;
	f->work = (f->work + 4095) / 4096; /* pairs until here */
	f->kv_kib = f->kv_tokens * f->num_kv_heads * f->head_size * f->kv_bytes * 2 / 1024;
	f->blocks_per_unit = (16 * part_blocks(p, 16) + f->units - 1) / f->units;
}

/* Makes a part from the sums of the batch's prefills and decodes; `own`: the part's. 0: the part
 * has no sequence. */
static inline int part_from(struct part *p, const struct part_shape *s, const struct part_sums *own,
			 const struct part_sums *prefill, const struct part_sums *decode,
			 const int *query_start)
{
	struct attune_features *f = &p->f;
	const int last = (int)own->most[MOST_SEQ];
	if (!own->sum[SUM_SEQS])
		return 0;
	*f = s->f;
	f->num_seqs = own->sum[SUM_SEQS];
	f->query_tokens = own->sum[SUM_QUERIES];
	f->kv_tokens = own->sum[SUM_KEYS];
	f->work = own->sum[SUM_PAIRS];
	f->max_seq = own->most[MOST_KEYS];
	f->decode_seqs = decode->sum[SUM_SEQS];
	f->decode_kv = decode->sum[SUM_KEYS];
	f->prefill_tokens = prefill->sum[SUM_QUERIES];
	p->max_query = (int)own->most[MOST_QUERY];
	p->min_query = (int)-own->most[MOST_NEG_QUERY];
	p->seq_begin = (int)-own->most[MOST_NEG_SEQ];
	p->seq_count = last + 1 - p->seq_begin;
	p->range_tokens = query_start[last + 1] - query_start[p->seq_begin];
	f->prefill_share =
	    part_prefill_share(f, p->max_query > DECODE_MAX_QUERY ? prefill->sum[SUM_PAIRS] : 0,
			       p->min_query <= DECODE_MAX_QUERY ? decode->sum[SUM_KEYS] : 0);
	part_derive(p);
	return 1;
}

#endif
