/* SPDX-License-Identifier: Apache-2.0 */
/* torch_host.c - checks of lengths, page lists and slots on the CPU. */
#include "torch_host.h"
#include "kernels/segments.h"
#include "kernels/spec/status.h"

static int is_on_host(const attune_op *op)
{
	return op->ctx->device.info.backend == BACKEND_CPU;
}

/* The keys [first, end) of one sequence. */
struct keys {
	int64_t seq, first, end;
};

static enum attune_status pages_fit(const attune_op *op, const attune_tensors *a,
				    const struct keys *keys, const struct tensor *table,
				    int64_t pages)
{
	const int64_t page = op->shape.page_size, last = (keys->end - 1) / page;
	const int32_t *row = a->block_table + keys->seq * a->block_table_stride;
	if (last >= table->size[1])
		return fail(ATTUNE_INVALID,
			    "%s: sequence %lld has %lld keys, and its row of %s %lld pages of %lld",
			    table->call, (long long)keys->seq, (long long)keys->end, table->name,
			    (long long)table->size[1], (long long)page);
	for (int64_t p = keys->first / page; p <= last; p++) {
		const int64_t used = min_of(keys->end - p * page, page);
		if (row[p] < 0 || (a->kv_slots ? row[p] + used > a->kv_slots : row[p] >= pages))
			return fail(
			    ATTUNE_INVALID, "%s: %s[%lld][%lld] is %d, which is not in the cache",
			    table->call, table->name, (long long)keys->seq, (long long)p, row[p]);
	}
	return ATTUNE_OK;
}

enum attune_status host_step_fits(const struct planned *planned, const attune_tensors *a,
				  const struct tensor *tokens, const struct tensor *table,
				  const struct tensor *k, const struct tensor *v)
{
	const attune_op *op = planned->op;
	const int32_t *start = a->query_start;
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; is_on_host(op) && !status && i < planned->plan.num_seqs; i++) {
		const int64_t query = (int64_t)start[i + 1] - start[i], end = a->seq_lens[i];
		if (start[i] < 0 || query < 0 || start[i + 1] > tokens->size[0])
			return fail(ATTUNE_INVALID,
				    "%s: query_start_loc goes from %d to %d at sequence %d, and %s "
				    "has %lld tokens",
				    tokens->call, start[i], start[i + 1], i, tokens->name,
				    (long long)tokens->size[0]);
		if (a->q && start[i + 1] > planned->plan.num_tokens)
			return fail(ATTUNE_INVALID,
				    "%s: query_start_loc goes up to %d at sequence %d, and the "
				    "plan is for %d tokens",
				    tokens->call, start[i + 1], i, planned->plan.num_tokens);
		struct keys keys = { i, 0, end };
		if (a->k_new && !a->q)
			keys.first = max_of(end - query, 0);
		else if (op->shape.window)
			keys.first = max_of(end - query - op->shape.window + 1, 0);
		if (query && end > 0)
			status = pages_fit(op, a, &keys, table, min_of(k->size[0], v->size[0]));
	}
	return status;
}

enum attune_status host_slots_fit(const struct planned *planned, const struct tensor *slots,
				  const struct tensor *k, const struct tensor *v)
{
	const attune_op *op = planned->op;
	const int64_t *slot = slots->data;
	const int64_t all =
	    min_of(k->size[0], v->size[0]) * (k->dims > 3 ? op->shape.page_size : 1);
	for (int64_t i = 0; is_on_host(op) && i < slots->size[0]; i++)
		if (slot[i] >= all)
			return fail(ATTUNE_INVALID, "%s: %s[%lld] is %lld, and the cache has %lld",
				    slots->call, slots->name, (long long)i, (long long)slot[i],
				    (long long)all);
	return ATTUNE_OK;
}

enum attune_status host_lists_fit(const attune_op *op, int64_t seqs, const struct tensor *table,
				  const struct tensor *indptr, const struct tensor *indices)
{
	const int32_t *start = indptr->data;
	const int64_t page = indices->data ? 1 : op->shape.page_size;
	if (!is_on_host(op))
		return ATTUNE_OK;
	for (int64_t i = 0; i < seqs; i++) {
		const int64_t pages = ((int64_t)start[i + 1] - start[i] + page - 1) / page;
		if (pages > table->size[1])
			return fail(
			    ATTUNE_INVALID,
			    "%s: sequence %lld has %lld pages, and a row of %s %lld entries",
			    table->call, (long long)i, (long long)pages, table->name,
			    (long long)table->size[1]);
		if (indices->data && start[i + 1] > indices->size[0])
			return fail(ATTUNE_INVALID,
				    "%s: indptr goes up to %d at sequence %lld, and %s has %lld "
				    "entries",
				    table->call, start[i + 1], (long long)i, indices->name,
				    (long long)indices->size[0]);
	}
	return ATTUNE_OK;
}
