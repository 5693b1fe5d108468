/* vllm_cpu.cpp - vLLM's CPU attention as a plug-in: schedules once a batch, as vLLM's metadata
 * builder does, and calls the main loop once a layer.
 *
 * vLLM's cache has K of a page and head as [head_size][page_size], which no strides of attune's
 * layouts describe. So a plan holds the batch's pages in vLLM's layout:
 *
 *   [pages][KV heads][ K [head_size][page_size] | V [page_size][head_size] ]
 *
 * Pages are numbered by the order of their numbers in attune's cache, so that they are visited in
 * as random an order as there. Slots that hold no token are zeros, as in a cache that was cleared
 * once. */
#include "vllm_cpu.h"
#include "adapters/openmp.h"
#include <sys/mman.h>

/* Memory that vLLM's calls share; schedule enlarges it. */
namespace cpu_utils
{
ScratchPadManager::ScratchPadManager() : size_(0), ptr_(nullptr)
{
	realloc(128 * allocation_unit); /* as vLLM */
}

void ScratchPadManager::realloc(size_t size)
{
	size = round(size);
	if (size <= size_)
		return;
	void *const more = std::aligned_alloc(64, size);
	if (!more)
		throw std::bad_alloc();
	std::free(ptr_);
	ptr_ = more;
	size_ = size;
}

ScratchPadManager *ScratchPadManager::get_scratchpad_manager()
{
	static ScratchPadManager manager;
	return &manager;
}
} // namespace cpu_utils

namespace
{

/* ---- what it runs ------------------------------------------------------------------- */

enum { SPLIT_KV, NUM_AXES };
const int zero_one[] = { 0, 1 };
const attune_plugin_axis axes[NUM_AXES] = {
	{ "SPLIT_KV", "1: threads share a long decode; VLLM_CPU_ATTN_SPLIT_KV", zero_one, 2, 1 },
};

const vllm_kernel *find(const attune_shape *s)
{
	const vllm_kernels all = s->dtype == ATTUNE_F32   ? vllm_kernels_f32()
				 : s->dtype == ATTUNE_F16 ? vllm_kernels_f16()
							  : vllm_kernels_bf16();
	const int key_step = s->page_size % 32 || s->head_size % 32 ? 16 : 32;
	for (const vllm_kernel *k = all.v; k < all.v + all.n; k++)
		if (k->head_size == s->head_size && k->key_step == key_step)
			return k;
	return nullptr;
}

const char *refuses(const attune_shape *s, const int *, const attune_plugin_part *p,
		    const attune_plugin_device *device)
{
	if (strcmp(device->arch, "avx512"))
		return "CPUs without AVX-512";
	if (s->dtype == ATTUNE_BF16 && s->page_size % 32 == 0 && __builtin_cpu_supports("amx-bf16"))
		return "BF16 on CPUs with AMX, where vLLM has another kernel";
	if (s->dtype != s->kv_dtype)
		return "a cache of another type than q";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout";
	if (s->page_size % 16)
		return "page sizes that are no multiple of 16";
	if (!find(s))
		return "head sizes other than 64, 80, 96, 128, 192 and 256";
	if (!s->causal)
		return "attention without a causal mask";
	if (s->has_sinks)
		return "sinks as floats: vLLM has them as BF16";
	if (s->has_lse)
		return "an LSE";
	if (p && p->kv_tokens < p->query_tokens) /* plan compares them one by one */
		return "queries that are longer than their sequences";
	return nullptr;
}

int failed(char *error, const char *what)
{
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", what);
	return 1;
}

/* ---- ops and plans ------------------------------------------------------------------ */

struct op {
	attune_shape shape;
	const vllm_kernel *kernel;
	bool split;
};

struct batch {
	std::vector<int32_t> query_start, seq_lens, table;
	std::vector<int32_t> pages; /* attune's number of each of the cache's pages, ascending */
	size_t table_stride;
	torch::Tensor schedule;
	vllm_cache cache;

	~batch()
	{
		std::free(cache.memory);
	}
};

int prepare(void **out, const attune_shape *shape, const int *values,
	    const attune_plugin_device *device, char *error)
{
	op *const o = new (std::nothrow) op{ *shape, find(shape), values[SPLIT_KV] != 0 };
	if (!o)
		return failed(error, "out of memory");
	openmp_use(device);
	*out = o;
	return 0;
}

void free_op(void *o)
{
	delete static_cast<op *>(o);
}

void schedule(const op *o, batch *b)
{
	cpu_attention::AttentionScheduler::ScheduleInput in = {};
	in.num_reqs = static_cast<int32_t>(b->seq_lens.size());
	in.num_heads_q = o->shape.num_query_heads;
	in.num_heads_kv = o->shape.num_kv_heads;
	in.head_dim = o->shape.head_size;
	in.query_start_loc = b->query_start.data();
	in.seq_lens = b->seq_lens.data();
	in.sliding_window_size = o->shape.window ? o->shape.window : -1;
	in.causal = true;
	in.enable_kv_split = o->split;
	b->schedule = o->kernel->schedule(in);
}

size_t pages_of(const op *o, int32_t tokens)
{
	return (static_cast<size_t>(tokens) + o->shape.page_size - 1) / o->shape.page_size;
}

/* Numbers the pages that hold tokens, and makes the table of these numbers. */
void number_pages(const op *o, const attune_tensors *t, batch *b)
{
	b->table_stride = 1;
	for (size_t i = 0; i < b->seq_lens.size(); i++) {
		const int32_t *const row = t->block_table + i * t->block_table_stride;
		const size_t n = pages_of(o, b->seq_lens[i]);
		b->pages.insert(b->pages.end(), row, row + n);
		b->table_stride = std::max(b->table_stride, n);
	}
	std::sort(b->pages.begin(), b->pages.end());
	b->pages.erase(std::unique(b->pages.begin(), b->pages.end()), b->pages.end());
	b->table.assign(b->table_stride * b->seq_lens.size(), 0);
	for (size_t i = 0; i < b->seq_lens.size(); i++)
		for (size_t j = 0; j < pages_of(o, b->seq_lens[i]); j++)
			b->table[i * b->table_stride + j] = static_cast<int32_t>(
			    std::lower_bound(b->pages.begin(), b->pages.end(),
					     t->block_table[i * t->block_table_stride + j]) -
			    b->pages.begin());
}

/* In huge pages where the kernel gives them, as attune's own cache. */
void take_cache(const op *o, batch *b)
{
	const attune_shape *s = &o->shape;
	const size_t unit = 2 << 20, size = s->dtype == ATTUNE_F32 ? 4 : 2;
	const size_t head = size_t(2) * s->page_size * s->head_size, page = head * s->num_kv_heads;
	const size_t bytes = (b->pages.size() * page * size + unit) / unit * unit;
	char *const memory = static_cast<char *>(std::aligned_alloc(unit, bytes));
	if (!memory)
		throw std::bad_alloc();
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 0, bytes);
	b->cache = { memory, static_cast<int64_t>(page), static_cast<int64_t>(head),
		     s->num_kv_heads, s->page_size };
}

int plan(void *op_, const attune_plugin_batch *in, void **out, size_t *workspace, char *error)
{
	const op *const o = static_cast<op *>(op_);
	const attune_batch *const l = &in->lengths;
	for (int i = 0; i < l->num_seqs; i++)
		if (l->query_start[i + 1] - l->query_start[i] > l->seq_lens[i])
			return failed(error, "a query is longer than its sequence");
	try {
		auto b = std::make_unique<batch>();
		b->query_start.assign(l->query_start, l->query_start + l->num_seqs + 1);
		b->seq_lens.assign(l->seq_lens, l->seq_lens + l->num_seqs);
		schedule(o, b.get());
		*out = b.release();
	} catch (const std::exception &e) {
		return failed(error, e.what());
	}
	*workspace = 0;
	return 0;
}

void free_plan(void *, void *plan)
{
	delete static_cast<batch *>(plan);
}

/* ---- the cache in vLLM's layout ----------------------------------------------------- */

/* Copies the tokens of one page, by the call that an engine makes for each step's tokens. */
void store_page(const op *o, const attune_tensors *t, const batch *b, int32_t number, int tokens)
{
	const int64_t size = o->shape.dtype == ATTUNE_F32 ? 4 : 2, from = b->pages[number];
	std::vector<int64_t> slots(tokens);
	for (int i = 0; i < tokens; i++)
		slots[i] = int64_t(number) * o->shape.page_size + i;
	const vllm_rows rows = {
		static_cast<const char *>(t->k_cache) + from * t->k_page_stride * size,
		static_cast<const char *>(t->v_cache) + from * t->v_page_stride * size,
		t->k_slot_stride,
		t->v_slot_stride,
		t->k_head_stride,
		t->v_head_stride,
		slots.data(),
		tokens
	};
	o->kernel->store(&b->cache, &rows);
}

int store(void *op_, void *plan, const attune_tensors *t, void *, char *error)
{
	const op *const o = static_cast<op *>(op_);
	batch *const b = static_cast<batch *>(plan);
	const int page_size = o->shape.page_size;
	try {
		number_pages(o, t, b);
		take_cache(o, b);
		for (size_t i = 0; i < b->seq_lens.size(); i++)
			for (int32_t at = 0; at < b->seq_lens[i]; at += page_size)
				store_page(o, t, b, b->table[i * b->table_stride + at / page_size],
					   std::min(page_size, b->seq_lens[i] - at));
	} catch (const std::exception &e) {
		return failed(error, e.what());
	}
	return 0;
}

/* ---- a launch ----------------------------------------------------------------------- */

int launch(void *op_, void *plan, const attune_tensors *t, void *, void *, char *error)
{
	const op *const o = static_cast<op *>(op_);
	batch *const b = static_cast<batch *>(plan);
	const attune_shape *const s = &o->shape;
	const int64_t size = s->dtype == ATTUNE_F32 ? 4 : 2;
	cpu_attention::AttentionInput in = {};
	in.metadata = static_cast<cpu_attention::AttentionMetadata *>(b->schedule.data_ptr());
	in.num_tokens = b->query_start.back() - b->query_start.front();
	in.num_heads = s->num_query_heads;
	in.num_kv_heads = s->num_kv_heads;
	in.block_size = s->page_size;
	in.query = const_cast<void *>(t->q);
	in.query_num_tokens_stride = t->q_token_stride;
	in.query_num_heads_stride = t->q_head_stride;
	in.cache_num_blocks_stride = b->cache.page_stride;
	in.cache_num_kv_heads_stride = b->cache.head_stride;
	in.blt_num_tokens_stride = static_cast<int64_t>(b->table_stride);
	in.key_cache = b->cache.memory;
	in.value_cache = b->cache.memory + size * s->page_size * s->head_size;
	in.output = t->out;
	in.query_start_loc = b->query_start.data();
	in.seq_lens = b->seq_lens.data();
	in.block_table = b->table.data();
	in.alibi_slopes = s->has_alibi ? const_cast<float *>(t->alibi_slopes) : nullptr;
	in.scale = s->scale > 0 ? s->scale : 1 / std::sqrt(static_cast<float>(s->head_size));
	in.causal = true;
	in.sliding_window_size = s->window ? s->window : -1;
	in.softcap = s->softcap;
	try {
		o->kernel->attend(&in);
	} catch (const std::exception &e) {
		return failed(error, e.what());
	}
	return 0;
}

const attune_plugin plugin = {
	.abi = ATTUNE_PLUGIN_ABI,
	.name = "vllm_cpu",
	.version = VERSION,
	.about = "vLLM's CPU attention over its own paged cache",
	.backend = "cpu",
	.needs = ATTUNE_PLUGIN_DENSE_ROWS,
	.axes = axes,
	.num_axes = NUM_AXES,
	.refuses = refuses,
	.prepare = prepare,
	.plan = plan,
	.launch = launch,
	.free_plan = free_plan,
	.free_op = free_op,
	.store = store,
};

} // namespace

extern "C" __attribute__((visibility("default"))) const attune_plugin *const *attune_plugins(void)
{
	static const attune_plugin *const list[] = { &plugin, nullptr };
	return list;
}
