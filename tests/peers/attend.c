/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c - attention of BF16 over pages, for native_peer.py. */
#include <math.h>
#include <stdint.h>
#include <string.h>

struct attend {
	const uint16_t *q, *k, *v;
	uint16_t *out;
	const int32_t *table; /* of the sequence */
	int64_t q_token, q_head, out_token, out_head;
	int64_t k_page, k_slot, k_head, v_page, v_slot, v_head; /* strides */
	int64_t queries, keys, heads, group, size, page, causal;
	double scale;
};

static float wide(uint16_t v)
{
	const uint32_t bits = (uint32_t)v << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static uint16_t narrow(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void row(const struct attend *a, int64_t i, int64_t h)
{
	const uint16_t *q = a->q + i * a->q_token + h * a->q_head;
	uint16_t *out = a->out + i * a->out_token + h * a->out_head;
	const int64_t kv = h / a->group, end = a->causal ? a->keys - a->queries + i + 1 : a->keys;
	double most = -INFINITY, total = 0, sum[256] = { 0 };
	for (int64_t j = 0; j < end; j++) {
		const int64_t page = a->table[j / a->page], slot = j % a->page;
		const uint16_t *k = a->k + page * a->k_page + slot * a->k_slot + kv * a->k_head;
		const uint16_t *v = a->v + page * a->v_page + slot * a->v_slot + kv * a->v_head;
		double score = 0;
		for (int64_t d = 0; d < a->size; d++)
			score += wide(q[d]) * wide(k[d]);
		score *= a->scale;
		const double now = score > most ? score : most, fade = exp(most - now),
			     weight = exp(score - now);
		total = total * fade + weight;
		for (int64_t d = 0; d < a->size; d++)
			sum[d] = sum[d] * fade + weight * wide(v[d]);
		most = now;
	}
	for (int64_t d = 0; d < a->size; d++)
		out[d] = narrow((float)(sum[d] / total));
}

void attend(const struct attend *a)
{
	for (int64_t i = 0; i < a->queries; i++)
		for (int64_t h = 0; h < a->heads; h++)
			row(a, i, h);
}
