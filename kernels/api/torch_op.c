/* torch_op.c - the operators of attune_torch_register, without torch's headers and without linking it: torch's
 * stable C functions are found by name in the libraries that the process has loaded. */
#include "kernels/attune.h"
#include "kernels/launch/op.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The functions aoti_torch_NAME. Those that return an int return 0 if all is well. */
#define FUNCTIONS(F)                                                                             \
	F(void, check, (int, const char *, const char *, uint32_t, const char *))                \
	F(int, delete_tensor_object, (void *))                                                   \
	F(int, get_data_ptr, (void *, void **))                                                  \
	F(int, get_device_index, (void *, int32_t *))                                            \
	F(int, get_device_type, (void *, int32_t *))                                             \
	F(int, get_dim, (void *, int64_t *))                                                     \
	F(int, get_dtype, (void *, int32_t *))                                                   \
	F(int, get_numel, (void *, int64_t *))                                                   \
	F(int, get_sizes, (void *, int64_t **))                                                  \
	F(int, get_strides, (void *, int64_t **))                                                \
	F(int, empty_strided,                                                                    \
	  (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **))       \
	F(int, library_init_fragment, (const char *, const char *, uint32_t, void **))           \
	F(int, library_init_impl, (const char *, const char *, const char *, uint32_t, void **)) \
	F(int, library_def, (void *, const char *))                                              \
	F(int, library_impl, (void *, const char *, void (*)(uint64_t *, uint64_t, uint64_t)))   \
	F(int32_t, device_type_cpu, (void))                                                      \
	F(int32_t, device_type_cuda, (void))                                                     \
	F(int32_t, dtype_float32, (void))                                                        \
	F(int32_t, dtype_float16, (void))                                                        \
	F(int32_t, dtype_bfloat16, (void))                                                       \
	F(int32_t, dtype_float8_e4m3fn, (void))                                                  \
	F(int32_t, dtype_int32, (void))                                                          \
	F(int32_t, dtype_uint8, (void))

static struct {
#define F(result, name, arguments) result(*name) arguments;
	FUNCTIONS(F)
#undef F
	/* Of the library for GPUs; NULL: torch has none. AMD's torch has it by the same name. */
	int (*get_current_cuda_stream)(int32_t, void **);
} torch;

/* Of the elements of a tensor: the first four are those of enum attune_dtype. */
enum { INT32 = ATTUNE_E4M3 + 1, BYTES, OTHER };
static const char *const type_name[] = { "float32",       "float16", "bfloat16",
					 "float8_e4m3fn", "int32",   "uint8" };
static int32_t torch_type[OTHER]; /* torch's number of each */

struct tensor {
	const char *name;
	void *handle, *data; /* data NULL: it is not given */
	const int64_t *size, *stride;
	int64_t dims;
	int type, device_type, device;
};

static int type_of(int32_t dtype)
{
	int type = 0;
	while (type < OTHER && torch_type[type] != dtype)
		type++;
	return type;
}

/* Returns whether torch answered all. */
static int look_at(struct tensor *t, const char *name, uint64_t handle)
{
	int64_t numel, *size, *stride;
	int32_t dtype;
	*t = (struct tensor){ .name = name, .handle = (void *)(uintptr_t)handle };
	if (torch.get_numel(t->handle, &numel))
		return 0;
	if (!numel)
		return 1;
	if (torch.get_data_ptr(t->handle, &t->data) || torch.get_sizes(t->handle, &size) ||
	    torch.get_strides(t->handle, &stride) || torch.get_dim(t->handle, &t->dims) ||
	    torch.get_dtype(t->handle, &dtype) ||
	    torch.get_device_type(t->handle, &t->device_type) ||
	    torch.get_device_index(t->handle, &t->device))
		return 0;
	t->size = size;
	t->stride = stride;
	t->type = type_of(dtype);
	return 1;
}

/* ---- what the tensors of a call must be ---- */

/* What a call needs of a tensor: `size` of each dimension; AT_LEAST(n): n or more. */
#define AT_LEAST(n) (-1 - (int64_t)(n))
enum { MOST_DIMS = 5 };
struct wanted {
	int type, dims;
	int64_t size[MOST_DIMS];
};

static int has_shape(const struct tensor *t, const struct wanted *w)
{
	int fits = t->dims == w->dims;
	for (int d = 0; fits && d < w->dims; d++)
		fits =
		    w->size[d] < 0 ? t->size[d] >= AT_LEAST(w->size[d]) : t->size[d] == w->size[d];
	return fits;
}

static void shape_text(char *text, size_t room, const int64_t *size, int64_t dims)
{
	size_t n = (size_t)snprintf(text, room, "[");
	for (int d = 0; d < dims && n < room; d++)
		n += (size_t)snprintf(text + n, room - n, size[d] < 0 ? "%s%lld or more" : "%s%lld",
				      d ? ", " : "",
				      (long long)(size[d] < 0 ? AT_LEAST(size[d]) : size[d]));
	if (n < room)
		snprintf(text + n, room - n, "]");
}

static enum attune_status odd_shape(const char *call, const struct tensor *t,
				    const struct wanted *w)
{
	char has[128], must[128];
	shape_text(has, sizeof has, t->size, t->dims);
	shape_text(must, sizeof must, w->size, w->dims);
	return fail(ATTUNE_INVALID, "%s: %s has the shape %s, it must have %s", call, t->name, has,
		    must);
}

static int is_on(const struct tensor *t, const struct device_info *d)
{
	return d->backend == BACKEND_CPU
		   ? t->device_type == torch.device_type_cpu()
		   : t->device_type == torch.device_type_cuda() && t->device == d->ordinal;
}

static enum attune_status odd_device(const char *call, const struct tensor *t,
				     const struct device_info *d)
{
	if (d->backend == BACKEND_CPU)
		return fail(ATTUNE_INVALID, "%s: %s must be on the CPU, as the op of the plan is",
			    call, t->name);
	return fail(ATTUNE_INVALID, "%s: %s must be on cuda:%d, as the op of the plan is", call,
		    t->name, d->ordinal);
}

/* Bits of an E4M3 cache may come as uint8. */
static enum attune_status fits(const char *call, const struct tensor *t, const attune_op *op,
			       const struct wanted *w)
{
	const struct device_info *d = &op->ctx->device.info;
	if (!t->data)
		return fail(ATTUNE_INVALID, "%s: %s has no elements", call, t->name);
	if (!is_on(t, d))
		return odd_device(call, t, d);
	if (t->type != w->type && !(t->type == BYTES && w->type == ATTUNE_E4M3))
		return fail(ATTUNE_INVALID, "%s: %s must be of torch.%s", call, t->name,
			    type_name[w->type]);
	return has_shape(t, w) ? ATTUNE_OK : odd_shape(call, t, w);
}

/* The same for a tensor whose elements of the last dimension are adjacent. */
static enum attune_status fits_packed(const char *call, const struct tensor *t, const attune_op *op,
				      const struct wanted *w)
{
	const enum attune_status status = fits(call, t, op, w);
	if (!status && t->size[t->dims - 1] > 1 && t->stride[t->dims - 1] != 1)
		return fail(ATTUNE_INVALID, "%s: the last dimension of %s must be contiguous", call,
			    t->name);
	return status;
}

/* ---- attune::paged_attention ---- */

static const char attention_call[] = "attune::paged_attention";
/* Its arguments, in order. */
// clang-format off
enum argument { OUT, Q, K_CACHE, V_CACHE, BLOCK_TABLE, QUERY_START, SEQ_LENS, PLAN, LSE, K_SCALE,
	V_SCALE, SINKS, SLOPES, K_NEW, V_NEW, ARGUMENTS };
static const char *const argument_name[ARGUMENTS] = { "out", "q", "k_cache", "v_cache",
	"block_table", "query_start_loc", "seq_lens", "plan", "lse", "k_scale", "v_scale", "sinks",
	"alibi_slopes", "k_new", "v_new" };
static const char attention_schema[] = "paged_attention(Tensor(a!) out, Tensor q, Tensor k_cache, "
	"Tensor v_cache, Tensor block_table, Tensor query_start_loc, Tensor seq_lens, Tensor plan, "
	"Tensor(b!) lse, Tensor k_scale, Tensor v_scale, Tensor sinks, Tensor alibi_slopes, "
	"Tensor k_new, Tensor v_new) -> ()";
// clang-format on

/* The bytes of a plan's tensor. */
static const uint64_t plan_mark = 0x6e616c70656e7574;
struct planned {
	uint64_t mark;
	const attune_op *op;
	attune_plan plan;
};

enum attune_status attune_torch_plan(const attune_op *op, const attune_plan *plan, void *bytes,
				     size_t room, size_t *size)
{
	static const char call[] = "attune_torch_plan";
	attune_plan own;
	struct planned made = { .mark = plan_mark, .op = op };
	if (!op || !plan || !size)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	*size = sizeof made;
	if (!bytes)
		return ATTUNE_OK;
	plan = plan_read(plan, &own, call);
	if (!plan)
		return ATTUNE_INVALID;
	if (plan->op != op->id)
		return fail(ATTUNE_INVALID, "%s: the plan is not of this op", call);
	if (room < sizeof made)
		return fail(ATTUNE_TOO_SMALL, "%s: the plan takes %zu bytes, there is room for %zu",
			    call, sizeof made, room);
	made.plan = *plan;
	memcpy(bytes, &made, sizeof made);
	return ATTUNE_OK;
}

/* NULL: it was not filled by attune_torch_plan. */
static const struct planned *planned_of(const struct tensor *t)
{
	const struct planned *p = t->data;
	const int is_plan = p && t->device_type == torch.device_type_cpu() && t->type == BYTES &&
			    t->dims == 1 && t->size[0] == sizeof *p && t->stride[0] == 1 &&
			    (uintptr_t)p % _Alignof(struct planned) == 0 && p->mark == plan_mark;
	return is_plan ? p : NULL;
}

/* What each tensor must be for the op and the plan. Scales are looked at by scale(). */
static void wants(struct wanted *w, const attune_op *op, const attune_plan *p)
{
	const attune_shape *s = &op->shape;
	const int64_t tokens = AT_LEAST(p->num_tokens), any = AT_LEAST(0);
	const int64_t x = s->kv_dtype == ATTUNE_F32 ? 4 : s->kv_dtype == ATTUNE_E4M3 ? 16 : 8;
	const int64_t page = s->page_size, heads = s->num_kv_heads, head = s->head_size;
	w[OUT] = w[Q] = (struct wanted){ s->dtype, 3, { tokens, s->num_query_heads, head } };
	w[K_CACHE] = w[V_CACHE] = (struct wanted){ s->kv_dtype, 4, { any, page, heads, head } };
	if (s->kv_layout == ATTUNE_KV_CLASSIC) {
		w[K_CACHE] = (struct wanted){ s->kv_dtype, 5, { any, heads, head / x, page, x } };
		w[V_CACHE] = (struct wanted){ s->kv_dtype, 4, { any, heads, head, page } };
	}
	w[BLOCK_TABLE] =
	    (struct wanted){ INT32, 2, { AT_LEAST(p->num_seqs), AT_LEAST(p->table_pages) } };
	w[QUERY_START] = (struct wanted){ INT32, 1, { AT_LEAST(p->num_seqs + 1) } };
	w[SEQ_LENS] = (struct wanted){ INT32, 1, { AT_LEAST(p->num_seqs) } };
	w[LSE] = (struct wanted){ ATTUNE_F32, 2, { tokens, s->num_query_heads } };
	w[SINKS] = w[SLOPES] = (struct wanted){ ATTUNE_F32, 1, { s->num_query_heads } };
	w[K_NEW] = w[V_NEW] = (struct wanted){ s->kv_dtype, 3, { tokens, heads, head } };
}

/* Factors of K or V: one, one a KV head, or one a sequence and KV head. */
static enum attune_status scale(const struct tensor *t, const attune_op *op, int num_seqs,
				const float **at, int64_t *seq_stride, int64_t *head_stride)
{
	const int64_t heads = op->shape.num_kv_heads;
	struct wanted w = { ATTUNE_F32, (int)t->dims, { AT_LEAST(num_seqs), heads } };
	if (!t->data)
		return ATTUNE_OK;
	*at = t->data;
	if (t->dims == 2) {
		*seq_stride = t->stride[0];
		*head_stride = t->size[1] > 1 ? t->stride[1] : 0;
		w.size[1] = t->size[1] > 1 ? heads : 1;
	} else if (t->dims == 1) {
		*head_stride = t->size[0] > 1 ? t->stride[0] : 0;
		w.size[0] = t->size[0] > 1 ? heads : 1;
	} else if (t->dims) {
		w.dims = 2;
	}
	return fits(attention_call, t, op, &w);
}

/* A tensor that the shape announces is given, and no other one. */
static enum attune_status all_fit(const struct tensor *t, const attune_op *op,
				  const attune_plan *plan)
{
	const attune_shape *s = &op->shape;
	const int has[ARGUMENTS] = { [LSE] = s->has_lse,
				     [SINKS] = s->has_sinks,
				     [SLOPES] = s->has_alibi,
				     [K_NEW] = s->has_new_kv,
				     [V_NEW] = s->has_new_kv };
	struct wanted w[ARGUMENTS];
	enum attune_status status = ATTUNE_OK;
	wants(w, op, plan);
	for (int i = 0; !status && i < ARGUMENTS; i++) {
		if (i == PLAN || i == K_SCALE || i == V_SCALE)
			continue;
		if (i > PLAN && !has[i] && t[i].data)
			return fail(ATTUNE_INVALID,
				    "%s: %s is given, but the op was prepared without it",
				    attention_call, t[i].name);
		if (i < PLAN || has[i])
			status = (i == LSE ? fits : fits_packed)(attention_call, &t[i], op, &w[i]);
	}
	if (!status && t[BLOCK_TABLE].stride[0] > INT_MAX)
		return fail(ATTUNE_INVALID, "%s: the rows of block_table are too far apart",
			    attention_call);
	return status;
}

static enum attune_status fill(attune_tensors *a, const struct tensor *t, const attune_op *op,
			       const attune_plan *plan)
{
	const int slot = op->shape.kv_layout == ATTUNE_KV_STRIDED;
	enum attune_status status = all_fit(t, op, plan);
	if (status)
		return status;
	// clang-format off
	*a = (attune_tensors){ .size = sizeof *a, .out = t[OUT].data, .q = t[Q].data,
		.k_cache = t[K_CACHE].data, .v_cache = t[V_CACHE].data,
		.block_table = t[BLOCK_TABLE].data, .query_start = t[QUERY_START].data,
		.seq_lens = t[SEQ_LENS].data, .sinks = t[SINKS].data, .alibi_slopes = t[SLOPES].data,
		.q_token_stride = t[Q].stride[0], .q_head_stride = t[Q].stride[1],
		.out_token_stride = t[OUT].stride[0], .out_head_stride = t[OUT].stride[1],
		.k_page_stride = t[K_CACHE].stride[0], .v_page_stride = t[V_CACHE].stride[0],
		.k_slot_stride = slot ? t[K_CACHE].stride[1] : 0,
		.v_slot_stride = slot ? t[V_CACHE].stride[1] : 0,
		.k_head_stride = t[K_CACHE].stride[1 + slot],
		.v_head_stride = t[V_CACHE].stride[1 + slot],
		.block_table_stride = (int)t[BLOCK_TABLE].stride[0], .lse = t[LSE].data,
		.k_new = t[K_NEW].data, .v_new = t[V_NEW].data };
	// clang-format on
	if (a->lse) {
		a->lse_token_stride = t[LSE].stride[0];
		a->lse_head_stride = t[LSE].stride[1];
	}
	if (a->k_new) {
		a->k_new_token_stride = t[K_NEW].stride[0];
		a->k_new_head_stride = t[K_NEW].stride[1];
		a->v_new_token_stride = t[V_NEW].stride[0];
		a->v_new_head_stride = t[V_NEW].stride[1];
	}
	status = scale(&t[K_SCALE], op, plan->num_seqs, &a->k_scale, &a->k_scale_seq_stride,
		       &a->k_scale_head_stride);
	return status ? status
		      : scale(&t[V_SCALE], op, plan->num_seqs, &a->v_scale, &a->v_scale_seq_stride,
			      &a->v_scale_head_stride);
}

/* Runs with a workspace of torch's allocator, which gives it to other work of the stream only behind
 * this call's, and into a graph's own memory while one is captured. */
static enum attune_status run_on(const struct tensor *q, const attune_op *op,
				 const attune_plan *plan, const attune_tensors *a)
{
	const int64_t bytes = (int64_t)plan->workspace, one = 1;
	void *handle = NULL, *workspace = NULL, *stream = NULL;
	if (op->ctx->device.info.backend != BACKEND_CPU &&
	    (!torch.get_current_cuda_stream || torch.get_current_cuda_stream(q->device, &stream)))
		return fail(ATTUNE_DEVICE_ERROR, "%s: torch gives no current stream of cuda:%d",
			    attention_call, q->device);
	if (bytes && (torch.empty_strided(1, &bytes, &one, torch_type[BYTES], q->device_type,
					  q->device, &handle) ||
		      torch.get_data_ptr(handle, &workspace)))
		return fail(ATTUNE_NO_MEMORY,
			    "%s: torch has no memory for a workspace of %lld bytes", attention_call,
			    (long long)bytes);
	const enum attune_status status = attune_run(op, plan, a, workspace, (size_t)bytes, stream);
	if (handle)
		torch.delete_tensor_object(handle);
	return status;
}

static enum attune_status attend(const struct tensor *t)
{
	const struct planned *p = planned_of(&t[PLAN]);
	attune_tensors a;
	if (!p)
		return fail(ATTUNE_INVALID,
			    "%s: plan is no plan: it is a uint8 tensor on the CPU that "
			    "attune_torch_plan filled",
			    attention_call);
	if (!p->plan.num_parts)
		return ATTUNE_OK;
	const enum attune_status status = fill(&a, t, p->op, &p->plan);
	return status ? status : run_on(&t[Q], p->op, &p->plan, &a);
}

static void paged_attention(uint64_t *stack, uint64_t inputs, uint64_t outputs)
{
	struct tensor t[ARGUMENTS];
	enum attune_status status = ATTUNE_OK;
	(void)outputs;
	for (uint64_t i = 0; !status && i < ARGUMENTS; i++)
		if (!look_at(&t[i], argument_name[i], stack[i]))
			status = fail(ATTUNE_INVALID, "%s: %s has no memory", attention_call,
				      argument_name[i]);
	if (!status)
		status = attend(t);
	for (uint64_t i = 0; i < inputs; i++)
		torch.delete_tensor_object((void *)(uintptr_t)stack[i]);
	if (status) /* throws: nothing of this frame is needed afterwards */
		torch.check(0, __func__, "attune", 0, attune_last_error());
}

/* ---- registration ---- */

static void *library_of(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

static enum attune_status find_functions(void)
{
	static const struct {
		const char *name;
		void *at;
	} function[] = {
#define F(result, name, arguments) { "aoti_torch_" #name, &torch.name },
		FUNCTIONS(F)
#undef F
	};
	void *library = library_of("libtorch_cpu.so"), *gpus = library_of("libtorch_cuda.so");
	if (!library)
		return fail(ATTUNE_UNSUPPORTED,
			    "attune_torch_register: torch is not loaded: import it first");
	for (size_t i = 0; i < sizeof function / sizeof *function; i++) {
		void *const f = dlsym(library, function[i].name);
		if (!f)
			return fail(
			    ATTUNE_UNSUPPORTED,
			    "attune_torch_register: this torch lacks %s: 2.7.1 or newer is needed",
			    function[i].name);
		memcpy(function[i].at, &f, sizeof f);
	}
	if (!gpus)
		gpus = library_of("libtorch_hip.so");
	if (gpus)
		*(void **)&torch.get_current_cuda_stream =
		    dlsym(gpus, "aoti_torch_get_current_cuda_stream");
	return ATTUNE_OK;
}

static enum attune_status define(void)
{
	static const char *const device[] = { "CPU", "CUDA" };
	void *library;
	int failed = torch.library_init_fragment("attune", "attune", 0, &library) ||
		     torch.library_def(library, attention_schema);
	for (int i = 0; !failed && i < 2; i++)
		failed = torch.library_init_impl("attune", device[i], "attune", 0, &library) ||
			 torch.library_impl(library, "paged_attention", paged_attention);
	return failed
		   ? fail(ATTUNE_UNSUPPORTED,
			  "attune_torch_register: torch refuses the operators: another library of "
			  "this process may have registered them")
		   : ATTUNE_OK;
}

enum attune_status attune_torch_register(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int is_done;
	enum attune_status status = ATTUNE_OK;
	pthread_mutex_lock(&lock);
	if (!is_done) {
		status = find_functions();
		if (!status) {
			const int32_t types[] = {
				torch.dtype_float32(),  torch.dtype_float16(),
				torch.dtype_bfloat16(), torch.dtype_float8_e4m3fn(),
				torch.dtype_int32(),    torch.dtype_uint8()
			};
			memcpy(torch_type, types, sizeof types);
			status = define();
		}
		is_done = !status;
	}
	pthread_mutex_unlock(&lock);
	return status;
}
