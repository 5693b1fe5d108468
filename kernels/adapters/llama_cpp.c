/* llama_cpp.c - llama.cpp's attention on the CPU as a plug-in: a graph of the one node
 * ggml_flash_attn_ext, planned once a batch and computed once a layer.
 *
 * llama.cpp has no pages. Its cache has a row for each token, of all KV heads, in one of two ways:
 *
 *   UNIFIED=0   [streams][cells][KV heads][head_size]   a stream for each sequence; all have as
 *               many cells as the longest sequence needs, and as many query tokens
 *   UNIFIED=1   [cells][KV heads][head_size]            the cells of all sequences; each query
 *               token meets all of them, and the mask says which are its own
 *
 * Cells are counted in whole 256, as llama.cpp rounds them. The mask is F16, a row of cells for
 * each query token, made once a step. Cells that hold no token are zeros and masked. */
#include "openmp.h"
#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { UNIFIED, NUM_AXES, CELLS = 256, HUGE_PAGE = 2 << 20 };
static const long long most_mask = 1ll << 28; /* elements */

static const attune_plugin_axis axes[NUM_AXES] = {
	[UNIFIED] = { "UNIFIED",
		      "1: one cache for all sequences (--kv-unified); 0: a stream for each",
		      (const int[]){ 0, 1 }, 2, 0 },
};

static const char *refuses_part(const int *values, const attune_plugin_part *p)
{
	const long long cells = values[UNIFIED] ? p->kv_tokens : p->max_seq;
	if (!values[UNIFIED] && p->min_query != p->max_query)
		return "queries of different lengths in streams";
	if (values[UNIFIED] && p->num_seqs == 1)
		return "one sequence, which is the same in a stream";
	if (p->query_tokens * (cells + CELLS) > most_mask)
		return "a mask of more than 512 MiB";
	return NULL;
}

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *device)
{
	(void)device;
	if (s->dtype != ATTUNE_F32)
		return "queries of a type other than F32";
	if (s->kv_dtype != ATTUNE_F32 && s->kv_dtype != ATTUNE_F16)
		return "a cache of a type other than F32 and F16";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout";
	if (!s->causal || s->window || s->has_alibi)
		return "masks other than causal";
	if (s->has_lse)
		return "an LSE";
	return p ? refuses_part(values, p) : NULL;
}

static int out_of_memory(char *error)
{
	snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
	return 1;
}

/* ---- ops ---------------------------------------------------------------------------- */

struct op {
	attune_shape shape;
	int unified, units;
	struct ggml_threadpool *pool; /* ggml's; with OpenMP it starts no threads */
};

static int prepare(void **out, const attune_shape *shape, const int *values,
		   const attune_plugin_device *device, char *error)
{
	struct ggml_threadpool_params params = ggml_threadpool_params_default(device->units);
	struct op *o = malloc(sizeof *o);
	if (!o)
		return out_of_memory(error);
	openmp_use(device);
	ggml_cpu_init();
	*o = (struct op){ *shape, values[UNIFIED], device->units, ggml_threadpool_new(&params) };
	if (!o->pool) {
		free(o);
		return out_of_memory(error);
	}
	*out = o;
	return 0;
}

static void free_op(void *op)
{
	struct op *o = op;
	ggml_threadpool_free(o->pool);
	free(o);
}

/* ---- plans -------------------------------------------------------------------------- */

struct plan {
	int num_seqs, streams, queries; /* of each stream */
	int64_t cells;                  /* of each stream */
	int32_t *query_start, *seq_lens;
	int64_t *first_cell; /* of a sequence, among all */
	void *mask, *k, *v;
	struct ggml_context *ctx;
	struct ggml_tensor *q, *sinks, *out;
	struct ggml_cgraph *graph;
	struct ggml_cplan run;
};

static void free_plan(void *op, void *plan)
{
	struct plan *p = plan;
	(void)op;
	if (p->ctx)
		ggml_free(p->ctx);
	free(p->run.work_data);
	free(p->query_start);
	free(p->seq_lens);
	free(p->first_cell);
	free(p->mask);
	free(p->k);
	free(p->v);
	free(p);
}

/* Zeros, in huge pages where the kernel gives them, as attune's own cache. */
static void *take(size_t bytes)
{
	bytes = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
	void *const memory = aligned_alloc(HUGE_PAGE, bytes);
	if (memory) {
		(void)madvise(memory, bytes, MADV_HUGEPAGE);
		memset(memory, 0, bytes);
	}
	return memory;
}

static int copy_lengths(struct plan *p, const attune_batch *l)
{
	const size_t n = (size_t)l->num_seqs;
	p->query_start = malloc((n + 1) * sizeof *p->query_start);
	p->seq_lens = malloc((n + 1) * sizeof *p->seq_lens);
	p->first_cell = malloc((n + 1) * sizeof *p->first_cell);
	if (!p->query_start || !p->seq_lens || !p->first_cell)
		return 0;
	memcpy(p->query_start, l->query_start, (n + 1) * sizeof *p->query_start);
	memcpy(p->seq_lens, l->seq_lens, n * sizeof *p->seq_lens);
	return 1;
}

/* Gives each sequence its cells. */
static void place(struct plan *p, int unified)
{
	int64_t most = 0, all = 0;
	for (int i = 0; i < p->num_seqs; i++) {
		most = p->seq_lens[i] > most ? p->seq_lens[i] : most;
		p->first_cell[i] = all;
		all += p->seq_lens[i];
	}
	p->streams = unified ? 1 : p->num_seqs;
	p->queries = (p->query_start[p->num_seqs] - p->query_start[0]) / p->streams;
	p->cells = ((unified ? all : most) + CELLS - 1) / CELLS * CELLS;
	for (int i = 0; !unified && i < p->num_seqs; i++)
		p->first_cell[i] = i * p->cells;
}

/* [query tokens][cells]: 0 where the token sees the key, else minus infinity. */
static int make_mask(struct plan *p)
{
	const size_t rows = (size_t)p->streams * (size_t)p->queries, cells = (size_t)p->cells;
	const ggml_fp16_t hidden = ggml_fp32_to_fp16(-INFINITY);
	ggml_fp16_t *row = p->mask = take(rows * cells * sizeof *row);
	if (!row)
		return 0;
	for (int i = 0; i < p->num_seqs; i++) {
		const int queries = p->query_start[i + 1] - p->query_start[i];
		const int64_t first = p->first_cell[i] % p->cells;
		for (int t = 0; t < queries; t++, row += cells) {
			const int64_t end = first + p->seq_lens[i] - queries + t + 1;
			for (int64_t c = 0; c < p->cells; c++)
				if (c < first || c >= end)
					row[c] = hidden;
		}
	}
	return 1;
}

static struct ggml_tensor *view_cache(const struct op *o, const struct plan *p, void *memory)
{
	const attune_shape *s = &o->shape;
	const enum ggml_type type = s->kv_dtype == ATTUNE_F16 ? GGML_TYPE_F16 : GGML_TYPE_F32;
	const int64_t row = (int64_t)s->head_size * s->num_kv_heads;
	const size_t size = ggml_type_size(type), head = (size_t)s->head_size * size;
	struct ggml_tensor *all = ggml_new_tensor_1d(p->ctx, type, row * p->cells * p->streams);
	all->data = memory;
	return ggml_view_4d(p->ctx, all, s->head_size, p->cells, s->num_kv_heads, p->streams,
			    (size_t)row * size, head, (size_t)(row * p->cells) * size, 0);
}

/* The graph of one layer. q and out get their memory at each launch. */
static int make_graph(const struct op *o, struct plan *p, const attune_tensors *t)
{
	const attune_shape *s = &o->shape;
	const struct ggml_init_params params = { .mem_size = 1 << 20, .no_alloc = true };
	const float scale = s->scale > 0 ? s->scale : 1 / sqrtf((float)s->head_size);
	const size_t size = sizeof(float), token = (size_t)t->q_token_stride * size;
	p->ctx = ggml_init(params);
	if (!p->ctx)
		return 0;
	struct ggml_tensor *rows =
	    ggml_new_tensor_1d(p->ctx, GGML_TYPE_F32, t->q_token_stride * p->queries * p->streams);
	struct ggml_tensor *mask =
	    ggml_new_tensor_4d(p->ctx, GGML_TYPE_F16, p->cells, p->queries, 1, p->streams);
	mask->data = p->mask;
	p->q = ggml_view_4d(p->ctx, rows, s->head_size, p->queries, s->num_query_heads, p->streams,
			    token, (size_t)t->q_head_stride * size, token * (size_t)p->queries, 0);
	p->out = ggml_flash_attn_ext(p->ctx, p->q, view_cache(o, p, p->k), view_cache(o, p, p->v),
				     mask, scale, 0, s->softcap);
	if (s->has_sinks) {
		p->sinks = ggml_new_tensor_1d(p->ctx, GGML_TYPE_F32, s->num_query_heads);
		ggml_flash_attn_ext_add_sinks(p->out, p->sinks);
	}
	p->graph = ggml_new_graph_custom(p->ctx, 16, false);
	ggml_build_forward_expand(p->graph, p->out);
	p->run = ggml_graph_plan(p->graph, o->units, o->pool);
	p->run.work_data = malloc(p->run.work_size + 1);
	return p->run.work_data != NULL;
}

static int plan_batch(void *op, const attune_plugin_batch *b, void **out, size_t *workspace,
		      char *error)
{
	const struct op *o = op;
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return out_of_memory(error);
	p->num_seqs = b->lengths.num_seqs;
	if (!copy_lengths(p, &b->lengths)) {
		free_plan(op, p);
		return out_of_memory(error);
	}
	place(p, o->unified);
	if (!make_mask(p)) {
		free_plan(op, p);
		return out_of_memory(error);
	}
	*workspace = 0;
	*out = p;
	return 0;
}

/* ---- the cache in llama.cpp's layout ------------------------------------------------ */

static void copy_sequence(const attune_shape *s, const struct plan *p, const attune_tensors *t,
			  int seq)
{
	const int32_t *pages = t->block_table + (int64_t)seq * t->block_table_stride;
	const size_t size = s->kv_dtype == ATTUNE_F16 ? 2 : 4, head = (size_t)s->head_size * size;
	const size_t row = head * (size_t)s->num_kv_heads;
	for (int key = 0; key < p->seq_lens[seq]; key++) {
		const int64_t page = pages[key / s->page_size], slot = key % s->page_size;
		const int64_t k = page * t->k_page_stride + slot * t->k_slot_stride;
		const int64_t v = page * t->v_page_stride + slot * t->v_slot_stride;
		const size_t to = (size_t)(p->first_cell[seq] + key) * row;
		for (int h = 0; h < s->num_kv_heads; h++) {
			const size_t at = to + (size_t)h * head;
			memcpy((char *)p->k + at,
			       (const char *)t->k_cache + (size_t)(k + h * t->k_head_stride) * size,
			       head);
			memcpy((char *)p->v + at,
			       (const char *)t->v_cache + (size_t)(v + h * t->v_head_stride) * size,
			       head);
		}
	}
}

static int store(void *op, void *plan, const attune_tensors *t, void *stream, char *error)
{
	const struct op *o = op;
	const attune_shape *s = &o->shape;
	struct plan *p = plan;
	const size_t cells = (size_t)p->cells * (size_t)p->streams;
	const size_t bytes = cells * (size_t)s->num_kv_heads * (size_t)s->head_size *
			     (s->kv_dtype == ATTUNE_F16 ? 2 : 4);
	(void)stream;
	p->k = take(bytes);
	p->v = take(bytes);
	if (!p->k || !p->v || !make_graph(o, p, t))
		return out_of_memory(error);
	for (int i = 0; i < p->num_seqs; i++)
		copy_sequence(s, p, t, i);
	return 0;
}

/* ---- a launch ----------------------------------------------------------------------- */

static int launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	struct plan *p = plan;
	const int64_t first = p->query_start[0];
	(void)op, (void)workspace, (void)stream;
	p->q->data = (float *)(uintptr_t)t->q + first * t->q_token_stride;
	p->out->data = (float *)t->out + first * t->out_token_stride;
	if (p->sinks)
		p->sinks->data = (void *)(uintptr_t)t->sinks;
	if (ggml_graph_compute(p->graph, &p->run) == GGML_STATUS_SUCCESS)
		return 0;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "ggml_graph_compute failed");
	return 1;
}

static const attune_plugin plugin = { .abi = ATTUNE_PLUGIN_ABI,
				      .name = "llama_cpp",
				      .version = VERSION,
				      .about = "llama.cpp's ggml_flash_attn_ext over its own cache",
				      .backend = "cpu",
				      .needs = ATTUNE_PLUGIN_DENSE_ROWS,
				      .axes = axes,
				      .num_axes = NUM_AXES,
				      .refuses = refuses,
				      .prepare = prepare,
				      .plan = plan_batch,
				      .launch = launch,
				      .free_plan = free_plan,
				      .free_op = free_op,
				      .store = store };

__attribute__((visibility("default"))) const attune_plugin *const *attune_plugins(void);
const attune_plugin *const *attune_plugins(void)
{
	static const attune_plugin *const list[] = { &plugin, NULL };
	return list;
}
