/* SPDX-License-Identifier: Apache-2.0 */
/* attune.h - the API of libattune: paged attention by the kernels and parameters that were measured
 * to be fastest. README.md in this folder is its reference; attune_settle.h times plans.
 *
 *   attune_context *ctx;  attune_op *op;  attune_plan plan = { .size = sizeof plan };
 *   attune_open(&ctx, NULL);                  the machine's GPU, else its CPU
 *   attune_prepare(ctx, &shape, &op);         loads the kernels for one shape
 *   every step:
 *     attune_plan_batch(op, &batch, &plan);   host lengths -> what to launch
 *     attune_run(op, &plan, &tensors, ws, ws_bytes, stream);
 *
 * Structs begin with their size, which the caller sets:
 *
 *   attune_shape shape = { .size = sizeof shape, .head_size = 128 };      C, C++20
 *   attune_shape shape = {};  shape.size = sizeof shape;                  C++11
 *
 * So program and library may be of different versions. New members come behind the others, and 0 in
 * them means the behaviour before. Members that an older program's struct lacks count as 0; the
 * library neither reads nor writes past the size. A newer program's struct is accepted if all
 * members that the library does not know are 0, else the status is ATTUNE_INVALID.
 *
 * Terms are vLLM's. Of one sequence: context length = tokens already in the KV cache, query
 * length = new tokens of this step, sequence length = their sum. The cache holds K and V of the
 * new tokens before attune_run reads it; attune_write_kv is the one call that writes the cache.
 *
 * Every function returns an enum attune_status; attune_last_error() has one line of text for the
 * last failure of the calling thread. The library never prints, exits or aborts. Several threads
 * may use a context or an op at a time once it is made; closing is the caller's to order. A child
 * of fork() must not use what its parent opened (on the CPU attune_run refuses it): it opens
 * contexts of its own, and on a GPU fork() comes before the first attune_open.
 *
 * attune_plan_batch and attune_run neither allocate nor synchronise, and may be called while a
 * CUDA graph is captured.
 *
 * CUDA graphs. A captured attune_run replays its plan, whatever lengths device memory then holds,
 * and is right for lengths at or below those that it was planned for. So plan every step, keep a
 * graph for each plan that comes up, and replay the one that serves. Each step then runs its own
 * plan (README.md, "CUDA graphs").
 *
 *   attune_plan_batch(op, &batch, &plan);
 *   replay the graph with attune_plan_serves(&its_plan, &plan) == ATTUNE_SERVES_ALIKE; if there is
 *   none, capture one, or replay one that serves
 *
 * A graph that is captured once, for lengths that the host never knows, takes a plan of
 * attune_plan_bounds. */
#ifndef ATTUNE_H
#define ATTUNE_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; attune_version() gives the library's. */
#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 2
#define ATTUNE_VERSION_PATCH 0
#define ATTUNE_VERSION \
	(ATTUNE_VERSION_MAJOR * 10000 + ATTUNE_VERSION_MINOR * 100 + ATTUNE_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

enum attune_status {
	ATTUNE_OK = 0,
	ATTUNE_INVALID,     /* an argument makes no sense */
	ATTUNE_UNSUPPORTED, /* valid, but this backend cannot do it */
	ATTUNE_NO_DEVICE,   /* no such device, or no driver */
	ATTUNE_NO_MEMORY,
	ATTUNE_TOO_SMALL, /* the workspace, or a text buffer */
	ATTUNE_DEVICE_ERROR
};

/* E4M3: 8 bits: sign, 4 of exponent (bias 7), 3 of fraction; 0x7f and 0xff are NaN, and it has no
 * infinity. Only the cache may have it, with q and out of 16 bits. */
enum attune_dtype { ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16, ATTUNE_E4M3 };

/* The layout of K and V within one page and KV head. In both layouts page and head strides find the
 * page and the head.
 *
 *   STRIDED  K, V [page_size][head_size]: slots by k_slot_stride, v_slot_stride
 *   CLASSIC  K    [head_size / x][page_size][x], x = 16 bytes / element
 *            V    [head_size][page_size]
 *            as in vLLM's first kernels: neighbouring keys have their 16 bytes
 *            side by side. Slot strides are not read. */
enum attune_kv_layout { ATTUNE_KV_STRIDED, ATTUNE_KV_CLASSIC };

typedef struct attune_context attune_context;
typedef struct attune_op attune_op;

/* What all batches of a layer have in common. An op has its own scale, softcap and window: layers
 * that differ in these need an op each, which may run in turn or from several threads.
 *
 * Token i of a query stands at position seq_len - query_len + i, which is negative where the query
 * is longer than its sequence. It sees keys j
 *
 *   j <= position              where causal; else all of the sequence
 *   j > position - window      where window > 0. So each token of a speculative query has a window
 *                              of its own; without causal, keys behind the token are seen, too
 *
 * with the scores s = scale * (q . k); where softcap > 0, then
 * s = softcap * tanh(s / softcap); with ALiBi, then s += slope * (j - position). A sink is one more
 * score of its head, without a value; scale, softcap and ALiBi do not touch it. On a GPU sinks of 16
 * bits cost a launch in each attune_run, which makes them floats in the workspace, and such a call
 * does not begin early. A layer's sinks are constant, so it is cheaper to convert them once. */
typedef struct attune_shape {
	uint32_t size;       /* sizeof(attune_shape) */
	int num_query_heads; /* a multiple of num_kv_heads, 65535 at most */
	int num_kv_heads;
	int head_size;
	int page_size;              /* tokens in a page, 1 or more */
	enum attune_dtype dtype;    /* of q and out */
	enum attune_dtype kv_dtype; /* of the cache */
	int causal;
	int window;    /* keys that a token sees, its own included; 0: all */
	float scale;   /* 0: 1 / sqrt(head_size); else 2^-126 to 2^120 */
	float softcap; /* 0: none; else 1e-4 to 1000, and scale / softcap 2^120 at most */
	int has_sinks; /* tensors.sinks will be given */
	int has_alibi; /* tensors.alibi_slopes will be given */
	/* tensors.k_new and v_new will be given: K and V of this step's tokens as rows, as they
	 * leave the projection. The cache holds them too. */
	int has_new_kv;
	enum attune_kv_layout kv_layout;
	int has_lse;                   /* tensors.lse will be given */
	enum attune_dtype sinks_dtype; /* of tensors.sinks: F32, F16 or BF16 */
} attune_shape;

/* The lengths of one step, in host memory. query_start has num_seqs + 1 entries: the running sum of
 * query lengths, from 0. Limits:
 *
 *   a query, a sequence                               2^29 tokens
 *   (query tokens + num_seqs) * num_query_heads       below 2^31
 *   sum of seq_lens * num_kv_heads                    2^48
 *   num_seqs * longest query * num_query_heads        2^42
 *
 * Where page_size is no power of two sequences may have to be shorter:
 * 2^32 / (page_size - 2^32 % page_size) keys are always taken. */
typedef struct attune_batch {
	uint32_t size; /* sizeof(attune_batch) */
	int num_seqs;
	const int32_t *query_start;
	const int32_t *seq_lens;
} attune_batch;

/* The tensors of one layer's step, on the device (on the host for the CPU). The caller owns them.
 * Strides are in elements; args.h has shapes and meaning. A stride of a dimension of size 1 may be
 * anything: of heads where there is one, of slots where a page has one, of tokens in a step of one.
 * Page strides always count, since nothing says how many pages there are. On a GPU strides are
 * multiples of 8 elements, over an E4M3 cache of 16, and out, q, k_cache and v_cache are 16-byte
 * aligned. The kernel warpgroup cannot read a 16-bit cache whose head strides are negative, or whose
 * page strides are no multiples of 8 slot strides; of one slot stride with pages of 8 or 16 slots.
 * Where the plan names it (`attune_plan_text`) attune_run then launches a slower kernel; if there is
 * none, as for prefills with LSE, it refuses.
 *
 * What is read. A slot is live where a query token of this step sees its key: it lies in the
 * sequence, not behind the causal limit of the last token and not in front of the window of the
 * first. A page is live where one of its slots is. Arrays need no bytes beyond their last element:
 *
 *   - Entries of block_table for live pages are trusted: they are not compared with the size of the
 *     cache. Entries in front of the first live page or behind the last one may hold anything. The
 *     table may end behind the last live page of the last sequence that has keys. Any entry before
 *     that end may be read, but no result depends on one that is not live. The end is that of
 *     the plan's lengths, also in replays of a graph.
 *   - Slots that are not live may hold anything, NaN and infinities too, also in live pages: no
 *     output depends on them. The same holds for pages that no entry names.
 *   - A NaN or an infinity in a live slot may reach all rows of its sequence, also those that do
 *     not see its key, since rows share matrix products.
 *   - query_start has num_seqs + 1 entries, seq_lens num_seqs, sinks and alibi_slopes
 *     num_query_heads.
 *
 * What comes out. A row that sees no key gets zeros. Its LSE is its head's sink; where there is none,
 * minus infinity. Products q . k, and scale times these, must be finite floats. Over an E4M3 cache
 * the scores of queries of more than 8 tokens must stay below 10^7 in size. Outputs are weighted
 * sums of V's elements: where an element is within a factor of 2 of the largest of its type, a sum
 * may round to an infinity although the mean is finite. Sinks are finite or minus infinity, which
 * means none; the lowest float means none, too.
 *
 * On the CPU denormal F32 and BF16 numbers count as zeros, in q, k, v and all that is computed.
 *
 * Same bits. The same plan on the same tensors gives the same bits, on the same device and version.
 * The other sequences of a batch may change which kernel runs a sequence and into how many segments
 * its keys are cut, and so the order of sums: the last bits may then differ. With
 * ATTUNE_INVARIANT=1 (attune_open) they do not. */
typedef struct attune_tensors {
	uint32_t size; /* sizeof(attune_tensors) */
	void *out;
	const void *q;
	const void *k_cache;
	const void *v_cache;
	const int32_t *block_table;
	const int32_t *query_start;
	const int32_t *seq_lens;
	const void *sinks; /* [num_query_heads] of sinks_dtype */
	const float *alibi_slopes;
	int64_t q_token_stride, q_head_stride;
	int64_t out_token_stride, out_head_stride;
	int64_t k_page_stride, k_slot_stride, k_head_stride;
	int64_t v_page_stride, v_slot_stride, v_head_stride;
	int block_table_stride;
	/* From attune_schedule, for this plan; NULL: each attune_run makes its own. */
	const int32_t *schedule;
	const void *k_new;
	const void *v_new;
	int64_t k_new_token_stride, k_new_head_stride;
	int64_t v_new_token_stride, v_new_head_stride;
	/* Factors of the keys and values of an E4M3 cache, by sequence and KV head. A stride of 0:
	 * one for all; both 0: one for the whole cache. NULL: 1. */
	const float *k_scale, *v_scale;
	int64_t k_scale_seq_stride, k_scale_head_stride;
	int64_t v_scale_seq_stride, v_scale_head_stride;
	/* [num_tokens][num_query_heads], by token and head: the natural logarithm of the sum of
	 * e^score over the keys that the row sees, plus its head's sink if there are sinks;
	 * minus infinity where there are neither keys nor a sink. */
	float *lse;
	int64_t lse_token_stride, lse_head_stride;
	/* Of ragged K and V (attune_page_table): their tokens. 0: not known. */
	int64_t kv_slots;
} attune_tensors;

/* This struct and the next one get no further members: they lie within others.
 *
 * The sequences in [seq_begin, seq_begin + seq_count) with queries of min_query to max_query
 * tokens; range_tokens: query tokens of the whole range. */
typedef struct attune_span {
	int seq_begin, seq_count;
	int min_query, max_query;
	int64_t range_tokens;
} attune_span;

/* One launch (and its reduction) over a part of the batch. */
typedef struct attune_part {
	int choice;                  /* index into the op's table of choices */
	int seq_begin, seq_count;    /* the range of sequences */
	int min_query, max_query;    /* the query lengths in it that this part computes */
	int resolved;                /* the op's own: what its choice means for this batch */
	int64_t range_tokens;        /* query tokens from seq_begin to the last of them */
	int64_t max_seq;             /* keys of the longest sequence, if the launch depends on it */
	size_t workspace;            /* bytes of partials */
	attune_span prefill, decode; /* its sequences of either phase */
} attune_part;

/* How two parts share the device. */
enum attune_how {
	ATTUNE_SERIAL = 0, /* the prefill part, then the decode part */
	ATTUNE_STREAMS     /* at a time, on two streams; serial if there is no second one */
};

/* When a call of attune_run may begin.
 *
 * EARLY is a permission, on NVIDIA GPUs from sm_90 on: the call's first kernel may begin before
 * the launch in front of it is over, the last kernel on `stream`. An early launch may also cost
 * time, so it is used where the op's heuristic expects a gain, else where the choice has EARLY set
 * (`attune show --kernels`; attune_plan_text shows what is used). On AMD GPUs and CPUs it changes
 * nothing. With it the caller promises:
 *
 *   - The launch in front may be writing q; of the cache, K and V of this step's tokens, that is
 *     slots context length .. sequence length - 1 of each sequence, on its last page or pages;
 *     k_new and v_new; and anything that this call does not read. It may be reading anything.
 *   - All else that the call reads was complete before that launch began: every older slot of
 *     the cache, also on those last pages; block_table, query_start, seq_lens, schedule, sinks,
 *     alibi_slopes and scales. So no sequence has an old key that another one computes in this
 *     step, as in a prefix that is shared within a step.
 *   - If that launch began early itself it waits, in all of its blocks, for the one in front of
 *     it (griddepcontrol.wait, cudaGridDependencySynchronize); what is complete before the call
 *     must then be so before the first launch of the chain began.
 *
 * The call reads q and new slots, and writes out, lse and the workspace, only after the launch in
 * front is over. Its further launches, a reduction or the second part's, follow in turn; only a
 * second part may overlap the end of the first, which writes nothing that it reads. A launch behind
 * this call waits for all launches of this call. One that begins early, from whatever library, must
 * wait itself before it reads out or writes the workspace or what this call reads.
 *
 * Under capture the launch gets a programmatic edge from the kernel in front, and the promise is
 * for every replay. The first node of a graph has nothing in front and begins with the graph.
 * Plans of either kind do not serve for each other (attune_plan_serves). */
enum attune_start { ATTUNE_START_IN_TURN = 0, ATTUNE_START_EARLY };

enum { ATTUNE_PLAN_SLICES = 16 };

/* Plain data: copy it by = or by memcpy of `size` bytes, and keep it as long as its op; any thread
 * may use it. Compare two by attune_plan_serves: for other lengths, members that no launch depends
 * on differ, too. Each call that takes a plan refuses one of another op, even one of an equal
 * shape, and counts and enums that attune_plan_batch never gives. */
typedef struct attune_plan {
	uint32_t size; /* sizeof(attune_plan), to be set before a call makes the plan */
	int num_parts; /* 0 (nothing to do), 1, or 2: prefill, decode */
	int num_seqs;
	enum attune_how how;
	size_t workspace; /* bytes that attune_run needs */
	uint64_t op;      /* the op's own: the op that made the plan */
	attune_part part[2];
	int num_tokens;          /* query tokens of the batch */
	int unused;              /* 0: calls refuse other values, `lengths` of old programs */
	enum attune_start start; /* yours to set; attune_plan_batch sets IN_TURN */
	int early[2];            /* the op's own: what EARLY means for each part */
	/* the op's own: the last sequence that has keys, and its pages */
	int table_seq, table_pages;
	/* the op's own: what runs a part whose choice does not take the cache's strides; 0: none */
	int stand_in[2], stand_in_resolved[2];
	int unused_too; /* 0, in the place of a member of earlier versions */
	/* the op's own: tokens of the longest query of each 16th of the sequences */
	int longest[ATTUNE_PLAN_SLICES];
	/* the op's own: units that each part leaves to the one beside it, if its choice does not
	 * say */
	int spared[2];
} attune_plan;

/* `device`: "cpu", "cpu:avx2", "cuda", "cuda:1", "hip", "hip:1"; NULL: the first NVIDIA
 * GPU, else the first of AMD's, else the CPU. ATTUNE_HIP_LIBRARY in the
 * environment names the file of AMD's runtime where it is not libamdhip64.so.7, .6 or .5.
 *
 * CPU threads: ATTUNE_THREADS in the environment, else one for each CPU that the process may use,
 * by affinity and quotas. Not more of them compute at a time than there are such CPUs. They block
 * all signals except those of faults. Planning and running need up to 64 KiB of the caller's stack
 * (on x86-64 and AArch64), and neither depend on its floating-point environment nor change it
 * (README.md, "Threads and fork").
 *
 * ATTUNE_HEURISTICS in the environment names a header as attune induce writes it,
 * attune_<gpu>.h. Its rules replace the compiled ones, for all ops of this context. It is read
 * here, once, as text: no compiler is needed. It must be for the device's GPU and have this
 * version's hash of each kernel that it names; else the status is ATTUNE_INVALID, and the line of
 * attune_last_error begins "FILE:LINE:". FORMATS.md ("The generated rules by themselves") says what
 * a person may change in it. Where a choice cannot run a batch, or the library carries no code of
 * it for the shape, the next choice of its row that can runs. Where none can, the rules behind the
 * compiled ones decide: on NVIDIA GPUs attune_portable.h, elsewhere the defaults in their order.
 *
 * ATTUNE_INVARIANT=1 in the environment makes all ops of this context batch-invariant. It is
 * read here, once; a value other than 0 or 1, or a file of ATTUNE_HEURISTICS beside it, is
 * ATTUNE_INVALID. The rows of a sequence, and their LSE, then have the same bits alone and in
 * any batch, at any place in it, on any pages and with any number of CPU threads. What must
 * agree: version, device (on the CPU the instruction set), shape, the sequence's own query
 * and context lengths, and its tensors' values.
 *
 * The parts run one after the other, each by a kernel that the shape and the device determine, and
 * EARLY changes nothing. ATTUNE_UNSUPPORTED is the status of what that kernel cannot run; README.md
 * ("Same bits in every batch") lists these. Where a launch merges segments the workspace may exceed
 * 256 MiB, the limit otherwise. */
enum attune_status attune_open(attune_context **ctx, const char *device);
void attune_close(attune_context *ctx);
/* e.g. "NVIDIA H200 (sm_90, 132 SMs)"; lives as long as ctx. */
const char *attune_device_name(const attune_context *ctx);
/* Where plans come from; lives as long as ctx.
 *
 *   "h200"      measurements of that GPU. It may be another model than this one: the nearest with
 *               binaries that run here (`attune devices` has the reason)
 *   a path      the file that ATTUNE_HEURISTICS named
 *   "portable"  measurements of choices that run on every NVIDIA GPU from sm_80 on, on another GPU
 *   "untuned"   no measurements: the kernels' defaults run
 *   "invariant" shape and device alone: ATTUNE_INVARIANT=1 */
const char *attune_heuristic(const attune_context *ctx);

/* Loads all kernels that a plan for `shape` may name. Allocates and synchronises. A shape that is
 * taken here can be planned for all batches except these, which attune_plan_batch refuses:
 *
 *   - queries of more than 8 tokens over an E4M3 cache, except on sm_90 at head sizes 64, 96, 128,
 *     192, 256;
 *   - queries of more than 8 tokens with LSE on a GPU, except on sm_90 where the library carries
 *     warpgroup;
 *   - decodes over an E4M3 cache with pages that are no multiple of 8 tokens;
 *   - queries of more than 8 tokens in the classic layout;
 *   - with ATTUNE_INVARIANT=1 also those that README.md lists. */
enum attune_status attune_prepare(attune_context *ctx, const attune_shape *shape, attune_op **op);
void attune_release(attune_op *op);

/* The plan is right for all batches of as many sequences, each with query and sequence lengths at
 * or below its own in `batch`: host lengths may be upper bounds, and a graph that captured the plan
 * may be replayed with such lengths. Except in the classic layout it is right for longer sequences,
 * too. A query that is longer than planned may leave rows unwritten; on the CPU attune_run refuses
 * such lengths. */
enum attune_status attune_plan_batch(const attune_op *op, const attune_batch *batch,
				     attune_plan *plan);

/* A plan from maxima, where the host does not know the lengths. It is right for all batches of
 * exactly num_seqs sequences (a step with fewer gives the others query and sequence length 0), of
 * at most num_tokens query tokens in all, max_query tokens in a query and max_keys keys in a
 * sequence. The block_table has num_seqs rows of block_table_stride entries, and any of them may be
 * read.
 *
 * The choice is made for sequences from max_keys down to a 128th of it. Where max_query is above 8
 * the plan has two parts, one for queries of up to 8 tokens and one for longer ones; each has all
 * sequences. */
enum attune_status attune_plan_bounds(const attune_op *op, int num_seqs, int num_tokens,
				      int max_query, int max_keys, attune_plan *plan);

/* `stream`: a CUstream on CUDA, a hipStream_t on HIP; ignored on the CPU, where the call returns
 * when the work is done. `workspace`: device memory, 16-byte aligned, at least plan->workspace
 * bytes. Its contents mean nothing between calls; calls that may overlap need one each. No tensor
 * may change before the work has ended: on a GPU, lengths that change may keep it from ending. */
enum attune_status attune_run(const attune_op *op, const attune_plan *plan,
			      const attune_tensors *tensors, void *workspace,
			      size_t workspace_bytes, void *stream);

/* Writes K and V of a step's new tokens, rows of tensors.k_new and v_new, into k_cache and v_cache
 * by one launch, in stream order and in front of the attune_run that reads them. It neither
 * allocates nor synchronises, and may be captured.
 *
 *   k_new, v_new  [num_tokens][num_kv_heads][head_size] of `dtype`, by token and head, also where
 *                 the shape has no has_new_kv
 *   slots         [num_tokens] on the device, vLLM's slot_mapping: page * page_size + slot in it.
 *                 Below 0: the token is not written. Of two tokens with one slot either may be
 *   NULL          token i of a query goes to position seq_len - query_len + i, by block_table,
 *                 query_start and seq_lens. Not written are tokens in front of position 0 and those
 *                 behind the last query, so num_tokens may be an upper bound
 *   num_seqs      of query_start and seq_lens; 0 where neither is read. With slots, query_start is
 *                 read where a scale has a stride of sequences
 *
 * Nothing else of the cache is written. Slots and pages are trusted, as those of block_table are.
 * Other members of `tensors` are not read. Alignment and strides as for attune_run.
 *
 * Elements are copied bit by bit. An E4M3 cache gets x / k_scale and x / v_scale as floats, rounded
 * to nearest even; beyond 448, and for infinities, +-448; 0x7f for NaN. ATTUNE_UNSUPPORTED: the
 * classic layout on the CPU, or with E4M3.
 *
 * The call may be the launch in front of an attune_run that begins early (ATTUNE_START_EARLY). */
enum attune_status attune_write_kv(const attune_op *op, int num_seqs, int num_tokens,
				   const attune_tensors *tensors, const int64_t *slots,
				   void *stream);

/* Kernels with a grid of fixed size go through a list of the batch's Q blocks. Each attune_run
 * makes it by a launch of its own. A caller that runs one plan for many layers may make it once,
 * here on the host, copy it to the device and give it as tensors.schedule. *words: how many the
 * plan needs, 0 where none of its kernels has a list. `schedule` has room for `room` words; NULL:
 * only *words is set. */
enum attune_status attune_schedule(const attune_op *op, const attune_plan *plan,
				   const attune_batch *batch, int32_t *schedule, size_t room,
				   size_t *words);

/* The pages of a step's sequences as lists one behind the other, on the device (on the host for the
 * CPU): what FlashInfer and SGLang call indptr and indices. Sequence i has indices[indptr[i]] to
 * indices[indptr[i + 1] - 1].
 *
 * Without `indices` K and V are ragged: no pages, but token by token, one sequence behind the
 * other, as k and v of FlashAttention's varlen functions. indptr is then their cu_seqlens_k:
 * sequence i has tokens indptr[i] to indptr[i + 1] - 1. Give attune_run one token's stride as
 * k_page_stride and k_slot_stride, the same for v, so that pages begin at any token and overlap,
 * and tensors.kv_slots. Take page_size 16 or 8, which all kernels read; on AMD GPUs 1, else
 * attune_run refuses.
 *
 * The kernel warpgroup reads slots behind the last key without using them: up to page_size - 1,
 * over an E4M3 cache 7. attune_run asks the driver whether the memory goes on so far; it must stay
 * while a captured graph lives. If it does not go on, a variant of the kernel runs that reads
 * nothing behind kv_slots. Over an E4M3 cache, with ATTUNE_INVARIANT=1, or if kv_slots is 0, it is
 * the plan's slower kernel; where that names none (prefills over E4M3 or with LSE,
 * ATTUNE_INVARIANT=1) attune_run refuses. */
typedef struct attune_page_lists {
	uint32_t size;         /* sizeof(attune_page_lists) */
	int index_bytes;       /* of one of `indices`: 4 or 8; 0: 4 */
	const int32_t *indptr; /* [num_seqs + 1], rising */
	const void *indices;   /* NULL: ragged K and V */
	int32_t *seq_lens;     /* NULL, or [num_seqs]: gets indptr[i + 1] - indptr[i] */
} attune_page_lists;

/* Writes the block_table of a step from lists, by one launch: once a step, for all layers. `table`
 * has num_seqs rows of table_stride entries, which is tensors.block_table_stride. Entries behind a
 * sequence's list are left as they are. A list that is longer than a row is cut off; on the CPU the
 * call refuses it. Neither allocates nor synchronises. */
enum attune_status attune_page_table(const attune_op *op, int num_seqs,
				     const attune_page_lists *lists, int32_t *table,
				     int table_stride, void *stream);

/* The largest workspace of any batch within these sizes, to be allocated once. */
enum attune_status attune_max_workspace(const attune_op *op, int max_seqs, int max_tokens,
					size_t *bytes);

/* Whether a graph that was captured with the first plan is right for the batch, or the maxima, of
 * the second. 0: it is not, or the two plans do not tell, or they are of different ops. It is right
 * where no length is above the first plan's, and for other lengths that its launches have room
 * for. */
enum attune_serves {
	ATTUNE_SERVES = 1,  /* it is right; the second plan's own launches may be faster */
	ATTUNE_SERVES_ALIKE /* it is right, and runs the second plan's launches */
};
int attune_plan_serves(const attune_plan *captured, const attune_plan *wanted);

/* Which sequences of a batch: those with queries of more than 8 tokens are prefills, those with
 * 1 to 8 are decodes. A sequence without a query is in neither. */
enum attune_phase { ATTUNE_PHASE_ALL, ATTUNE_PHASE_PREFILL, ATTUNE_PHASE_DECODE };

/* What a generated header's functions take (include <attune/attune_features.h>): the features of
 * one phase of a batch, for this op's shape and device. attune_<gpu>_prefill reads those of
 * PHASE_PREFILL, _decode those of PHASE_DECODE, _overlap those of PHASE_ALL, _early those of the
 * part that is launched. Where the batch has no such sequence, num_seqs is 0 and so are all other
 * members that a batch changes. `size`: sizeof *features; a program with a newer list of features
 * than the library's is refused. Neither allocates nor synchronises. */
struct attune_features;
enum attune_status attune_batch_features(const attune_op *op, const attune_batch *batch,
					 enum attune_phase phase, struct attune_features *features,
					 size_t size);

/* Whether a choice of the op's rules can run a phase of the batch, ATTUNE_PHASE_ALL all of it in
 * one launch: ATTUNE_OK, else ATTUNE_UNSUPPORTED and the reason. With has_lse the reason may be that
 * it cannot cut the keys, where cuts take a quarter less time: it then runs where no other choice
 * can. `choice` is of the enum of the generated header: a value of attune_<gpu>_prefill, a member of
 * attune_<gpu>_list. A phase without sequences can be run by all. Neither allocates nor
 * synchronises. */
enum attune_status attune_choice_runs(const attune_op *op, const attune_batch *batch,
				      enum attune_phase phase, int choice);

/* "prefill: qblock BLOCK_M=128 ... | decode: segmented ..."; "||": side by side */
enum attune_status attune_plan_text(const attune_op *op, const attune_plan *plan, char *text,
				    size_t size);

/* How many choices of its rules the op can run in no batch, in one line: "2 of 12 choices, the
 * first is ring BLOCK_M=8 ...: why". "": none. Another choice then runs and no call fails, so a
 * program that depends on its file of ATTUNE_HEURISTICS asks here. */
enum attune_status attune_unused_choices(const attune_op *op, char *text, size_t size);

/* Registers operators of torch, in a process that has loaded torch 2.7.1 or newer; further calls do
 * nothing. ATTUNE_UNSUPPORTED: torch is not loaded, or lacks a function that they need.
 *
 *   attune::paged_attention(Tensor(a!) out, Tensor q, Tensor k_cache, Tensor v_cache,
 *       Tensor block_table, Tensor query_start_loc, Tensor seq_lens, Tensor plan, Tensor(b!) lse,
 *       Tensor k_scale, Tensor v_scale, Tensor sinks, Tensor alibi_slopes, Tensor k_new,
 *       Tensor v_new) -> ()
 *   attune::paged_attention.plain_out(Tensor(a!) out, ..., Tensor plan) -> ()
 *   attune::paged_attention.new(Tensor q, ..., Tensor v_new) -> Tensor
 *   attune::paged_attention.plain(Tensor q, ..., Tensor plan) -> Tensor
 *   attune::write_kv(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k_new, Tensor v_new,
 *       Tensor plan, Tensor slots, Tensor block_table, Tensor query_start_loc, Tensor seq_lens,
 *       Tensor k_scale, Tensor v_scale) -> ()
 *   attune::page_table(Tensor(a!) block_table, Tensor indptr, Tensor indices, Tensor plan) -> ()
 *   attune::ragged_table(Tensor cu_seqlens_k, Tensor plan, int pages) -> (Tensor block_table,
 *       Tensor seq_lens)
 *
 * The `plain` ones take nothing behind `plan`; `new` and `plain` make `out`, contiguous. Both save
 * CPU time of a call. ragged_table makes what page_table would write with rows of `pages` entries.
 *
 * They are attune_run, attune_write_kv and attune_page_table for tensors: they take pointers and
 * strides from them, compare shapes, types and devices with those of the op, run on torch's current
 * stream, and take the workspace from torch's allocator. A tensor without elements is one that is
 * not given. K and V of three dimensions, [tokens][heads][head size], are ragged. A failure is
 * torch's exception, in Python a RuntimeError: attune_last_error's line (attune_status_text's).
 *
 * `plan` is a uint8 tensor on the CPU that attune_torch_plan filled; it says of which op and how
 * many sequences a call is. So a plan is data to torch: a compiled graph takes that of the next
 * step without being compiled again. */
enum attune_status attune_torch_register(void);
/* Writes the bytes of such a tensor for a plan of the op, which must live as long as they are used.
 * *size: how many there are. `bytes` has room for `room`; NULL: only *size is set. */
enum attune_status attune_torch_plan(const attune_op *op, const attune_plan *plan, void *bytes,
				     size_t room, size_t *size);

const char *attune_status_text(enum attune_status status);
const char *attune_last_error(void);
const char *attune_version(void); /* such as "0.2.0" */

#ifdef __cplusplus
}
#endif
#endif
