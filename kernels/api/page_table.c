/* SPDX-License-Identifier: Apache-2.0 */
/* page_table.c - attune_page_table: a block table from page lists, or from the starts of ragged K
 * and V. */
#include "kernels/attune.h"
#include "kernels/gpu/helpers/page_lists.h"
#include "kernels/launch/extra.h"
#include "kernels/segments.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/status.h"

/* On the CPU: what is out of order is refused, which a GPU does not look for. */
static enum attune_status write_row(const struct attune_page_lists_args *a, int seq)
{
	const long long first = a->indptr[seq], count = a->indptr[seq + 1] - first;
	const long long n = a->indices ? count : (count + a->page_size - 1) / a->page_size;
	int32_t *row = a->table + (long long)seq * a->table_stride;
	if (first < 0 || count < 0)
		return fail(ATTUNE_INVALID,
			    "attune_page_table: indptr must rise from 0 or more; at sequence %d it "
			    "goes from %lld to %lld",
			    seq, first, first + count);
	if (n > a->table_stride)
		return fail(ATTUNE_INVALID,
			    "attune_page_table: sequence %d has %lld pages, and a row of the table "
			    "%d entries",
			    seq, n, a->table_stride);
	for (long long j = 0; j < n; j++) {
		const int64_t page = !a->indices ? first + j * a->page_size
				     : a->index_bytes == 8
					 ? ((const int64_t *)a->indices)[first + j]
					 : ((const int32_t *)a->indices)[first + j];
		if (page != (int32_t)page)
			return fail(
			    ATTUNE_INVALID,
			    "attune_page_table: indices[%lld] is %lld, it must be below 2^31",
			    first + j, (long long)page);
		row[j] = (int32_t)page;
	}
	if (a->seq_lens)
		a->seq_lens[seq] = (int32_t)count;
	return ATTUNE_OK;
}

static const char *lists_error(const attune_op *op, int num_seqs, const attune_page_lists *lists,
			       const int32_t *table, int table_stride)
{
	if (num_seqs < 0 || table_stride < 0)
		return "num_seqs and table_stride must be 0 or more";
	if (num_seqs && (!lists->indptr || (table_stride && !table)))
		return "lists.indptr and table must be given";
	if (lists->index_bytes && lists->index_bytes != 4 && lists->index_bytes != 8)
		return "lists.index_bytes must be 4, 8 or 0";
	if (!lists->indices && op->shape.kv_layout == ATTUNE_KV_CLASSIC)
		return "ragged K and V have no classic layout: lists.indices must be given";
	return NULL;
}

enum { SHARE = 1024, MOST_SHARES = 64 };

enum attune_status attune_page_table(const attune_op *op, int num_seqs,
				     const attune_page_lists *lists, int32_t *table,
				     int table_stride, void *stream)
{
	static const char call[] = "attune_page_table";
	enum attune_status status = ATTUNE_OK;
	attune_page_lists own;
	if (!op || !lists)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	lists = page_lists_read(lists, &own, call);
	if (!lists)
		return ATTUNE_INVALID;
	const char *error = lists_error(op, num_seqs, lists, table, table_stride);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	const struct attune_page_lists_args a = {
		lists->indptr,      lists->indices, table,
		lists->seq_lens,    table_stride,   lists->index_bytes ? lists->index_bytes : 4,
		op->shape.page_size
	};
	if (op->ctx->device.info.backend == BACKEND_CPU) {
		for (int i = 0; i < num_seqs && !status; i++)
			status = write_row(&a, i);
		return status;
	}
	if (!num_seqs || (!table_stride && !lists->seq_lens))
		return ATTUNE_OK;
	const long long all = (table_stride + SHARE - 1ll) / SHARE;
	const long long shares = max_of(1, min_of(all, MOST_SHARES));
	return extra_launch(op, EXTRA_PAGE_TABLE, (unsigned)num_seqs, (unsigned)shares, &a,
			    sizeof a, stream);
}
