/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c - defines attention over a paged cache, in fp64 and without any optimization. A query
 * token at position i sees the keys
 *
 *   j in [ i - window + 1 if window else 0,  i if causal else seq_len - 1 ]
 *
 *   s_j = scale * (q . k_j);  softcap: s_j = cap * tanh(s_j / cap);
 *   alibi: s_j += slope * (j - i)
 *   o   = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m)),
 *   m   = max(all s_j, sink)
 *
 * and o = 0 if it sees none. Heads without a sink lack its terms. k_j and v_j are the cache's
 * elements times its scales. The row's LSE is m + log(the divisor of o), minus infinity if it sees
 * none. */
#include "reference.h"
#include "kernels/args_more.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <string.h>

static double float_value(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static double half_value(unsigned bits)
{
	const unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
	const double sign = bits >> 15 ? -1 : 1;
	if (exponent == 31)
		return fraction ? NAN : sign * INFINITY;
	if (!exponent)
		return sign * fraction * 0x1p-24;
	return sign * float_value((exponent + 127 - 15) << 23 | fraction << 13);
}

/* 0x7f and 0xff are NaN; there is no infinity. */
static double e4m3_value(unsigned bits)
{
	const unsigned exponent = bits >> 3 & 15, fraction = bits & 7;
	const double sign = bits >> 7 ? -1 : 1;
	if ((bits & 127) == 127)
		return NAN;
	if (!exponent)
		return sign * fraction * 0x1p-9;
	return sign * float_value((exponent + 127 - 7) << 23 | fraction << 20);
}

double value_of(enum attune_dtype type, const void *array, long long index)
{
	const uint16_t *narrow = array;
	if (type == ATTUNE_F32)
		return ((const float *)array)[index];
	if (type == ATTUNE_F16)
		return half_value(narrow[index]);
	if (type == ATTUNE_E4M3)
		return e4m3_value(((const uint8_t *)array)[index]);
	return float_value((uint32_t)narrow[index] << 16);
}

static uint16_t to_bf16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	if (isnan(value))
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The exponent and fraction of a size to the nearest, ties to even; digits: of the significand, the
 * leading one included; least: the exponent of the least normal number. A fraction that rounds up to
 * the next power of two carries into the exponent by itself. */
static unsigned encoded(double size, int digits, int least)
{
	const int most = digits - least;
	int exponent;
	if (!size)
		return 0;
	frexp(size, &exponent); /* size = 0.5..1 x 2^exponent */
	const int shift = exponent < least ? most : digits - exponent;
	const long kept = lrint(ldexp(size, shift));
	return (unsigned)(((long)(most - shift) << (digits - 1)) + kept);
}

static uint16_t to_f16(float value)
{
	const unsigned sign = signbit(value) ? 0x8000 : 0;
	const double size = fabs((double)value);
	if (isnan(value))
		return 0x7e00;
	/* from half way to the first value that does not fit */
	return (uint16_t)(sign | (size >= 65520 ? 0x7c00 : encoded(size, 11, -13)));
}

/* Values that round beyond 448, the largest, become NaN: there is no infinity. */
static uint8_t to_e4m3(float value)
{
	const unsigned sign = signbit(value) ? 0x80 : 0;
	const double size = fabs((double)value);
	/* beyond half way to the first value that does not fit, which is even */
	return (uint8_t)(sign | (!(size <= 464) ? 0x7f : encoded(size, 4, -5)));
}

void value_put(enum attune_dtype type, void *array, long long index, float value)
{
	if (type == ATTUNE_F32)
		((float *)array)[index] = value;
	else if (type == ATTUNE_E4M3)
		((uint8_t *)array)[index] = to_e4m3(value);
	else
		((uint16_t *)array)[index] = type == ATTUNE_F16 ? to_f16(value) : to_bf16(value);
}

struct kv_place kv_place(const struct attune_args *a, const attune_shape *s, int is_v, int page,
			 int slot, int kv_head)
{
	const long long head = is_v ? page * a->v_page_stride + kv_head * a->v_head_stride
				    : page * a->k_page_stride + kv_head * a->k_head_stride;
	const int run = is_v ? 1 : 16 / dtype_bytes(s->kv_dtype);
	if (s->kv_layout == ATTUNE_KV_CLASSIC)
		return (struct kv_place){ head + slot * run, run, s->page_size * run };
	return (struct kv_place){ head + slot * (is_v ? a->v_slot_stride : a->k_slot_stride),
				  s->head_size, 0 };
}

static void fetch_from_memory(const struct kv_source *source, int is_v, int page, int slot,
			      int kv_head, double *row)
{
	const void *cache = is_v ? source->args->v_cache : source->args->k_cache;
	const struct kv_place at = kv_place(source->args, source->shape, is_v, page, slot, kv_head);
	for (int d = 0; d < source->shape->head_size; d++)
		row[d] = value_of(source->shape->kv_dtype, cache,
				  at.first + d / at.run * at.step + d % at.run);
}

struct row {
	const struct kv_source *source;
	int seq, head, kv_head, position;
	double q[512], k[512];
};

static double scale_of(const struct row *r, int is_v)
{
	const struct attune_more *m = r->source->scales;
	const float *scale = !m ? NULL : is_v ? m->v_scale : m->k_scale;
	if (!scale)
		return 1;
	return is_v ? scale[r->seq * m->v_scale_seq_stride + r->kv_head * m->v_scale_head_stride]
		    : scale[r->seq * m->k_scale_seq_stride + r->kv_head * m->k_scale_head_stride];
}

static void fetch(struct row *r, int is_v, int key, double *out)
{
	const struct attune_args *a = r->source->args;
	const int page =
	    a->block_table[(long long)r->seq * a->block_table_stride + key / a->page_size];
	r->source->fetch(r->source, is_v, page, key % a->page_size, r->kv_head, out);
	const double scale = scale_of(r, is_v);
	for (int d = 0; scale != 1 && d < r->source->shape->head_size; d++)
		out[d] *= scale;
}

/* Compilers vectorize loops of LANES steps. */
enum { LANES = 8 };

/* In LANES sums, so that no addition waits for the one before it. */
static double dot(const double *a, const double *b, int n)
{
	double part[LANES] = { 0 }, sum = 0;
	int d = 0;
	for (; d + LANES <= n; d += LANES)
		for (int i = 0; i < LANES; i++)
			part[i] += a[d + i] * b[d + i];
	for (; d < n; d++)
		sum += a[d] * b[d];
	for (int i = 0; i < LANES; i++)
		sum += part[i];
	return sum;
}

static double score(struct row *r, int key)
{
	const struct attune_args *a = r->source->args;
	fetch(r, 0, key, r->k);
	double s = a->scale * dot(r->q, r->k, r->source->shape->head_size);
	if (a->softcap > 0)
		s = a->softcap * tanh(s / a->softcap);
	if (a->alibi_slopes)
		s += (double)a->alibi_slopes[r->head] * (key - r->position);
	return s;
}

/* Adds p * v to out and p * |v| to mass. */
static void add_value(double *restrict out, double *restrict mass, const double *restrict v,
		      double p, int n)
{
	int d = 0;
	for (; d + LANES <= n; d += LANES)
		for (int i = 0; i < LANES; i++) {
			out[d + i] += p * v[d + i];
			mass[d + i] += p * fabs(v[d + i]);
		}
	for (; d < n; d++) {
		out[d] += p * v[d];
		mass[d] += p * fabs(v[d]);
	}
}

static double square(double x)
{
	return x * x;
}

/* kv_source.squares. m, sum, out: of the row. An error e_i of q_i x e_i changes score j by
 * scale k_ji q_i e_i, and so out by w_j (v_j - out) times that, w_j = exp(s_j - m) / sum. The shares
 * of all keys are of random sign, so they add up as squares, too. */
static void add_squares(struct row *r, int begin, int end, double m, double sum, const double *out)
{
	const struct kv_source *source = r->source;
	const int size = source->shape->head_size;
	const double least = 0x1p-6;
	double v[512];
	for (int key = begin; key < end; key++) {
		const double p = exp(score(r, key) - m);
		const double by_weight = square(fmax(p, least) / sum);
		double by_q = 0;
		for (int d = 0; d < size; d++)
			by_q += square(fmax(fabs(r->q[d]), least) * r->k[d]);
		by_q *= square(source->args->scale * p / sum);
		fetch(r, 1, key, v);
		for (int d = 0; d < size; d++)
			source->squares[d] +=
			    by_weight * square(v[d]) + by_q * square(v[d] - out[d]);
	}
}

void reference_row_from(const struct kv_source *source, int seq, int token, int head, double *out)
{
	const struct attune_args *a = source->args;
	const int size = source->shape->head_size, first = a->query_start[seq];
	const int query = a->query_start[seq + 1] - first, seq_len = a->seq_lens[seq];
	struct row r = {
		source, seq, head, head / a->group, seq_len - query + token, { 0 }, { 0 }
	};
	double m = -INFINITY, sum = 0, v[512], unused[512], not_wanted;
	double *mass = source->mass ? source->mass : unused;
	double *lse = source->lse ? source->lse : &not_wanted;
	const long long from = a->window ? (long long)r.position - a->window + 1 : 0;
	const long long to = a->causal ? (long long)r.position + 1 : seq_len;
	const int begin = from > 0 ? (int)from : 0, end = to < seq_len ? (int)to : seq_len;
	for (int d = 0; d < size; d++) {
		r.q[d] =
		    value_of(source->shape->dtype, a->q,
			     (first + token) * a->q_token_stride + head * a->q_head_stride + d);
		out[d] = mass[d] = 0;
		if (source->squares)
			source->squares[d] = 0;
	}
	*lse = -INFINITY;
	if (begin >= end)
		return;
	for (int key = begin; key < end; key++) {
		const double s = score(&r, key);
		m = fmax(m, s);
		if (source->scores)
			source->scores[key] = s;
	}
	if (a->sinks) {
		m = fmax(m, a->sinks[head]);
		sum = exp(a->sinks[head] - m);
	}
	for (int key = begin; key < end; key++) {
		const double s = source->scores ? source->scores[key] : score(&r, key);
		const double p = exp(s - m);
		fetch(&r, 1, key, v);
		sum += p;
		add_value(out, mass, v, p, size);
	}
	*lse = m + log(sum);
	for (int d = 0; d < size; d++) {
		out[d] /= sum;
		mass[d] /= sum;
	}
	if (source->squares)
		add_squares(&r, begin, end, m, sum, out);
}

void reference_row(const struct attune_args *args, const attune_shape *shape, int seq, int token,
		   int head, double *out)
{
	const struct kv_source memory = { .fetch = fetch_from_memory,
					  .args = args,
					  .shape = shape };
	reference_row_from(&memory, seq, token, head, out);
}
