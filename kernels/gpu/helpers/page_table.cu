/* SPDX-License-Identifier: Apache-2.0 */
/* page_table.cu - writes a block table from page lists. grid: x = sequences, y = shares of a row. */
#include "page_lists.h"
#include "../gpu.h"

KERNEL(NUM_WARPS * 32) ENTRY(const attune_page_lists_args a)
{
	const int seq = blockIdx.x, first = a.indptr[seq], keys = a.indptr[seq + 1] - first;
	const int n = min(a.table_stride, a.indices ? keys : (keys + a.page_size - 1) / a.page_size);
	if (a.seq_lens && !blockIdx.y && !threadIdx.x)
		a.seq_lens[seq] = keys;
	int *row = a.table + (long long)seq * a.table_stride;
	for (int j = blockIdx.y * blockDim.x + threadIdx.x; j < n; j += gridDim.y * blockDim.x)
		if (!a.indices)
			row[j] = first + j * a.page_size;
		else if (a.index_bytes == 8)
			row[j] = (int)((const long long *)a.indices)[first + j];
		else
			row[j] = ((const int *)a.indices)[first + j];
}
