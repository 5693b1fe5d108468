/* pages.cu - a batch of attune as FlashInfer's index arrays, which an engine also makes once
 * a step:
 *
 *   block_table [seqs][stride]   p0 p1 p2 .  .       pages       p0 p1 p2 p3 p4
 *                                p3 p4 .  .  .       page_start  0 3 5
 *
 * The table's entries behind the live pages are not read. */
#include "flashinfer.h"
#include <algorithm>
#include <cstring>

namespace adapter
{
namespace
{

enum { THREADS = 128 };

__global__ void gather_pages(int32_t *pages, const int32_t *page_start, const int32_t *block_table,
			     int stride)
{
	const int32_t begin = page_start[blockIdx.x], count = page_start[blockIdx.x + 1] - begin;
	const int32_t *row = block_table + (int64_t)blockIdx.x * stride;
	for (int i = blockIdx.y * THREADS + threadIdx.x; i < count; i += gridDim.y * THREADS)
		pages[begin + i] = row[i];
}

void host_index(const attune_batch *b, int page_size, plan *p)
{
	p->num_seqs = b->num_seqs;
	p->first_token = b->query_start[0];
	p->num_tokens = b->query_start[b->num_seqs] - p->first_token;
	p->query_start.resize(b->num_seqs + 1);
	p->page_start.resize(b->num_seqs + 1);
	p->seq_lens.assign(b->seq_lens, b->seq_lens + b->num_seqs);
	p->last_page_len.resize(b->num_seqs);
	for (int i = 0; i < b->num_seqs; i++) {
		const int32_t pages = (b->seq_lens[i] + page_size - 1) / page_size;
		p->query_start[i + 1] = b->query_start[i + 1] - p->first_token;
		p->page_start[i + 1] = p->page_start[i] + pages;
		p->last_page_len[i] = b->seq_lens[i] - (pages - 1) * page_size;
	}
}

/* Puts `v` at the end of what is copied. */
int32_t *append(const std::vector<int32_t> &v, const memory *m, size_t *used)
{
	int32_t *device = at<int32_t>(m->device, index_bytes) + *used;
	memcpy(at<int32_t>(m->pinned, index_bytes) + *used, v.data(), v.size() * sizeof(int32_t));
	*used += v.size();
	return device;
}

} // namespace

int make_index(op *o, const attune_plugin_batch *b, plan *p, char *error)
{
	host_index(&b->lengths, o->shape.page_size, p);
	const size_t ints = 3 * (size_t)p->num_seqs + 2, entries = (size_t)p->page_start.back();
	if (take_memory(o, ints, entries, &p->mem, error))
		return 1;
	size_t used = 0;
	p->d_query_start = append(p->query_start, &p->mem, &used);
	p->d_page_start = append(p->page_start, &p->mem, &used);
	p->d_last_page_len = append(p->last_page_len, &p->mem, &used);
	p->d_pages = p->mem.pages;
	const cudaStream_t stream = static_cast<cudaStream_t>(b->stream);
	cudaError_t status =
	    cudaMemcpyAsync(p->mem.device + index_bytes, p->mem.pinned + index_bytes,
			    used * sizeof(int32_t), cudaMemcpyHostToDevice, stream);
	if (status)
		return fail_cuda(error, "copy of the index arrays", status);
	int32_t longest = 1;
	for (int i = 0; i < p->num_seqs; i++)
		longest = std::max(longest, p->page_start[i + 1] - p->page_start[i]);
	const unsigned parts = std::min((longest + THREADS - 1) / THREADS, 32);
	gather_pages<<<dim3(p->num_seqs, parts), THREADS, 0, stream>>>(
	    p->d_pages, p->d_page_start, b->tensors.block_table, b->tensors.block_table_stride);
	status = cudaGetLastError();
	return status ? fail_cuda(error, "gather_pages", status) : 0;
}

int end_of_copies(plan *p, void *stream, char *error)
{
	const cudaError_t status =
	    cudaEventRecord(p->mem.copied, static_cast<cudaStream_t>(stream));
	return status ? fail_cuda(error, "cudaEventRecord", status) : 0;
}

} // namespace adapter
