/* tileops.c - TileOPs' paged GQA decode as a plug-in: calls the functions that TileLang made.
 *
 * TileOPs cuts the capacity of a row of the block table, not a sequence, into splits of whole
 * tiles, once a step. The capacity here is that of the longest sequence, which suits TileOPs best.
 * Below a tile for each split it takes the kernel without splits, as here. The workspace of splits:
 *
 *   LSE       [sequences][KV heads][splits][group]              float
 *   partials  [sequences][KV heads][splits][group][head_size]   BF16 */
#include "attune_plugin.h"
#include "tileops_table.h"
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEAD_SIZE = 128 };

/* ---- the compiled functions --------------------------------------------------------- */

#define ROW_SPLIT(heads, kv, page, splits, tile, name)                                        \
	int name##_init(void);                                                                \
	const char *name##_error(void);                                                       \
	int name##_call(const void *q, const void *k, const void *v, const int32_t *seq_lens, \
			const int32_t *table, void *lse, void *partials,                      \
			const int32_t *split_ends, void *out, int batch, int width,           \
			cudaStream_t stream);
#define ROW(heads, kv, page, splits, tile, name)                                              \
	int name##_init(void);                                                                \
	const char *name##_error(void);                                                       \
	int name##_call(const void *q, const void *k, const void *v, const int32_t *seq_lens, \
			const int32_t *table, void *out, int batch, int width,                \
			cudaStream_t stream);
TILEOPS_ROWS
#undef ROW_SPLIT
#undef ROW

typedef int split_call(const void *, const void *, const void *, const int32_t *, const int32_t *,
		       void *, void *, const int32_t *, void *, int, int, cudaStream_t);
typedef int whole_call(const void *, const void *, const void *, const int32_t *, const int32_t *,
		       void *, int, int, cudaStream_t);

static const struct code {
	int heads, kv_heads, page, splits, tile; /* tile: keys */
	int (*init)(void);
	const char *(*error)(void);
	split_call *split; /* NULL: without splits */
	whole_call *whole;
} table[] = {
#define ROW_SPLIT(h, kv, page, splits, tile, name) \
	{ h, kv, page, splits, tile, name##_init, name##_error, name##_call, NULL },
#define ROW(h, kv, page, splits, tile, name) \
	{ h, kv, page, splits, tile, name##_init, name##_error, NULL, name##_call },
	TILEOPS_ROWS
#undef ROW_SPLIT
#undef ROW
};

enum { NUM_SPLIT, NUM_AXES };
static const attune_plugin_axis axes[NUM_AXES] = {
	[NUM_SPLIT] = { "NUM_SPLIT", "splits of each sequence; 16 is TileOPs' default",
			(const int[]){ 1, 4, 16 }, 3, 16 },
};

/* NULL: none was compiled. */
static const struct code *find(const attune_shape *s, int splits)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].heads == s->num_query_heads && table[i].kv_heads == s->num_kv_heads &&
		    table[i].page == s->page_size && table[i].splits == splits)
			return &table[i];
	return NULL;
}

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *device)
{
	const float usual = 1 / sqrtf(HEAD_SIZE);
	if (device->arch[0] != 's' || device->arch[3] != '9' || device->arch[4] != '0')
		return "GPUs other than sm_90";
	if (s->dtype != ATTUNE_BF16 || s->kv_dtype != ATTUNE_BF16)
		return "types other than BF16";
	if (s->head_size != HEAD_SIZE)
		return "head sizes other than 128";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout";
	if (s->window || s->softcap > 0 || s->has_sinks || s->has_alibi)
		return "windows, softcap, sinks and ALiBi";
	if (s->scale > 0 && fabsf(s->scale - usual) > 1e-6f * usual)
		return "scales other than 1 / sqrt(head size)";
	if (s->has_lse)
		return "an LSE";
	if (!find(s, values[NUM_SPLIT]))
		return "heads and pages that it was not compiled for (TILEOPS_SHAPES)";
	if (p && (p->min_query != 1 || p->max_query != 1))
		return "queries of more than one token";
	return NULL;
}

static int failed(cudaError_t status, const char *what, char *error)
{
	if (status)
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%s: %s", what, cudaGetErrorString(status));
	return status != cudaSuccess;
}

/* ---- ops and plans ------------------------------------------------------------------ */

struct op {
	attune_shape shape;
	const struct code *code, *whole; /* whole: for tables too short for splits */
	int device;
};

struct plan {
	const struct code *code;
	int num_seqs, first;
	size_t lse_bytes;
	int32_t *split_ends; /* [num_seqs][splits] on the device */
};

static int prepare(void **out, const attune_shape *shape, const int *values,
		   const attune_plugin_device *device, char *error)
{
	struct op *o = malloc(sizeof *o);
	if (!o) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	*o = (struct op){ *shape, find(shape, values[NUM_SPLIT]), find(shape, 1), device->ordinal };
	if (failed(cudaSetDevice(o->device), "cudaSetDevice", error)) {
		free(o);
		return 1;
	}
	if (o->code->init() || o->whole->init()) { /* loads the kernels, which a capture forbids */
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%s%s", o->code->error(),
			 o->whole == o->code ? "" : o->whole->error());
		free(o);
		return 1;
	}
	*out = o;
	return 0;
}

static void free_op(void *op)
{
	free(op);
}

static void free_plan(void *op, void *plan)
{
	struct plan *p = plan;
	(void)op;
	cudaFree(p->split_ends);
	free(p);
}

/* Where each split ends, the same in each sequence: equal parts of whole tiles, and the rest. */
static int copy_split_ends(struct plan *p, int capacity, char *error)
{
	const int splits = p->code->splits, tile = p->code->tile;
	const int part = capacity / (splits * tile) * tile;
	const size_t bytes = (size_t)p->num_seqs * (size_t)splits * sizeof(int32_t);
	int32_t *const ends = malloc(bytes);
	if (!ends) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	for (int i = 0; i < p->num_seqs * splits; i++) {
		const int split = i % splits;
		ends[i] = split == splits - 1 ? capacity : (split + 1) * part;
	}
	const int bad = failed(cudaMalloc((void **)&p->split_ends, bytes), "cudaMalloc", error) ||
			failed(cudaMemcpy(p->split_ends, ends, bytes, cudaMemcpyHostToDevice),
			       "cudaMemcpy", error);
	free(ends);
	return bad;
}

static int plan_batch(void *op, const attune_plugin_batch *b, void **out, size_t *workspace,
		      char *error)
{
	const struct op *o = op;
	const int page = o->shape.page_size, heads = o->shape.num_query_heads;
	struct plan *p = calloc(1, sizeof *p);
	int most = 1;
	if (!p) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	p->num_seqs = b->lengths->num_seqs;
	p->first = b->lengths->query_start[0];
	for (int i = 0; i < p->num_seqs; i++)
		most = b->lengths->seq_lens[i] > most ? b->lengths->seq_lens[i] : most;
	const int capacity = (most + page - 1) / page * page;
	p->code = capacity < o->code->splits * o->code->tile ? o->whole : o->code;
	const size_t rows = (size_t)p->num_seqs * (size_t)heads * (size_t)p->code->splits;
	if (failed(cudaSetDevice(o->device), "cudaSetDevice", error) ||
	    (p->code->split && copy_split_ends(p, capacity, error))) {
		free_plan(op, p);
		return 1;
	}
	p->lse_bytes = (rows * sizeof(float) + 255) / 256 * 256;
	*workspace = p->code->split ? p->lse_bytes + rows * HEAD_SIZE * 2 : 0;
	*out = p;
	return 0;
}

/* ---- a launch ----------------------------------------------------------------------- */

/* TileOPs reads K and V as one array of slots. */
static int is_dense(const attune_shape *s, const attune_tensors *t)
{
	const int64_t slot = (int64_t)s->num_kv_heads * HEAD_SIZE;
	return t->k_head_stride == HEAD_SIZE && t->v_head_stride == HEAD_SIZE &&
	       t->k_slot_stride == slot && t->v_slot_stride == slot &&
	       t->k_page_stride == slot * s->page_size && t->v_page_stride == slot * s->page_size;
}

static int launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	const struct op *o = op;
	const struct plan *p = plan;
	const struct code *c = p->code;
	const char *const q = (const char *)t->q + 2 * p->first * t->q_token_stride;
	char *const out = (char *)t->out + 2 * p->first * t->out_token_stride;
	if (!is_dense(&o->shape, t)) {
		snprintf(error, ATTUNE_PLUGIN_ERROR,
			 "K and V must lie as [pages][slots][KV heads][head size] without gaps");
		return 1;
	}
	if (failed(cudaSetDevice(o->device), "cudaSetDevice", error))
		return 1;
	const int bad = c->split
			    ? c->split(q, t->k_cache, t->v_cache, t->seq_lens, t->block_table,
				       workspace, (char *)workspace + p->lse_bytes, p->split_ends,
				       out, p->num_seqs, t->block_table_stride, stream)
			    : c->whole(q, t->k_cache, t->v_cache, t->seq_lens, t->block_table, out,
				       p->num_seqs, t->block_table_stride, stream);
	if (bad)
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", c->error());
	return bad != 0;
}

static const attune_plugin plugin = { .abi = ATTUNE_PLUGIN_ABI,
				      .name = "tileops",
				      .version = TILEOPS_VERSION,
				      .about = "TileOPs' paged GQA decode, in TileLang",
				      .backend = "cuda",
				      .needs = ATTUNE_PLUGIN_DENSE_ROWS,
				      .axes = axes,
				      .num_axes = NUM_AXES,
				      .refuses = refuses,
				      .prepare = prepare,
				      .plan = plan_batch,
				      .launch = launch,
				      .free_plan = free_plan,
				      .free_op = free_op };

__attribute__((visibility("default"))) const attune_plugin *const *attune_plugins(void);
const attune_plugin *const *attune_plugins(void)
{
	static const attune_plugin *const list[] = { &plugin, NULL };
	return list;
}
