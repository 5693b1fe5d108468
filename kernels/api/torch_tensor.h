/* SPDX-License-Identifier: Apache-2.0 */
/* torch_tensor.h - torch's stable C functions, found by name in the libraries that the process has
 * loaded, and the tensors of an operator's call. */
#ifndef KERNELS_API_TORCH_TENSOR_H
#define KERNELS_API_TORCH_TENSOR_H

#include "kernels/launch/op.h"

/* The functions aoti_torch_NAME. Those that return an int return 0 if all is well. */
#define TORCH_FUNCTIONS(F)                                                                       \
	F(void, check, (int, const char *, const char *, uint32_t, const char *))                \
	F(int, delete_tensor_object, (void *))                                                   \
	F(int, get_data_ptr, (void *, void **))                                                  \
	F(int, get_device_index, (void *, int32_t *))                                            \
	F(int, get_device_type, (void *, int32_t *))                                             \
	F(int, get_dim, (void *, int64_t *))                                                     \
	F(int, get_dtype, (void *, int32_t *))                                                   \
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
	F(int32_t, dtype_int64, (void))                                                          \
	F(int32_t, dtype_uint8, (void))

struct torch_functions {
#define F(result, name, arguments) result(*name) arguments;
	TORCH_FUNCTIONS(F)
#undef F
	/* Of the library for GPUs; NULL: torch has none. AMD's torch has it by the same name. */
	int (*get_current_cuda_stream)(int32_t, void **);
};
extern struct torch_functions torch;
/* A library of torch, if the process has loaded it: libtorch_cpu.so; NULL: it has not. */
void *torch_loaded(const char *library);
/* ATTUNE_UNSUPPORTED: torch is not loaded, or lacks one of the functions. */
enum attune_status torch_find(void);

/* Of elements: the first ones are those of enum attune_dtype. */
enum { TYPE_INT32 = ATTUNE_E4M3 + 1, TYPE_INT64, TYPE_BYTES, TYPE_OTHER };

struct tensor {
	const char *call, *name; /* "attune::paged_attention", "q", for lines of errors */
	void *handle, *data;     /* data NULL: without elements, it is not given */
	const int64_t *size, *stride;
	int64_t dims;
	int64_t number; /* of an operand that is an int and no tensor */
	int type;
	int32_t dtype, device_type, device; /* torch's numbers */
};

/* Fills all but call and name. Returns whether torch answered all. */
int tensor_look(struct tensor *, uint64_t handle);
/* Of [batch, tokens, ...] makes [batch * tokens, ...] with sizes and strides in `room`, where one
 * stride leads from each token to the next; else leaves it as it is. */
struct rows {
	int64_t size[3], stride[3];
};
void tensor_rows(struct tensor *, struct rows *room);
/* A contiguous tensor of bytes where `like` is, of torch's allocator, which gives its memory to
 * other work of the current stream only behind what was launched before its handle was deleted, and
 * takes it from a graph's own memory while one is captured. */
enum attune_status tensor_bytes(const struct tensor *like, size_t bytes, void **handle,
				void **data);
/* Makes a contiguous tensor of the type and on the device of another; its handle is the caller's. */
enum attune_status tensor_make(struct tensor *, const struct tensor *like, int64_t dims,
			       const int64_t *size);
/* torch's current stream for the tensor's device; NULL on the CPU. */
enum attune_status tensor_stream(const struct tensor *, void **stream);

/* What a call needs of a tensor: a type and the size of each dimension; AT_LEAST(n): n or more. */
#define AT_LEAST(n) (-1 - (int64_t)(n))
enum { MOST_DIMS = 5 };
struct wanted {
	int type, dims;
	int64_t size[MOST_DIMS];
};
/* Whether the tensor is given, on the op's device, and of this type and shape. Bits of E4M3 may
 * come as bytes. */
enum attune_status tensor_fits(const struct tensor *, const attune_op *, const struct wanted *);
/* Whether no two of its elements have one place. */
enum attune_status tensor_is_writable(const struct tensor *);
/* As tensor_fits, and elements of the last dimension are adjacent. */
enum attune_status tensor_fits_packed(const struct tensor *, const attune_op *,
				      const struct wanted *);

#endif
