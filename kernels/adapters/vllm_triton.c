/* vllm_triton.c - vLLM's Triton attention as a plug-in: launches the cubins of vllm_triton.py as
 * vLLM's unified_attention would.
 *
 *   TWO_D     grid (Q blocks, KV heads): a block walks all keys of its queries
 *   THREE_D   grid (Q blocks, KV heads, segments): a block walks one segment of the keys and leaves
 *             partials, which REDUCE merges by grid (tokens, query heads)
 *
 * vLLM runs THREE_D where each query has one token and there are 128 / num_kv_heads sequences at
 * most. Its bound for the number of Q blocks, tokens / BLOCK_Q + num_seqs, is used here, too.
 *
 * The workspace of THREE_D, each part aligned to 256 bytes, all floats:
 *
 *   partial outputs   [tokens][query heads][segments][head_size]
 *   maxima            [tokens][query heads][segments]
 *   sums              [tokens][query heads][segments]
 *
 * The kernels read, but do not use, entries of the block table up to TILE - 1 keys behind the last
 * live page. */
#include "driver.h"
#include "vllm_triton.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compiled code ---------------------------------------------------------------------- */

#include "vllm_triton_table.h"

extern const unsigned char attune_vllm_triton_cubins[];

enum { BLOCK_M, TILE, WARPS, STAGES, SEGMENTS, NUM_AXES };

static const attune_plugin_axis axes[NUM_AXES] = {
	[BLOCK_M] = { "BLOCK_M", "rows of Q x heads of a block", (const int[]){ 16, 64, 128 }, 3,
		      16 },
	[TILE] = { "TILE", "keys of an iteration; 0: vLLM's own, 32, and 16 in segments",
		   (const int[]){ 0, 32, 64, 128 }, 4, 0 },
	[WARPS] = { "WARPS", "warps of a block", (const int[]){ 4, 8 }, 2, 4 },
	[STAGES] = { "STAGES", "stages of Triton's pipeline", (const int[]){ 2, 3 }, 2, 3 },
	[SEGMENTS] = { "SEGMENTS",
		       "segments of one-token queries; 0: vLLM's own choice between 16 and none",
		       (const int[]){ 0, TABLE_SEGMENTS }, 2, 0 },
};

/* NULL: none was compiled. */
static const struct code *find(enum kind kind, const attune_shape *s, const int *values)
{
	const int group = s->num_query_heads / s->num_kv_heads;
	const int tile = values[TILE] ? values[TILE] : kind == TWO_D ? 32 : 16;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const struct code *c = &table[i];
		if (c->kind == kind && c->heads == s->num_query_heads && c->tile == tile &&
		    c->block_m == values[BLOCK_M] && c->warps == values[WARPS] &&
		    c->stages == values[STAGES] &&
		    (kind == REDUCE ||
		     (c->group == group && c->page == s->page_size && c->kv_dtype == s->kv_dtype)))
			return c;
	}
	return NULL;
}

static enum kind kind_for(const attune_shape *s, const int *values, int num_seqs, int max_query)
{
	if (max_query > 1)
		return TWO_D;
	return values[SEGMENTS] || num_seqs <= 128 / s->num_kv_heads ? THREE_D : TWO_D;
}

/* ---- what is refused --------------------------------------------------------------------- */

static int knows(const attune_shape *s, int with_page)
{
	const int group = s->num_query_heads / s->num_kv_heads;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].kv_dtype == s->kv_dtype && table[i].heads == s->num_query_heads &&
		    table[i].group == group && (!with_page || table[i].page == s->page_size))
			return 1;
	return 0;
}

static const char *refuses_shape(const attune_shape *s)
{
	if (s->dtype != ATTUNE_BF16)
		return "query types other than BF16";
	if (s->kv_dtype != ATTUNE_BF16 && s->kv_dtype != ATTUNE_E4M3)
		return "caches other than BF16 and E4M3";
	if (s->head_size != TABLE_HEAD_SIZE)
		return "head sizes other than 128";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout";
	if (!s->causal)
		return "attention without a causal mask";
	if (s->window || s->softcap != 0 || s->has_sinks || s->has_alibi)
		return "windows, softcap, sinks and ALiBi";
	if (s->has_lse)
		return "an LSE";
	if (!knows(s, 0))
		return "head counts that it was not compiled for (VLLM_SHAPES)";
	if (!knows(s, 1))
		return "page sizes that it was not compiled for (VLLM_SHAPES)";
	return NULL;
}

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *device)
{
	const char *why = refuses_shape(s);
	if (why)
		return why;
	for (int i = 0; device->arch[i] || TABLE_ARCH[i]; i++)
		if (device->arch[i] != TABLE_ARCH[i])
			return "GPUs other than " TABLE_ARCH;
	if (p && p->kv_tokens < p->query_tokens) /* plan compares them one by one */
		return "queries that are longer than their sequences";
	if (values[SEGMENTS] && p && p->max_query > 1)
		return "segments for queries of more than one token";
	if (p ? !find(kind_for(s, values, p->num_seqs, p->max_query), s, values)
	      : !find(THREE_D, s, values) && (values[SEGMENTS] || !find(TWO_D, s, values)))
		return "tunables that it was not compiled for";
	return NULL;
}

/* ---- an op: the code of one shape and one set of tunables -------------------------------- */

enum { SHARED_WITHOUT_ASKING = 48 << 10 };

struct loaded {
	const struct code *code;
	void *module, *function;
};

struct op {
	attune_shape shape;
	int values[NUM_AXES];
	int device;
	void *ctx;
	struct loaded loaded[3]; /* by kind; code is NULL where none was compiled */
};

static int load(struct loaded *l, const struct code *c, char *error)
{
	if (cu_failed(cu.ModuleLoad(&l->module, attune_vllm_triton_cubins + c->at),
		      "loading a cubin", error) ||
	    cu_failed(cu.GetFunction(&l->function, l->module, c->name), c->name, error))
		return 1;
	l->code = c;
	if (c->shared <= SHARED_WITHOUT_ASKING)
		return 0;
	return cu_failed(cu.FuncSetCache(l->function, CU_CACHE_PREFER_SHARED), "cache preference",
			 error) ||
	       cu_failed(
		   cu.FuncSetAttribute(l->function, CU_FUNC_MAX_DYNAMIC_SHARED, (int)c->shared),
		   "shared memory", error);
}

static void free_op(void *state)
{
	struct op *op = state;
	void *popped;
	if (op->ctx && !cu.Push(op->ctx)) {
		for (int kind = TWO_D; kind <= REDUCE; kind++)
			if (op->loaded[kind].module)
				cu.ModuleUnload(op->loaded[kind].module);
		cu.Pop(&popped);
	}
	if (op->ctx)
		cu.PrimaryRelease(op->device);
	free(op);
}

static int load_all(struct op *op, char *error)
{
	void *popped;
	int bad = cu_failed(cu.Push(op->ctx), "the context", error);
	if (bad)
		return 1;
	for (int kind = TWO_D; kind <= REDUCE && !bad; kind++) {
		const struct code *c = find((enum kind)kind, &op->shape, op->values);
		bad = c && load(&op->loaded[kind], c, error);
	}
	cu.Pop(&popped);
	return bad;
}

static int prepare(void **state, const attune_shape *shape, const int *values,
		   const attune_plugin_device *device, char *error)
{
	struct op *op;
	if (cu_open(error))
		return 1;
	op = calloc(1, sizeof *op);
	if (!op)
		return cu_say(error, "out of memory");
	op->shape = *shape;
	for (int i = 0; i < NUM_AXES; i++)
		op->values[i] = values[i];
	if (cu_failed(cu.DeviceGet(&op->device, device->ordinal), "the device", error) ||
	    cu_failed(cu.PrimaryRetain(&op->ctx, op->device), "the primary context", error) ||
	    load_all(op, error)) {
		free_op(op);
		return 1;
	}
	*state = op;
	return 0;
}

/* ---- a plan ------------------------------------------------------------------------------ */

struct plan {
	enum kind kind;
	int num_seqs, num_tokens, first_token;
	unsigned q_blocks;
	/* In device memory: query_start from 0 on, since the kernels count Q blocks from it, then a
	 * float 1, the scale of an E4M3 cache that has none. 0: neither is needed. */
	uint64_t query_start;
	size_t segm_max, segm_sum; /* places in the workspace */
};

static int check_lengths(const attune_batch *b, int *max_query, char *error)
{
	*max_query = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query > b->seq_lens[i])
			return cu_say(error,
				      "a query is longer than its sequence: its first rows see "
				      "no key, for which vLLM's kernels give NaN");
		if (query > *max_query)
			*max_query = query;
	}
	return 0;
}

static int check_strides(const attune_tensors *t, char *error)
{
	const int64_t all = t->q_token_stride | t->q_head_stride | t->out_token_stride |
			    t->out_head_stride | t->k_page_stride | t->k_slot_stride |
			    t->k_head_stride | t->v_page_stride | t->v_slot_stride |
			    t->v_head_stride;
	return all % 16
		   ? cu_say(error, "a stride is no multiple of 16 elements, for which the code "
				   "was compiled")
		   : 0;
}

static int rebase(const struct op *op, struct plan *p, const attune_batch *b, void *stream,
		  char *error)
{
	static const float one = 1;
	const size_t at_one = ((size_t)b->num_seqs + 1) * sizeof(int32_t);
	const size_t bytes = at_one + sizeof one;
	int32_t *from = malloc(bytes);
	void *popped;
	int bad = !from ? cu_say(error, "out of memory")
			: cu_failed(cu.Push(op->ctx), "the context", error);
	if (!bad) {
		for (int i = 0; i <= b->num_seqs; i++)
			from[i] = b->query_start[i] - p->first_token;
		memcpy((char *)from + at_one, &one, sizeof one);
		bad = cu_failed(cu.MemAlloc(&p->query_start, bytes), "memory for query_start",
				error) ||
		      cu_failed(cu.CopyToDevice(p->query_start, from, bytes, stream),
				"copying query_start", error);
		cu.Pop(&popped);
	}
	free(from);
	return bad;
}

static void free_plan(void *state, void *plan)
{
	const struct op *op = state;
	struct plan *p = plan;
	void *popped;
	if (p->query_start && !cu.Push(op->ctx)) {
		cu.MemFree(p->query_start);
		cu.Pop(&popped);
	}
	free(p);
}

static size_t size_workspace(const struct op *op, struct plan *p)
{
	const size_t rows =
	    (size_t)p->num_tokens * (size_t)op->shape.num_query_heads * TABLE_SEGMENTS;
	const size_t scalars = (rows * sizeof(float) + 255) / 256 * 256;
	p->segm_max = rows * TABLE_HEAD_SIZE * sizeof(float);
	p->segm_sum = p->segm_max + scalars;
	return p->segm_sum + scalars;
}

static int plan_batch(void *state, const attune_plugin_batch *batch, void **plan, size_t *workspace,
		      char *error)
{
	const struct op *op = state;
	const attune_batch *b = batch->lengths;
	const int group = op->shape.num_query_heads / op->shape.num_kv_heads;
	int max_query;
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return cu_say(error, "out of memory");
	p->num_seqs = b->num_seqs;
	p->first_token = b->query_start[0];
	p->num_tokens = b->query_start[b->num_seqs] - p->first_token;
	p->q_blocks = (unsigned)(p->num_tokens / (op->values[BLOCK_M] / group) + b->num_seqs);
	if (check_lengths(b, &max_query, error) || check_strides(batch->tensors, error) ||
	    ((p->first_token || op->shape.kv_dtype == ATTUNE_E4M3) &&
	     rebase(op, p, b, batch->stream, error)))
		goto bad;
	p->kind = kind_for(&op->shape, op->values, p->num_seqs, max_query);
	if (!op->loaded[p->kind].code) {
		cu_say(error, "a batch that was refused");
		goto bad;
	}
	*workspace = p->kind == THREE_D ? size_workspace(op, p) : 0;
	*plan = p;
	return 0;
bad:
	free_plan(state, p);
	return 1;
}

/* ---- a launch ---------------------------------------------------------------------------- */

union value {
	uint64_t address;
	const void *pointer;
	int64_t stride;
	int32_t count;
	float real;
};

static void set_strides(union value *v, const attune_tensors *t)
{
	v[ARG_TABLE_STRIDE].stride = t->block_table_stride;
	v[ARG_Q_TOKEN].stride = t->q_token_stride;
	v[ARG_Q_HEAD].stride = t->q_head_stride;
	v[ARG_OUT_TOKEN].stride = t->out_token_stride;
	v[ARG_OUT_HEAD].stride = t->out_head_stride;
	v[ARG_K_PAGE].stride = t->k_page_stride;
	v[ARG_K_SLOT].stride = t->k_slot_stride;
	v[ARG_K_HEAD].stride = t->k_head_stride;
	v[ARG_V_PAGE].stride = t->v_page_stride;
	v[ARG_V_SLOT].stride = t->v_slot_stride;
	v[ARG_V_HEAD].stride = t->v_head_stride;
}

static void set_values(union value *v, const struct op *op, const struct plan *p,
		       const attune_tensors *t, void *workspace)
{
	const uint64_t memory = (uint64_t)(uintptr_t)workspace;
	const int64_t row = p->first_token * (int64_t)sizeof(uint16_t);
	const uint64_t one = p->query_start + ((uint64_t)p->num_seqs + 1) * sizeof(int32_t);
	v[ARG_OUT].pointer = (char *)t->out + row * t->out_token_stride;
	v[ARG_Q].pointer = (const char *)t->q + row * t->q_token_stride;
	v[ARG_K].pointer = t->k_cache;
	v[ARG_V].pointer = t->v_cache;
	v[ARG_K_SCALE].pointer = t->k_scale;
	v[ARG_V_SCALE].pointer = t->v_scale;
	if (!t->k_scale)
		v[ARG_K_SCALE].address = one;
	if (!t->v_scale)
		v[ARG_V_SCALE].address = one;
	v[ARG_TABLE].pointer = t->block_table;
	v[ARG_SEQ_LENS].pointer = t->seq_lens;
	v[ARG_QUERY_START].pointer = t->query_start;
	if (p->query_start)
		v[ARG_QUERY_START].address = p->query_start;
	v[ARG_SEGM_OUT].address = memory;
	v[ARG_SEGM_MAX].address = memory + p->segm_max;
	v[ARG_SEGM_SUM].address = memory + p->segm_sum;
	v[ARG_SCALE].real =
	    op->shape.scale != 0 ? op->shape.scale : 1 / sqrtf((float)TABLE_HEAD_SIZE);
	v[ARG_NUM_SEQS].count = p->num_seqs;
	set_strides(v, t);
}

static int launch_one(const struct loaded *l, unsigned x, unsigned y, unsigned z, union value *v,
		      void *stream, char *error)
{
	void *params[sizeof l->code->args];
	for (int i = 0; i < l->code->num_args; i++)
		params[i] = &v[l->code->args[i]];
	return cu_failed(cu.Launch(l->function, x, y, z, l->code->threads, 1, 1, l->code->shared,
				   stream, params, NULL),
			 l->code->name, error);
}

static int launch(void *state, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	const struct op *op = state;
	const struct plan *p = plan;
	const unsigned kv_heads = (unsigned)op->shape.num_kv_heads;
	union value v[NUM_ARGS] = { 0 };
	void *popped;
	int bad;
	if (!p->num_tokens)
		return 0;
	set_values(v, op, p, t, workspace);
	if ((v[ARG_OUT].address | v[ARG_Q].address | v[ARG_K].address | v[ARG_V].address) % 16)
		return cu_say(error, "q, out or a cache is not aligned to 16 bytes");
	if (t->k_scale_seq_stride || t->k_scale_head_stride || t->v_scale_seq_stride ||
	    t->v_scale_head_stride)
		return cu_say(error,
			      "vLLM has one scale for the whole cache, not one for each sequence");
	if (cu_failed(cu.Push(op->ctx), "the context", error))
		return 1;
	bad = launch_one(&op->loaded[p->kind], p->q_blocks, kv_heads,
			 p->kind == THREE_D ? TABLE_SEGMENTS : 1, v, stream, error);
	if (!bad && p->kind == THREE_D)
		bad = launch_one(&op->loaded[REDUCE], (unsigned)p->num_tokens,
				 (unsigned)op->shape.num_query_heads, 1, v, stream, error);
	cu.Pop(&popped);
	return bad;
}

/* ---- the list ---------------------------------------------------------------------------- */

static const attune_plugin plugin = {
	.abi = ATTUNE_PLUGIN_ABI,
	.name = "vllm_triton",
	.version = TABLE_VERSION,
	.about = "vLLM's Triton unified attention, compiled ahead",
	.backend = "cuda",
	/* DENSE_ROWS: strides that are multiples of 16 elements */
	.needs = ATTUNE_PLUGIN_DENSE_ROWS | ATTUNE_PLUGIN_ONE_SCALE | ATTUNE_PLUGIN_Q_TYPE_MATH,
	.axes = axes,
	.num_axes = NUM_AXES,
	.refuses = refuses,
	.prepare = prepare,
	.plan = plan_batch,
	.launch = launch,
	.free_plan = free_plan,
	.free_op = free_op,
};

__attribute__((visibility("default"))) const attune_plugin *const *attune_plugins(void);
const attune_plugin *const *attune_plugins(void)
{
	static const attune_plugin *const list[] = { &plugin, NULL };
	return list;
}
