/* SPDX-License-Identifier: Apache-2.0 */
/* fake_torch.h - the functions of torch's stable C interface that attune_torch_register finds, over
 * tensors that a test describes. Include after cmocka.h. */
#ifndef TESTS_ENGINES_FAKE_TORCH_H
#define TESTS_ENGINES_FAKE_TORCH_H

#include "kernels/api/torch_tensor.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_CPU, FAKE_CUDA, MOST_OPERATORS = 8, MOST_OPERANDS = 16 };
/* torch's numbers of types; FAKE_F64: one that the library does not know. */
enum {
	FAKE_U8,
	FAKE_I32 = 3,
	FAKE_I64,
	FAKE_F16,
	FAKE_F32,
	FAKE_F64,
	FAKE_BF16 = 15,
	FAKE_E4M3 = 24
};

struct fake {
	void *data;
	int64_t dims, size[MOST_DIMS], stride[MOST_DIMS];
	int32_t dtype, device_type, device;
	int is_number; /* `dims`; no tensor */
};

typedef void fake_kernel(uint64_t *, uint64_t, uint64_t);
static struct {
	const char *library; /* what torch_loaded gives: NULL, "" for these functions, or a file */
	int refuses;         /* no further definitions are taken */
	int live, made;      /* tensor handles; tensors that the last call made */
	int num_schemas, num_cuda;
	const char *schema[MOST_OPERATORS], *name[MOST_OPERATORS];
	fake_kernel *kernel[MOST_OPERATORS]; /* of the CPU */
	char error[1024];
	jmp_buf thrown;
} fake;

static void *fake_handle(const struct fake *t)
{
	struct fake *copy = malloc(sizeof *copy);
	assert_non_null(copy);
	*copy = *t;
	fake.live++;
	return copy;
}

/* A contiguous tensor. dims of 0: without elements. */
static struct fake fake_tensor(const void *data, int32_t dtype, int64_t dims, int64_t a, int64_t b,
			       int64_t c, int64_t d)
{
	struct fake t = {
		(void *)(uintptr_t)data, dims, { a, b, c, d }, { 0 }, dtype, FAKE_CPU, 0, 0
	};
	int64_t stride = 1;
	for (int64_t i = dims - 1; i >= 0; i--) {
		t.stride[i] = stride;
		stride *= t.size[i];
	}
	return t;
}

#define F(result, name, arguments) result aoti_torch_##name arguments;
TORCH_FUNCTIONS(F)
#undef F

/* An operand that is an int and no tensor. */
static struct fake fake_number(int64_t n)
{
	return (struct fake){ .is_number = 1, .dims = n };
}

/* Calls an operator; returns the line of its exception, NULL: none. No handle stays. result: gets the
 * `results` tensors that the operator returns. */
static const char *fake_call_for(struct fake *result, uint64_t results, const char *name,
				 const struct fake *t, int n)
{
	uint64_t stack[MOST_OPERANDS];
	volatile int i = 0; /* setjmp */
	while (strcmp(fake.name[i], name))
		i++;
	fake.made = 0;
	for (int k = 0; k < n; k++)
		stack[k] =
		    t[k].is_number ? (uint64_t)t[k].dims : (uint64_t)(uintptr_t)fake_handle(&t[k]);
	fake.error[0] = 0;
	if (!setjmp(fake.thrown)) {
		fake.kernel[i](stack, (uint64_t)n, results);
		for (uint64_t k = 0; k < results; k++) {
			result[k] = *(struct fake *)(uintptr_t)stack[k];
			aoti_torch_delete_tensor_object((void *)(uintptr_t)stack[k]);
		}
	}
	assert_int_equal(fake.live, 0);
	char *status = strstr(fake.error, " (invalid argument)"); /* of all that is refused here */
	assert_true(!fake.error[0] || status);
	if (status)
		*status = 0;
	return fake.error[0] ? fake.error : NULL;
}

static const char *fake_call(const char *name, const struct fake *t, int n)
{
	return fake_call_for(NULL, 0, name, t, n);
}

void *torch_loaded(const char *library)
{
	if (!fake.library || strcmp(library, "libtorch_cpu.so"))
		return NULL;
	return *fake.library ? dlopen(fake.library, RTLD_NOW) : dlopen(NULL, RTLD_NOW);
}

void aoti_torch_check(int holds, const char *function, const char *file, uint32_t line,
		      const char *text)
{
	(void)holds, (void)function, (void)file, (void)line;
	snprintf(fake.error, sizeof fake.error, "%s", text);
	longjmp(fake.thrown, 1);
}

int aoti_torch_delete_tensor_object(void *t)
{
	free(t);
	fake.live--;
	return 0;
}

#define GIVES(name, type, value)                     \
	int aoti_torch_##name(void *handle, type *r) \
	{                                            \
		struct fake *t = handle;             \
		*r = value;                          \
		return 0;                            \
	}
GIVES(get_data_ptr, void *, t->data)
GIVES(get_device_index, int32_t, t->device)
GIVES(get_device_type, int32_t, t->device_type)
GIVES(get_dim, int64_t, t->dims)
GIVES(get_dtype, int32_t, t->dtype)
GIVES(get_sizes, int64_t *, t->size)
GIVES(get_strides, int64_t *, t->stride)

/* Of bytes, which are workspaces; of all else, two of a call. */
static _Alignas(64) char fake_memory[1 << 22], fake_rows[2][1 << 16];
int aoti_torch_empty_strided(int64_t dims, const int64_t *size, const int64_t *stride,
			     int32_t dtype, int32_t device_type, int32_t device, void **handle)
{
	struct fake t = { .data = fake_rows[fake.made % 2], .dims = dims, .dtype = dtype };
	t.device_type = device_type;
	t.device = device;
	if (dtype == FAKE_U8)
		t.data = fake_memory;
	memcpy(t.size, size, (size_t)dims * sizeof *size);
	memcpy(t.stride, stride, (size_t)dims * sizeof *stride);
	fake.made++;
	*handle = fake_handle(&t);
	return *size > (int64_t)sizeof fake_memory;
}

static char def_library, cpu_library, cuda_library;
int aoti_torch_library_init_fragment(const char *name, const char *file, uint32_t line, void **r)
{
	(void)file, (void)line;
	*r = &def_library;
	return strcmp(name, "attune") != 0;
}

int aoti_torch_library_init_impl(const char *name, const char *device, const char *file,
				 uint32_t line, void **r)
{
	(void)name, (void)file, (void)line;
	*r = strcmp(device, "CPU") ? &cuda_library : &cpu_library;
	return 0;
}

int aoti_torch_library_def(void *library, const char *schema)
{
	if (fake.refuses || library != &def_library)
		return 1;
	fake.schema[fake.num_schemas++] = schema;
	return 0;
}

int aoti_torch_library_impl(void *library, const char *name, fake_kernel *kernel)
{
	if (library == &cuda_library) {
		fake.num_cuda++;
		return 0;
	}
	fake.name[fake.num_schemas - 1] = name;
	fake.kernel[fake.num_schemas - 1] = kernel;
	return 0;
}

#define IS(name, number)                \
	int32_t aoti_torch_##name(void) \
	{                               \
		return number;          \
	}
IS(device_type_cpu, FAKE_CPU)
IS(device_type_cuda, FAKE_CUDA)
IS(dtype_float32, FAKE_F32)
IS(dtype_float16, FAKE_F16)
IS(dtype_bfloat16, FAKE_BF16)
IS(dtype_float8_e4m3fn, FAKE_E4M3)
IS(dtype_int32, FAKE_I32)
IS(dtype_int64, FAKE_I64)
IS(dtype_uint8, FAKE_U8)

#endif
