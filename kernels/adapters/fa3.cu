/* fa3.cu - FlashAttention-3 of vllm-project/flash-attention, folder hopper/, as a plug-in of
 * attune's races. fa3_call.h has the calls, fa3_kernels.cu the kernels. */
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "fa3_call.h"

namespace
{
const int64_t MAX_WORKSPACE = (int64_t)1 << 30;

struct fa3_plan {
	Flash_fwd_params params; /* all but the tensors and the workspace */
	int64_t first;           /* row of q and out */
	int *words;              /* the metadata */
	size_t room;             /* words */
	fa3_plan *next;          /* of the op's spare plans */
};

struct fa3_op {
	attune_shape shape;
	int device, units, splits;
	fa3_plan *spare; /* freed plans, whose memory the next ones take */
};

int fails(char *error, const char *what, cudaError_t why)
{
	if (why == cudaSuccess)
		return 0;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s: %s", what, cudaGetErrorString(why));
	return 1;
}

const int splits_values[] = { 0, 1, 2, 4, 8, 16, 32, 64, 128 };
const attune_plugin_axis axes[] = {
	{ "SPLITS", "most splits of a sequence; 0: FlashAttention's heuristic", splits_values,
	  sizeof splits_values / sizeof *splits_values, 0 }
};

/* In a batch. */
const char *refuses_part(const attune_shape *shape, int splits, const attune_plugin_part *part,
			 int units)
{
	if (splits > 1 && part->num_seqs > fa3::MAX_SEQS_SPLIT)
		return "splits in batches of more than 992 sequences";
	const fa3::sizes s = { part->num_seqs, part->max_query, (int)part->max_seq,
			       part->query_tokens };
	if (fa3::workspace_of(fa3::params_of(shape, units, splits, s)) > MAX_WORKSPACE)
		return "splits whose partials take more than 1 GiB";
	return NULL;
}

const char *refuses(const attune_shape *shape, const int *values, const attune_plugin_part *part,
		    const attune_plugin_device *device)
{
	if (strcmp(device->backend, "cuda") != 0 || strncmp(device->arch, "sm_90", 5) != 0)
		return "devices other than sm_90";
	if (shape->head_size != fa3::HEAD)
		return "head sizes other than 128";
	if (shape->dtype != ATTUNE_BF16 || shape->kv_dtype != ATTUNE_BF16)
		return "types other than BF16";
	if (shape->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic KV layout";
	if (!shape->causal)
		return "attention that is not causal";
	if (shape->window > 0)
		return "windows";
	if (shape->softcap > 0)
		return "a softcap";
	if (shape->has_sinks)
		return "sinks";
	if (shape->has_alibi)
		return "ALiBi";
	if (shape->has_lse)
		return "LSE as an output";
	return part ? refuses_part(shape, values[0], part, device->units) : NULL;
}

/* A launch for one sequence without a query. `memory` is of zeros: all tensors, lengths, metadata
 * and the workspace. */
int launch_nothing(const fa3_op *op, int max_query, int splits, char *memory, char *error)
{
	const fa3::sizes s = { 1, max_query, 1, 1 };
	Flash_fwd_params p = fa3::params_of(&op->shape, op->units, splits, s);
	attune_tensors t{};

	t.q = t.k_cache = t.v_cache = t.out = memory;
	t.q_head_stride = t.out_head_stride = t.k_slot_stride = t.v_slot_stride = fa3::HEAD;
	t.q_token_stride = t.out_token_stride = (int64_t)fa3::HEAD * p.h;
	t.k_head_stride = t.v_head_stride = (int64_t)fa3::HEAD * p.page_size;
	t.k_page_stride = t.v_page_stride = t.k_head_stride * p.h_k;
	t.block_table = (const int32_t *)memory;
	fa3::set_tensors(p, &t, 0);
	fa3::set_metadata(p, (int *)memory);
	fa3::set_workspace(p, memory);
	p.cu_seqlens_q = p.seqused_k = (int *)memory;
	return fails(error, "the first launch", fa3::enqueue(p, NULL)) ||
	       fails(error, "the first launch", cudaDeviceSynchronize());
}

/* CUDA loads a kernel when it is first used, which a stream that captures may not allow. So each
 * that a batch may need runs once. */
int load(const fa3_op *op, char *error)
{
	const size_t bytes = 4096;
	char *memory = NULL;
	int bad = fails(error, "cudaMalloc", cudaMalloc((void **)&memory, bytes)) ||
		  fails(error, "cudaMemset", cudaMemset(memory, 0, bytes));

	for (int splits = 1; splits <= 2 && !bad; splits++)
		if (splits == 1 || op->splits != 1)
			bad = launch_nothing(op, 1, splits, memory, error) ||
			      launch_nothing(op, 4096, splits, memory, error);
	cudaFree(memory);
	return bad;
}

int prepare(void **made, const attune_shape *shape, const int *values,
	    const attune_plugin_device *device, char *error)
{
	fa3_op *op =
	    new (std::nothrow) fa3_op{ *shape, device->ordinal, device->units, values[0], NULL };

	if (!op)
		return fails(error, "prepare", cudaErrorMemoryAllocation);
	if (fails(error, "cudaSetDevice", cudaSetDevice(op->device)) || load(op, error)) {
		delete op;
		return 1;
	}
	*made = op;
	return 0;
}

void free_plan(void *made, void *planned)
{
	fa3_op *op = (fa3_op *)made;
	fa3_plan *plan = (fa3_plan *)planned;

	plan->next = op->spare;
	op->spare = plan;
}

/* A spare plan, or a new one, with room for the metadata of `seqs` sequences; NULL after a failure.
 * Memory is kept, as an engine keeps its own, so that a step seldom allocates. */
fa3_plan *take_plan(fa3_op *op, int seqs, char *error)
{
	fa3_plan *plan = op->spare;
	size_t room = 1024;

	if (plan)
		op->spare = plan->next;
	else
		plan = new (std::nothrow) fa3_plan();
	if (!plan) {
		fails(error, "plan", cudaErrorMemoryAllocation);
		return NULL;
	}
	if (plan->room >= fa3::words_of(seqs))
		return plan;
	while (room < fa3::words_of(seqs))
		room *= 2;
	cudaFree(plan->words);
	plan->room = 0;
	plan->words = NULL;
	if (fails(error, "cudaMalloc", cudaMalloc((void **)&plan->words, room * sizeof(int)))) {
		free_plan(op, plan);
		return NULL;
	}
	plan->room = room;
	return plan;
}

fa3::sizes sizes_of(const attune_batch *lengths)
{
	const int32_t *start = lengths->query_start;
	fa3::sizes s = { lengths->num_seqs, 0, 0, 0 };

	for (int i = 0; i < s.seqs; i++) {
		const int query = start[i + 1] - start[i];

		s.max_query = query > s.max_query ? query : s.max_query;
		s.max_seq = lengths->seq_lens[i] > s.max_seq ? lengths->seq_lens[i] : s.max_seq;
		s.rows += query;
	}
	return s;
}

/* FA3 sizes its partials by the number of rows, so query starts must count from 0. */
cudaError_t set_lengths(fa3_plan *plan, const attune_plugin_batch *batch)
{
	Flash_fwd_params &p = plan->params;
	const int32_t *start = batch->lengths.query_start;

	p.seqused_k = (int *)batch->tensors.seq_lens;
	p.cu_seqlens_q = (int *)batch->tensors.query_start;
	plan->first = start[0];
	if (start[0] == 0)
		return cudaSuccess;
	std::vector<int> from_zero(start, start + p.b + 1);
	for (int &row : from_zero)
		row -= start[0];
	p.cu_seqlens_q = fa3::starts_in(p.b, plan->words);
	/* From memory that is not pinned: it has been read when the call returns. */
	return cudaMemcpyAsync(p.cu_seqlens_q, from_zero.data(), from_zero.size() * sizeof(int),
			       cudaMemcpyHostToDevice, (cudaStream_t)batch->stream);
}

int make_plan(void *made, const attune_plugin_batch *batch, void **planned, size_t *workspace,
	      char *error)
{
	fa3_op *op = (fa3_op *)made;
	const fa3::sizes s = sizes_of(&batch->lengths);

	if (fails(error, "cudaSetDevice", cudaSetDevice(op->device)))
		return 1;
	fa3_plan *plan = take_plan(op, s.seqs, error);
	if (!plan)
		return 1;
	Flash_fwd_params &p = plan->params;
	p = fa3::params_of(&op->shape, op->units, op->splits, s);
	fa3::set_metadata(p, plan->words);
	if (s.rows > 0 && (fails(error, "copying lengths", set_lengths(plan, batch)) ||
			   fails(error, "scheduler metadata",
				 fa3::compute_metadata(p, (cudaStream_t)batch->stream)))) {
		free_plan(op, plan);
		return 1;
	}
	*workspace = fa3::workspace_of(p);
	*planned = plan;
	return 0;
}

int launch(void *made, void *planned, const attune_tensors *tensors, void *workspace, void *stream,
	   char *error)
{
	const fa3_op *op = (const fa3_op *)made;
	const fa3_plan *plan = (const fa3_plan *)planned;
	Flash_fwd_params p = plan->params;

	if (p.total_q == 0)
		return 0;
	if (const char *wrong = fa3::set_tensors(p, tensors, plan->first)) {
		snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", wrong);
		return 1;
	}
	fa3::set_workspace(p, workspace);
	return fails(error, "cudaSetDevice", cudaSetDevice(op->device)) ||
	       fails(error, "launch", fa3::enqueue(p, (cudaStream_t)stream));
}

void free_op(void *made)
{
	fa3_op *op = (fa3_op *)made;

	cudaSetDevice(op->device);
	while (op->spare) {
		fa3_plan *plan = op->spare;

		op->spare = plan->next;
		cudaFree(plan->words);
		delete plan;
	}
	delete op;
}

/* FINITE_SLOTS: TMA reads whole tiles of a page, and V behind the end of the sequence is multiplied
 * by a weight of 0. Keys that are gathered get zeros there. */
const attune_plugin fa3_plugin = {
	ATTUNE_PLUGIN_ABI,
	"fa3",
	FA3_VERSION,
	"FlashAttention-3 as vLLM calls it, with a block table and scheduler metadata",
	"cuda",
	ATTUNE_PLUGIN_FINITE_SLOTS,
	axes,
	sizeof axes / sizeof *axes,
	refuses,
	prepare,
	make_plan,
	launch,
	free_plan,
	free_op,
};
const attune_plugin *const list[] = { &fa3_plugin, NULL };
} // namespace

extern "C" __attribute__((visibility("default"))) const attune_plugin *const *attune_plugins(void)
{
	return list;
}
