/* SPDX-License-Identifier: Apache-2.0 */
// paged.cpp - paged.c in C++17. It also asks the generated header for CPUs what it would choose.
#include <attune.h>
#include <attune/attune_cpu.h>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

constexpr int num_seqs = 3, query_heads = 8, kv_heads = 2, head_size = 64;
constexpr int page_size = 16, table_stride = 8, num_pages = num_seqs * table_stride;

void check(attune_status status)
{
	if (status)
		throw std::runtime_error(attune_last_error());
}

std::vector<float> random_numbers(std::size_t n)
{
	static std::mt19937 bits(1);
	std::vector<float> v(n);
	for (float &x : v)
		x = std::uniform_real_distribution<float>(-1, 1)(bits);
	return v;
}

// One layer's cache: [page][slot][KV head][element], and which pages each sequence has.
struct Cache {
	std::vector<float> k = random_numbers(num_pages * page_size * kv_heads * head_size);
	std::vector<float> v = random_numbers(k.size());
	std::int32_t table[num_pages];
	Cache()
	{
		for (int i = 0; i < num_pages; i++) // sequences take turns
			table[i % num_seqs * table_stride + i / num_seqs] = i;
	}
	std::size_t at(int seq, int key, int kv_head) const
	{
		const int page = table[seq * table_stride + key / page_size];
		return ((page * page_size + key % page_size) * kv_heads + kv_head) * head_size;
	}
};

// The largest error in a row of the output, whose token sees keys 0 .. keys - 1.
double row_error(const Cache &c, int seq, int head, int keys, const float *q, const float *out)
{
	double want[head_size] = {}, sum = 0, error = 0;
	for (int key = 0; key < keys; key++) {
		const std::size_t at = c.at(seq, key, head / (query_heads / kv_heads));
		double dot = 0;
		for (int d = 0; d < head_size; d++)
			dot += q[d] * c.k[at + d];
		const double weight = std::exp(dot / std::sqrt(head_size));
		sum += weight;
		for (int d = 0; d < head_size; d++)
			want[d] += weight * c.v[at + d];
	}
	for (int d = 0; d < head_size; d++)
		error = std::fmax(error, std::fabs(want[d] / sum - out[d]));
	return error;
}

void step(const attune_op *op, const Cache &c, const char *name,
	  const std::vector<std::int32_t> &start, const std::vector<std::int32_t> &lens)
{
	attune_batch batch = {};
	batch.size = sizeof batch, batch.num_seqs = num_seqs;
	batch.query_start = start.data(), batch.seq_lens = lens.data();
	const std::vector<float> q = random_numbers(start.back() * query_heads * head_size);
	std::vector<float> out(q.size());
	attune_tensors t = {}; // strides in elements
	t.out = out.data(), t.q = q.data(), t.k_cache = c.k.data(), t.v_cache = c.v.data();
	t.block_table = c.table, t.query_start = start.data(), t.seq_lens = lens.data();
	t.size = sizeof t, t.block_table_stride = table_stride;
	t.q_token_stride = t.out_token_stride = query_heads * head_size;
	t.k_page_stride = t.v_page_stride = page_size * kv_heads * head_size;
	t.k_slot_stride = t.v_slot_stride = kv_heads * head_size;
	t.q_head_stride = t.out_head_stride = t.k_head_stride = t.v_head_stride = head_size;
	attune_plan plan = {};
	plan.size = sizeof plan;
	check(attune_plan_batch(op, &batch, &plan));
	attune_features features;
	check(attune_batch_features(op, &batch, ATTUNE_PHASE_ALL, &features, sizeof features));
	std::vector<char> workspace(plan.workspace);
	check(attune_run(op, &plan, &t, workspace.data(), workspace.size(), nullptr));

	double error = 0;
	for (int seq = 0; seq < num_seqs; seq++)
		for (int i = start[seq]; i < start[seq + 1]; i++)
			for (int head = 0; head < query_heads; head++) {
				const int at = (i * query_heads + head) * head_size;
				const int keys = lens[seq] - start[seq + 1] + i + 1;
				const double here = row_error(c, seq, head, keys, &q[at], &out[at]);
				error = std::fmax(error, here);
			}
	const auto tree = features.max_query > 8 ? attune_cpu_prefill : attune_cpu_decode;
	std::printf("%s of %lld tokens: choice %d of the header, largest error %.1e: %s\n", name,
		features.query_tokens, tree(&features), error, error < 1e-5 ? "right" : "WRONG");
	if (!(error < 1e-5))
		throw std::runtime_error("wrong output");
}

int main()
try {
	attune_shape shape = {};
	shape.num_query_heads = query_heads, shape.num_kv_heads = kv_heads;
	shape.head_size = head_size, shape.page_size = page_size, shape.causal = 1;
	shape.size = sizeof shape, shape.dtype = shape.kv_dtype = ATTUNE_F32;
	attune_context *opened;
	attune_op *prepared;
	check(attune_open(&opened, "cpu"));
	const std::unique_ptr<attune_context, decltype(&attune_close)> ctx(opened, attune_close);
	check(attune_prepare(opened, &shape, &prepared));
	const std::unique_ptr<attune_op, decltype(&attune_release)> op(prepared, attune_release);
	const Cache cache;
	step(op.get(), cache, "prefill", { 0, 20, 29, 59 }, { 20, 50, 100 });
	step(op.get(), cache, "decode", { 0, 1, 2, 3 }, { 21, 51, 101 });
} catch (const std::exception &e) {
	std::fprintf(stderr, "%s\n", e.what());
	return 1;
}
