/* fa4.c - FlashAttention-4's forward on sm_90 as a plug-in: calls the functions that fa4.py
 * compiled.
 *
 * Each is a function of TVM's calling convention (tvm/ffi/c_api.h): it takes 18 values, checks
 * shapes and strides of the tensors among them, makes the TMA descriptors and launches one kernel.
 * What it needs of that runtime is here: the stream, and how it reports an error. The rest is in
 * the static library of CUTLASS's DSL.
 *
 * FlashAttention-4 splits no keys on sm_90: a block walks all keys of its tile of queries. */
#include "fa4_table.h"
#include "attune_plugin.h"
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/extra/c_env_api.h>

enum { HEAD_SIZE = 128, NUM_VALUES = 18, MOST_SEQS = 256 };
static const int64_t addressed = 1ll << 40; /* bytes that a TMA descriptor may span here */

/* ---- the compiled functions --------------------------------------------------------- */

#define ROW(group, tma, pack, function) \
	int function(void *handle, const TVMFFIAny *values, int32_t n, TVMFFIAny *result);
FA4_ROWS
#undef ROW

static const struct code {
	int group, tma, pack;
	TVMFFISafeCallType call;
} table[] = {
#define ROW(group_, tma_, pack_, function) { group_, tma_, pack_, function },
	FA4_ROWS
#undef ROW
};

enum { PACK, NUM_AXES };
static const attune_plugin_axis axes[NUM_AXES] = {
	[PACK] = { "PACK",
		   "1: the query heads of a KV head share a tile, FA4's default; 0: each its own",
		   (const int[]){ 0, 1 }, 2, 1 },
};

/* NULL: none was compiled. */
static const struct code *find(const attune_shape *s, int pack)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].group == s->num_query_heads / s->num_kv_heads &&
		    table[i].tma == (s->page_size == FA4_TILE) && table[i].pack == pack)
			return &table[i];
	return NULL;
}

/* ---- what the functions need of TVM's runtime ----------------------------------------- */

static void *current_stream;
static char raised[ATTUNE_PLUGIN_ERROR];

TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t device_type, int32_t device)
{
	(void)device_type, (void)device;
	return current_stream;
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message)
{
	snprintf(raised, sizeof raised, "%s: %s", kind, message);
}

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t n)
{
	int at = snprintf(raised, sizeof raised, "%s: ", kind);
	for (int i = 0; i < n && at < (int)sizeof raised; i++)
		at += snprintf(raised + at, sizeof raised - (size_t)at, "%s",
			       parts[i] ? parts[i] : "");
}

void CuteDSLRT_TVMFFISetRaisedCudaError(void (*set)(const char *, const char **, int32_t),
					int32_t code);
void CuteDSLRT_TVMFFISetRaisedCudaError(void (*set)(const char *, const char **, int32_t),
					int32_t code)
{
	(void)set;
	snprintf(raised, sizeof raised, "%s", cudaGetErrorString((cudaError_t)code));
}

static int failed(cudaError_t status, const char *what, char *error)
{
	if (status)
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%s: %s", what, cudaGetErrorString(status));
	return status != cudaSuccess;
}

/* ---- what it runs ------------------------------------------------------------------- */

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *device)
{
	if (device->arch[0] != 's' || device->arch[3] != '9' || device->arch[4] != '0')
		return "GPUs other than sm_90";
	if (s->dtype != ATTUNE_BF16 || s->kv_dtype != ATTUNE_BF16)
		return "types other than BF16";
	if (s->head_size != HEAD_SIZE)
		return "head sizes other than 128";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout";
	if (!s->causal)
		return "attention without a causal mask";
	if (s->window || s->softcap > 0 || s->has_sinks || s->has_alibi)
		return "windows, softcap, sinks and ALiBi";
	if (s->has_lse)
		return "an LSE";
	if (!find(s, values[PACK]))
		return "groups of query heads that it was not compiled for (FA4_GROUPS)";
	if (p && p->num_seqs > MOST_SEQS)
		return "more than 256 sequences, for which FA4 runs another kernel first";
	if (p && p->kv_tokens < p->query_tokens) /* plan compares them one by one */
		return "queries that are longer than their sequences";
	return NULL;
}

/* ---- a call ------------------------------------------------------------------------- */

struct op {
	attune_shape shape;
	const struct code *code;
	int device;
};

struct plan {
	int num_seqs, rows, first; /* rows of q from row `first` on */
	int table_pages;           /* of the longest sequence */
	int32_t *starts;           /* on the device, from 0; NULL: the caller's */
};

/* A tensor with its shape and strides, in elements. */
struct view {
	DLTensor tensor;
	int64_t shape[4], stride[4];
};

static TVMFFIAny view_value(struct view *v, int device, const void *data, int dims, int is_int)
{
	v->tensor = (DLTensor){ .data = (void *)(uintptr_t)data,
				.device = { kDLCUDA, device },
				.ndim = dims,
				.dtype = { is_int ? kDLInt : kDLBfloat, is_int ? 32 : 16, 1 },
				.shape = v->shape,
				.strides = v->stride };
	return (TVMFFIAny){ .type_index = kTVMFFIDLTensorPtr, .v_ptr = &v->tensor };
}

static TVMFFIAny list_value(const struct op *o, struct view *v, const int32_t *data, int64_t n)
{
	v->shape[0] = n;
	v->stride[0] = 1;
	return view_value(v, o->device, data, 1, 1);
}

static TVMFFIAny row_value(const struct op *o, struct view *v, const void *data, int rows,
			   int64_t token, int64_t head)
{
	*v = (struct view){ .shape = { rows, o->shape.num_query_heads, HEAD_SIZE },
			    .stride = { token, head, 1 } };
	return view_value(v, o->device, data, 3, 0);
}

/* The number of the cache's pages is not known: TMA needs a bound that no page exceeds. */
static TVMFFIAny page_value(const struct op *o, struct view *v, const void *data, int64_t page,
			    int64_t slot, int64_t head)
{
	const int64_t bound = addressed / 2 / (page > 0 ? page : 1);
	*v = (struct view){ .shape = { bound < 1         ? 1
				       : bound < 1 << 30 ? bound
							 : 1 << 30,
				       o->shape.page_size, o->shape.num_kv_heads, HEAD_SIZE },
			    .stride = { page, slot, head, 1 } };
	return view_value(v, o->device, data, 4, 0);
}

/* Two values None, FA4's AuxData, as an object of TVM's that nobody counts. */
static struct {
	TVMFFIObject head;
	TVMFFISeqCell cell;
} nothing_more;

static TVMFFIAny nothing_more_value(void)
{
	static TVMFFIAny none[2] = { { .type_index = kTVMFFINone }, { .type_index = kTVMFFINone } };
	nothing_more.head.combined_ref_count = 1ull << 32 | 1;
	nothing_more.head.type_index = kTVMFFIArray;
	nothing_more.cell.data = none;
	nothing_more.cell.size = nothing_more.cell.capacity = 2;
	return (TVMFFIAny){ .type_index = kTVMFFIArray, .v_obj = &nothing_more.head };
}

/* In the order of _flash_attn_fwd's call; what is not set is None. */
static int call(const struct op *o, const struct plan *p, const attune_tensors *t, void *stream,
		char *error)
{
	const size_t size = 2;
	const char *const q = t->q, *const out = t->out;
	const float scale = o->shape.scale > 0 ? o->shape.scale : 1 / sqrtf(HEAD_SIZE);
	struct view v[7] = { { .shape = { 0 } } };
	TVMFFIAny value[NUM_VALUES] = { { .type_index = kTVMFFINone } }, result = value[1];
	value[0] = row_value(o, &v[0], q + (size_t)(p->first * t->q_token_stride) * size, p->rows,
			     t->q_token_stride, t->q_head_stride);
	value[1] =
	    page_value(o, &v[1], t->k_cache, t->k_page_stride, t->k_slot_stride, t->k_head_stride);
	value[2] =
	    page_value(o, &v[2], t->v_cache, t->v_page_stride, t->v_slot_stride, t->v_head_stride);
	value[3] = row_value(o, &v[3], out + (size_t)(p->first * t->out_token_stride) * size,
			     p->rows, t->out_token_stride, t->out_head_stride);
	value[5] = (TVMFFIAny){ .type_index = kTVMFFIFloat, .v_float64 = (double)scale };
	value[6] = list_value(o, &v[4], p->starts ? p->starts : t->query_start, p->num_seqs + 1);
	value[9] = list_value(o, &v[5], t->seq_lens, p->num_seqs);
	v[6].shape[0] = p->num_seqs;
	v[6].shape[1] = p->table_pages;
	v[6].stride[0] = t->block_table_stride;
	v[6].stride[1] = 1;
	value[10] = view_value(&v[6], o->device, t->block_table, 2, 1);
	value[15] = nothing_more_value();
	current_stream = stream;
	raised[0] = '\0';
	if (!o->code->call(NULL, value, NUM_VALUES, &result))
		return 0;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", raised);
	return 1;
}

/* ---- ops and plans ------------------------------------------------------------------ */

/* The first call loads the code, which a stream that captures does not allow. So one sequence of
 * one token runs here, over memory of zeros. */
static int load(const struct op *o, char *error)
{
	const int64_t head = HEAD_SIZE, heads = o->shape.num_query_heads,
		      kv = o->shape.num_kv_heads;
	const size_t cache = (size_t)(head * kv * o->shape.page_size * 2),
		     row = (size_t)(head * heads * 2);
	const struct plan p = { .num_seqs = 1, .rows = 1, .table_pages = 1 };
	const int32_t lengths[] = { 0, 1, 1, 0 }; /* query_start, seq_lens, block_table */
	char *memory;
	if (failed(cudaMalloc((void **)&memory, cache + 2 * row + sizeof lengths), "cudaMalloc",
		   error))
		return 1;
	int32_t *const list = (int32_t *)(memory + cache + 2 * row);
	const attune_tensors t = { .out = memory + cache + row,
				   .q = memory + cache,
				   .k_cache = memory,
				   .v_cache = memory,
				   .block_table = list + 3,
				   .query_start = list,
				   .seq_lens = list + 2,
				   .q_token_stride = head * heads,
				   .q_head_stride = head,
				   .out_token_stride = head * heads,
				   .out_head_stride = head,
				   .k_page_stride = head * kv * o->shape.page_size,
				   .k_slot_stride = head * kv,
				   .k_head_stride = head,
				   .v_page_stride = head * kv * o->shape.page_size,
				   .v_slot_stride = head * kv,
				   .v_head_stride = head,
				   .block_table_stride = 1 };
	const int bad = failed(cudaMemset(memory, 0, cache + 2 * row), "cudaMemset", error) ||
			failed(cudaMemcpy(list, lengths, sizeof lengths, cudaMemcpyHostToDevice),
			       "cudaMemcpy", error) ||
			call(o, &p, &t, NULL, error) ||
			failed(cudaDeviceSynchronize(), "the first launch", error);
	cudaFree(memory);
	return bad;
}

static int prepare(void **out, const attune_shape *shape, const int *values,
		   const attune_plugin_device *device, char *error)
{
	struct op *o = malloc(sizeof *o);
	if (!o) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	*o = (struct op){ *shape, find(shape, values[PACK]), device->ordinal };
	if (failed(cudaSetDevice(o->device), "cudaSetDevice", error) || load(o, error)) {
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
	cudaFree(p->starts);
	free(p);
}

/* Grids follow from the rows of q, so these begin with the batch. */
static int copy_starts(struct plan *p, const attune_batch *l, char *error)
{
	const size_t bytes = (size_t)(p->num_seqs + 1) * sizeof(int32_t);
	int32_t *const from_zero = malloc(bytes);
	if (!from_zero) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	for (int i = 0; i <= p->num_seqs; i++)
		from_zero[i] = l->query_start[i] - p->first;
	const int bad = failed(cudaMalloc((void **)&p->starts, bytes), "cudaMalloc", error) ||
			failed(cudaMemcpy(p->starts, from_zero, bytes, cudaMemcpyHostToDevice),
			       "cudaMemcpy", error);
	free(from_zero);
	return bad;
}

static int plan_batch(void *op, const attune_plugin_batch *b, void **out, size_t *workspace,
		      char *error)
{
	const struct op *o = op;
	const attune_batch *l = b->lengths;
	struct plan *p = calloc(1, sizeof *p);
	if (!p) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "out of memory");
		return 1;
	}
	*p = (struct plan){ .num_seqs = l->num_seqs,
			    .first = l->query_start[0],
			    .rows = l->query_start[l->num_seqs] - l->query_start[0],
			    .table_pages = 1 };
	for (int i = 0; i < l->num_seqs; i++) {
		const int pages = (l->seq_lens[i] + o->shape.page_size - 1) / o->shape.page_size;
		if (l->query_start[i + 1] - l->query_start[i] > l->seq_lens[i]) {
			snprintf(error, ATTUNE_PLUGIN_ERROR, "a query is longer than its sequence");
			free(p);
			return 1;
		}
		p->table_pages = pages > p->table_pages ? pages : p->table_pages;
	}
	if (failed(cudaSetDevice(o->device), "cudaSetDevice", error) ||
	    (p->first && copy_starts(p, l, error))) {
		free_plan(op, p);
		return 1;
	}
	*workspace = 0;
	*out = p;
	return 0;
}

static int launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	const struct op *o = op;
	const struct plan *p = plan;
	(void)workspace;
	if (!p->rows)
		return 0;
	return failed(cudaSetDevice(o->device), "cudaSetDevice", error) ||
	       call(o, p, t, stream, error);
}

/* FINITE_SLOTS: TMA reads whole pages, and V behind the end of a sequence has a weight of 0. */
static const attune_plugin plugin = { .abi = ATTUNE_PLUGIN_ABI,
				      .name = "fa4",
				      .version = FA4_VERSION,
				      .about = "FlashAttention-4 (CuTe DSL) on Hopper, over pages",
				      .backend = "cuda",
				      .needs = ATTUNE_PLUGIN_FINITE_SLOTS,
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
