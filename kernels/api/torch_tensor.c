/* SPDX-License-Identifier: Apache-2.0 */
/* torch_tensor.c - finds torch's functions, and checks the tensors of an operator's call. */
#include "torch_tensor.h"
#include "kernels/spec/status.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct torch_functions torch;

static const char *const type_name[] = { "float32", "float16", "bfloat16", "float8_e4m3fn",
					 "int32",   "int64",   "uint8" };
static int32_t torch_type[TYPE_OTHER]; /* torch's number of each */

void *torch_loaded(const char *library)
{
	return dlopen(library, RTLD_NOW | RTLD_NOLOAD);
}

enum attune_status torch_find(void)
{
	static const struct {
		const char *name;
		void *at;
	} function[] = {
#define F(result, name, arguments) { "aoti_torch_" #name, &torch.name },
		TORCH_FUNCTIONS(F)
#undef F
	};
	void *library = torch_loaded("libtorch_cpu.so"), *gpus = torch_loaded("libtorch_cuda.so");
	void *f;
	if (!library)
		return fail(ATTUNE_UNSUPPORTED,
			    "attune_torch_register: torch is not loaded: import it first");
	for (size_t i = 0; i < sizeof function / sizeof *function; i++) {
		f = dlsym(library, function[i].name);
		if (!f)
			return fail(
			    ATTUNE_UNSUPPORTED,
			    "attune_torch_register: this torch has no %s: 2.7.1 or newer is "
			    "needed",
			    function[i].name);
		memcpy(function[i].at, &f, sizeof f);
	}
	if (!gpus)
		gpus = torch_loaded("libtorch_hip.so");
	f = gpus ? dlsym(gpus, "aoti_torch_get_current_cuda_stream") : NULL;
	memcpy(&torch.get_current_cuda_stream, &f, sizeof f);
	const int32_t types[] = { torch.dtype_float32(),  torch.dtype_float16(),
				  torch.dtype_bfloat16(), torch.dtype_float8_e4m3fn(),
				  torch.dtype_int32(),    torch.dtype_int64(),
				  torch.dtype_uint8() };
	memcpy(torch_type, types, sizeof types);
	return ATTUNE_OK;
}

int tensor_look(struct tensor *t, uint64_t handle)
{
	int64_t *size, *stride;
	*t = (struct tensor){ .call = t->call,
			      .name = t->name,
			      .handle = (void *)(uintptr_t)handle };
	if (torch.get_data_ptr(t->handle, &t->data) || torch.get_sizes(t->handle, &size) ||
	    torch.get_strides(t->handle, &stride) || torch.get_dim(t->handle, &t->dims) ||
	    torch.get_dtype(t->handle, &t->dtype) ||
	    torch.get_device_type(t->handle, &t->device_type) ||
	    torch.get_device_index(t->handle, &t->device))
		return 0;
	t->size = size;
	t->stride = stride;
	while (t->type < TYPE_OTHER && torch_type[t->type] != t->dtype)
		t->type++;
	return 1;
}

void tensor_rows(struct tensor *t, struct rows *room)
{
	if (!t->data || t->dims != 4)
		return;
	const int64_t batch = t->size[0], tokens = t->size[1];
	if (batch > 1 && tokens > 1 && t->stride[0] != tokens * t->stride[1])
		return;
	*room = (struct rows){ { batch * tokens, t->size[2], t->size[3] },
			       { t->stride[tokens > 1], t->stride[2], t->stride[3] } };
	t->size = room->size;
	t->stride = room->stride;
	t->dims = 3;
}

enum attune_status tensor_bytes(const struct tensor *like, size_t bytes, void **handle, void **data)
{
	const int64_t size = (int64_t)bytes, one = 1;
	if (torch.empty_strided(1, &size, &one, torch_type[TYPE_BYTES], like->device_type,
				like->device, handle) ||
	    torch.get_data_ptr(*handle, data))
		return fail(ATTUNE_NO_MEMORY,
			    "%s: torch has no memory for a workspace of %zu bytes", like->call,
			    bytes);
	return ATTUNE_OK;
}

enum attune_status tensor_make(struct tensor *t, const struct tensor *like, int64_t dims,
			       const int64_t *size)
{
	int64_t stride[MOST_DIMS], n = 1;
	void *handle;
	if (dims > MOST_DIMS)
		return fail(ATTUNE_INVALID, "%s: %s has %lld dimensions, which are too many",
			    like->call, like->name, (long long)dims);
	for (int64_t d = dims; d-- > 0; n *= size[d] ? size[d] : 1)
		stride[d] = n;
	if (torch.empty_strided(dims, size, stride, like->dtype, like->device_type, like->device,
				&handle))
		return fail(ATTUNE_NO_MEMORY, "%s: torch has no memory for %s", like->call,
			    t->name);
	tensor_look(t, (uint64_t)(uintptr_t)handle);
	return ATTUNE_OK;
}

enum attune_status tensor_stream(const struct tensor *t, void **stream)
{
	*stream = NULL;
	if (t->device_type == torch.device_type_cpu() ||
	    (torch.get_current_cuda_stream && !torch.get_current_cuda_stream(t->device, stream)))
		return ATTUNE_OK;
	return fail(ATTUNE_DEVICE_ERROR, "%s: torch gives no current stream of cuda:%d", t->call,
		    t->device);
}

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

static enum attune_status odd_shape(const struct tensor *t, const struct wanted *w)
{
	char has[128], must[128];
	shape_text(has, sizeof has, t->size, t->dims);
	shape_text(must, sizeof must, w->size, w->dims);
	return fail(ATTUNE_INVALID, "%s: %s has the shape %s, it must have %s", t->call, t->name,
		    has, must);
}

static int is_on(const struct tensor *t, const struct device_info *d)
{
	return d->backend == BACKEND_CPU
		   ? t->device_type == torch.device_type_cpu()
		   : t->device_type == torch.device_type_cuda() && t->device == d->ordinal;
}

static enum attune_status odd_device(const struct tensor *t, const struct device_info *d)
{
	if (d->backend == BACKEND_CPU)
		return fail(ATTUNE_INVALID, "%s: %s must be on the CPU, as the op of the plan is",
			    t->call, t->name);
	return fail(ATTUNE_INVALID, "%s: %s must be on cuda:%d, as the op of the plan is", t->call,
		    t->name, d->ordinal);
}

enum attune_status tensor_fits(const struct tensor *t, const attune_op *op, const struct wanted *w)
{
	const struct device_info *d = &op->ctx->device.info;
	if (!t->data)
		return fail(ATTUNE_INVALID, "%s: %s has no elements", t->call, t->name);
	if (!is_on(t, d))
		return odd_device(t, d);
	if (t->type != w->type && !(t->type == TYPE_BYTES && w->type == ATTUNE_E4M3))
		return fail(ATTUNE_INVALID, "%s: %s must be of torch.%s", t->call, t->name,
			    type_name[w->type]);
	return has_shape(t, w) ? ATTUNE_OK : odd_shape(t, w);
}

enum attune_status tensor_is_writable(const struct tensor *t)
{
	for (int64_t d = 0; d < t->dims; d++)
		if (t->size[d] > 1 && !t->stride[d])
			return fail(ATTUNE_INVALID,
				    "%s: %s is written, and its elements lie on one another: "
				    "dimension %lld has a stride of 0",
				    t->call, t->name, (long long)d);
	return ATTUNE_OK;
}

enum attune_status tensor_fits_packed(const struct tensor *t, const attune_op *op,
				      const struct wanted *w)
{
	const enum attune_status status = tensor_fits(t, op, w);
	if (!status && t->size[t->dims - 1] > 1 && t->stride[t->dims - 1] != 1)
		return fail(ATTUNE_INVALID, "%s: the last dimension of %s must be contiguous",
			    t->call, t->name);
	return status;
}
