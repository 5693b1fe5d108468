/* SPDX-License-Identifier: Apache-2.0 */
/* torch_register.c - the operators of attune_torch_register, without torch's headers and without
 * linking it. */
#include "torch_op.h"
#include "kernels/attune.h"
#include "kernels/spec/status.h"
#include <pthread.h>
#include <stdio.h>

// clang-format off
static const char *const of_attention[MOST_OPERANDS] = { "out", "q", "k_cache", "v_cache",
	"block_table", "query_start_loc", "seq_lens", "plan", "lse", "k_scale", "v_scale", "sinks",
	"alibi_slopes", "k_new", "v_new" };
static const char *const of_write[MOST_OPERANDS] = { "k_cache", "v_cache", "k_new", "v_new", "plan",
	"slots", "block_table", "query_start_loc", "seq_lens", "k_scale", "v_scale" };
static const char *const of_table[MOST_OPERANDS] = { "block_table", "indptr", "indices", "plan" };
static const char *const of_ragged[MOST_OPERANDS] = { "block_table", "seq_lens", "cu_seqlens_k",
	"plan", "pages" };

#define PLAIN "Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_table, " \
	"Tensor query_start_loc, Tensor seq_lens, Tensor plan"
#define WHOLE PLAIN ", Tensor(b!) lse, Tensor k_scale, Tensor v_scale, Tensor sinks, " \
	"Tensor alibi_slopes, Tensor k_new, Tensor v_new"

/* gives: how many of the operands, from the first on, a call makes and returns; it takes the others.
 * numbers: how many of the operands, at the end, are integers. */
static const struct op_of_torch {
	const char *name, *schema, *call;
	enum attune_status (*run)(struct tensor *);
	const char *const *operand;
	int gives, numbers;
} operators[] = {
	{ "paged_attention", "paged_attention(Tensor(a!) out, " WHOLE ") -> ()",
	  "attune::paged_attention", torch_attend, of_attention, 0, 0 },
	{ "paged_attention.new", "paged_attention.new(" WHOLE ") -> Tensor",
	  "attune::paged_attention", torch_attend, of_attention, 1, 0 },
	{ "paged_attention.plain_out", "paged_attention.plain_out(Tensor(a!) out, " PLAIN ") -> ()",
	  "attune::paged_attention", torch_attend, of_attention, 0, 0 },
	{ "paged_attention.plain", "paged_attention.plain(" PLAIN ") -> Tensor",
	  "attune::paged_attention", torch_attend, of_attention, 1, 0 },
	{ "write_kv",
	  "write_kv(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k_new, Tensor v_new, Tensor plan, "
	  "Tensor slots, Tensor block_table, Tensor query_start_loc, Tensor seq_lens, "
	  "Tensor k_scale, Tensor v_scale) -> ()",
	  "attune::write_kv", torch_write_kv, of_write, 0, 0 },
	{ "page_table",
	  "page_table(Tensor(a!) block_table, Tensor indptr, Tensor indices, Tensor plan) -> ()",
	  "attune::page_table", torch_page_table, of_table, 0, 0 },
	{ "ragged_table", "ragged_table(Tensor cu_seqlens_k, Tensor plan, int pages) -> (Tensor, Tensor)",
	  "attune::ragged_table", torch_ragged_table, of_ragged, 2, 1 },
};
// clang-format on

/* Throws torch's exception, which takes a line alone: the status stands behind it in brackets. */
static void throw_error(const struct op_of_torch *o, enum attune_status status)
{
	char line[1200]; /* torch copies it */
	snprintf(line, sizeof line, "%s (%s)", attune_last_error(), attune_status_text(status));
	torch.check(0, o->name, "attune", 0, line);
}

/* A call of torch: the stack owns the handles of its arguments, and takes those of its results. */
static void call(const struct op_of_torch *o, uint64_t *stack, uint64_t inputs)
{
	struct tensor t[MOST_OPERANDS] = { { 0 } }, *given = t + o->gives;
	const uint64_t tensors = inputs - (uint64_t)o->numbers;
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < MOST_OPERANDS; i++) {
		t[i].call = o->call;
		t[i].name = o->operand[i];
	}
	for (uint64_t i = 0; !status && i < tensors; i++)
		if (!tensor_look(&given[i], stack[i]))
			status =
			    fail(ATTUNE_INVALID, "%s: %s has no memory", o->call, given[i].name);
	for (uint64_t i = tensors; i < inputs; i++)
		given[i].number = (int64_t)stack[i];
	if (!status)
		status = o->run(t);
	for (uint64_t i = 0; i < tensors; i++)
		torch.delete_tensor_object((void *)(uintptr_t)stack[i]);
	for (int i = 0; i < o->gives; i++)
		if (!status)
			stack[i] = (uint64_t)(uintptr_t)t[i].handle;
		else if (t[i].handle)
			torch.delete_tensor_object(t[i].handle);
	if (status) /* nothing of this frame is needed any more */
		throw_error(o, status);
}

/* torch's kernels have no argument of their own. */
#define KERNEL(i)                                                                  \
	static void kernel_##i(uint64_t *stack, uint64_t inputs, uint64_t outputs) \
	{                                                                          \
		(void)outputs;                                                     \
		call(&operators[i], stack, inputs);                                \
	}
KERNEL(0)
KERNEL(1)
KERNEL(2)
KERNEL(3)
KERNEL(4)
KERNEL(5)
KERNEL(6)
static void (*const kernel[])(uint64_t *, uint64_t, uint64_t) = { kernel_0, kernel_1, kernel_2,
								  kernel_3, kernel_4, kernel_5,
								  kernel_6 };

static int define(const struct op_of_torch *o, void (*run)(uint64_t *, uint64_t, uint64_t))
{
	static const char *const device[] = { "CPU", "CUDA" };
	void *library;
	int failed = torch.library_init_fragment("attune", "attune", 0, &library) ||
		     torch.library_def(library, o->schema);
	for (int i = 0; !failed && i < 2; i++)
		failed = torch.library_init_impl("attune", device[i], "attune", 0, &library) ||
			 torch.library_impl(library, o->name, run);
	return !failed;
}

enum attune_status attune_torch_register(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int is_done;
	enum attune_status status = ATTUNE_OK;
	pthread_mutex_lock(&lock);
	if (!is_done) {
		status = torch_find();
		for (size_t i = 0; !status && i < sizeof kernel / sizeof *kernel; i++)
			if (!define(&operators[i], kernel[i]))
				status = fail(ATTUNE_UNSUPPORTED,
					      "attune_torch_register: torch refuses the operators: "
					      "another library of this process may have registered "
					      "them");
		is_done = !status;
	}
	pthread_mutex_unlock(&lock);
	return status;
}
