/* attune.h - libattune's API: paged attention by kernels and parameters that measurements chose.
 *
 *   attune_context *ctx;  attune_op *op;  attune_plan plan;
 *   attune_open(&ctx, NULL);                  the machine's GPU, else its CPU
 *   attune_prepare(ctx, &shape, &op);         loads the kernels for one shape
 *   every step:
 *     attune_plan_batch(op, &batch, &plan);   host lengths -> what to launch
 *     attune_run(op, &plan, &tensors, ws, ws_bytes, stream);
 *
 * Terms are vLLM's. Of one sequence: context length = tokens already in the KV
 * cache, query length = new tokens of this step, sequence length = their sum.
 *
 * Every function returns an enum attune_status; attune_last_error() has one
 * line of text for the last failure of the calling thread. The library never
 * prints, exits or aborts. Contexts and ops may be shared by threads after
 * they are made; closing is the caller's to order.
 *
 * attune_plan_batch and attune_run neither allocate nor synchronise, and may be
 * called while a CUDA graph is captured.
 *
 * Graphs. A captured attune_run replays its plan, whatever lengths device memory then holds. So
 * keep a graph for each plan that comes up and pick one at each step, which is planned anyway.
 * This costs least (README, "CUDA graphs").
 *
 *   attune_plan_batch(op, &batch, &plan);
 *   replay the graph with attune_plan_serves(&its_plan, &plan); if there is none, capture one
 *
 * If the host does not know the lengths, a graph can plan on the device at each replay. With
 * plan.lengths = ATTUNE_LENGTHS_VARY a captured attune_run does so by itself; it then needs the
 * workspace of attune_max_workspace. For a step of many layers plan once:
 *
 *   attune_record_plan(op, &bounds, query_start, seq_lens, plan, bytes, stream);
 *   every layer: attune_record_run(op, &bounds, plan, &tensors, ws, ws_bytes, stream); */
#ifndef ATTUNE_H
#define ATTUNE_H

#include <stddef.h>
#include <stdint.h>

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

/* E4M3 has 8 bits: sign, 4 of exponent (bias 7), 3 of fraction; 0x7f and 0xff are NaN, there is no
 * infinity. For the cache only, with q and out of 16 bits. */
enum attune_dtype { ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16, ATTUNE_E4M3 };

/* The layout of K and V within one page and KV head. In both layouts page and head strides find the
 * page and the head.
 *
 *   STRIDED  K, V [page_size][head_size]: slots by k_slot_stride, v_slot_stride
 *   CLASSIC  K    [head_size / x][page_size][x], x = 16 bytes / element
 *            V    [head_size][page_size]
 *            as vLLM's first kernels have them: 16-byte pieces of neighbouring keys
 *            are adjacent. Slot strides are not read. */
enum attune_kv_layout { ATTUNE_KV_STRIDED, ATTUNE_KV_CLASSIC };

typedef struct attune_context attune_context;
typedef struct attune_op attune_op;

/* What all batches of a layer have in common. */
typedef struct attune_shape {
	int num_query_heads; /* a multiple of num_kv_heads, 65535 at most */
	int num_kv_heads;
	int head_size;
	int page_size;              /* tokens in a page, 1 or more */
	enum attune_dtype dtype;    /* of q and out */
	enum attune_dtype kv_dtype; /* of the cache */
	int causal;
	int window;    /* keys a query sees, itself included; 0: all */
	float scale;   /* 0: 1 / sqrt(head_size); else 2^-126 to 2^120 */
	float softcap; /* 0: none; else 1e-4 to 1000, and scale / softcap 2^120 at most */
	int has_sinks; /* tensors.sinks will be given */
	int has_alibi; /* tensors.alibi_slopes will be given */
	/* tensors.k_new and v_new will be given: K and V of this step's tokens as the projection
	 * writes them. The cache holds them too. */
	int has_new_kv;
	enum attune_kv_layout kv_layout;
	int has_lse; /* tensors.lse will be given */
} attune_shape;

/* One step, on the host. query_start has num_seqs + 1 entries and begins with 0. Limits:
 *
 *   a query, a sequence                        2^29 tokens
 *   (query tokens + sequences) x query heads   below 2^31
 *   sum of sequence lengths x KV heads         2^48
 *   page_size no power of two                  sequences of 2^32 / (page_size - 2^32 % page_size)
 *                                              keys are always taken, longer ones perhaps not */
typedef struct attune_batch {
	int num_seqs;
	const int32_t *query_start;
	const int32_t *seq_lens;
} attune_batch;

/* One step, on the device (on the host for the CPU). Strides in elements;
 * shapes and meaning as in args.h. Not owned.
 *
 * What is read. A slot is live if some query token of this step sees its key: it lies within the
 * sequence, within the causal limit of the last token and within the window of the first. A page is
 * live if one of its slots is. Arrays need no bytes beyond their last element:
 *
 *   - Entries of block_table for live pages are trusted: they are not compared with the size of the
 *     cache. Entries before the first live page or after the last one may hold anything. The table
 *     may end after the last live page of the last sequence that has keys. Any entry before that
 *     end may be read, but only live ones affect a result. A graph's replay reads no entry beyond
 *     the end of the table as it was when its plan was made.
 *   - Slots that are not live may hold anything, even NaN and infinities, even on live pages: they
 *     do not change any output. The same holds for pages that no entry names.
 *   - A NaN or an infinity in a live slot may reach all rows of its sequence, even those that do
 *     not see its key, since rows share matrix products.
 *   - query_start has num_seqs + 1 entries, seq_lens num_seqs, sinks and alibi_slopes
 *     num_query_heads.
 *
 * What comes out. A row that sees no key gets zeros and an LSE of minus infinity, even if its head
 * has a sink. q . k and scale * (q . k) must be finite floats; queries of more than 8 tokens over
 * an E4M3 cache need scores below 10^7 in size. Outputs are weighted sums of V's elements: if an
 * element is within a factor of 2 of the largest of its type, a sum may round to infinity although
 * the mean is finite. Sinks are finite or minus infinity. Minus infinity and the lowest float mean
 * no sink.
 *
 * On the CPU denormal floats count as zeros, in q, k and v and in all that is computed from them.
 *
 * Same bits. The same plan on the same tensors gives the same bits, on the same device and version.
 * Other sequences of a batch may change which kernel runs a sequence and into how many segments its
 * keys are cut, hence the order of sums: the last bits may then differ. */
typedef struct attune_tensors {
	void *out;
	const void *q;
	const void *k_cache;
	const void *v_cache;
	const int32_t *block_table;
	const int32_t *query_start;
	const int32_t *seq_lens;
	const float *sinks;
	const float *alibi_slopes;
	int64_t q_token_stride, q_head_stride;
	int64_t out_token_stride, out_head_stride;
	int64_t k_page_stride, k_slot_stride, k_head_stride;
	int64_t v_page_stride, v_slot_stride, v_head_stride;
	int block_table_stride;
	/* The output of attune_schedule for the plan; NULL: each attune_run makes it. */
	const int32_t *schedule;
	const void *k_new;
	const void *v_new;
	int64_t k_new_token_stride, k_new_head_stride;
	int64_t v_new_token_stride, v_new_head_stride;
	/* Of an E4M3 cache: factors of keys and values, by sequence and KV head. A stride of 0:
	 * the same factor for all; a scale of the whole cache has both strides 0. NULL: 1. */
	const float *k_scale, *v_scale;
	int64_t k_scale_seq_stride, k_scale_head_stride;
	int64_t v_scale_seq_stride, v_scale_head_stride;
	/* [num_tokens][num_query_heads], by token and head: the natural logarithm of the sum of
	 * e^score over the keys that the row sees, plus its head's sink if there are sinks;
	 * minus infinity for a row that sees no key. */
	float *lse;
	int64_t lse_token_stride, lse_head_stride;
} attune_tensors;

/* The sequences in [seq_begin, seq_begin + seq_count) with queries of min_query to max_query
 * tokens; range_tokens: query tokens of the whole range. */
typedef struct attune_span {
	int seq_begin, seq_count;
	int min_query, max_query;
	int64_t range_tokens;
} attune_span;

/* One launch (and its reduction) over a part of the batch. */
typedef struct attune_part {
	int choice;                  /* index into the op's table of choices */
	int seq_begin, seq_count;    /* a range of sequences */
	int min_query, max_query;    /* those of the range with such query lengths are computed */
	int resolved;                /* private: what the choice means for this batch */
	int64_t range_tokens;        /* query tokens from seq_begin to the last of them */
	int64_t max_seq;             /* keys of the longest sequence, if the launch depends on it */
	size_t workspace;            /* bytes of partials */
	attune_span prefill, decode; /* its sequences of either kind */
} attune_part;

/* How two parts share the device. */
enum attune_how {
	ATTUNE_SERIAL = 0, /* the prefill part, then the decode part */
	ATTUNE_STREAMS     /* at a time, on two streams; serial if there is no second one */
};

/* What replays of a captured attune_run do. */
enum attune_lengths {
	ATTUNE_LENGTHS_PICKED = 0, /* run this plan: the host picks among graphs */
	ATTUNE_LENGTHS_VARY        /* plan again, on the device */
};

/* When a call of attune_run may begin.
 *
 * EARLY is a permission, on NVIDIA GPUs from sm_90 on: the call's first kernel may begin before the
 * preceding launch, the last one given to `stream`, is over. Since that may also cost time, it is
 * used only where the op's heuristic says that it pays, or else the choice itself (EARLY of `attune
 * show --kernels`; attune_plan_text names the value in use). On older GPUs, AMD GPUs and CPUs it
 * changes nothing. With it the caller promises:
 *
 *   - The preceding launch may still write only q; K and V of this step's tokens in the cache, that
 *     is slots context length .. sequence length - 1 of each sequence, on its last page or pages;
 *     k_new and v_new; and what this call does not read. It may read anything.
 *   - All else that the call reads was complete before that launch began: every older slot of the
 *     cache, also on those last pages; block_table, query_start, seq_lens, schedule, sinks,
 *     alibi_slopes and scales. So no sequence has as an old key a token that another one computes
 *     in this step, as with a prefix shared within a step.
 *   - If that launch began early itself, all of its blocks wait for the launch before it
 *     (griddepcontrol.wait, cudaGridDependencySynchronize). "Complete before" then means before the
 *     first launch of this chain began.
 *
 * The call reads q and new slots, and writes out, lse and the workspace, only after the preceding
 * launch is over, whether or when that one lets it begin. Its further launches, a reduction or the
 * second part's, follow in turn, but the second part may overlap the end of the first, which writes
 * nothing that it reads. A later launch that begins early, whoever makes it, must wait itself
 * before it reads out or writes the workspace or anything that this call reads; it then has waited
 * for all launches of this call. A launch in turn needs no such care.
 *
 * Under capture the launch gets a programmatic edge from the preceding kernel, and the promise is
 * for every replay. The first node of a graph has no predecessor and begins with the graph.
 * attune_plan_serves distinguishes the two kinds of plans. ATTUNE_LENGTHS_VARY ignores EARLY. */
enum attune_start { ATTUNE_START_IN_TURN = 0, ATTUNE_START_EARLY };

/* Plain data that may be copied and kept. Compare plans by attune_plan_serves: members that no
 * launch depends on differ with the lengths. Counts and enums out of range are refused. */
typedef struct attune_plan {
	int num_parts; /* 0 (nothing to do), 1, or 2: prefill, decode */
	int num_seqs;
	enum attune_how how;
	size_t workspace; /* bytes that attune_run needs */
	attune_part part[2];
	int num_tokens;              /* query tokens of the batch */
	enum attune_lengths lengths; /* yours to set; attune_plan_batch sets PICKED */
	enum attune_start start;     /* yours to set; attune_plan_batch sets IN_TURN */
	int early[2];                /* private: the value of EARLY for each part */
	/* private: the last sequence with keys, and the number of its pages */
	int table_seq, table_pages;
} attune_plan;

/* `device`: "cpu", "cpu:avx2", "cuda", "cuda:1", "hip", "hip:1"; NULL: the first NVIDIA
 * GPU, else the first AMD GPU, else the CPU. Environment:
 *
 *   ATTUNE_THREADS      CPU threads; default: all
 *   ATTUNE_HIP_LIBRARY  the file of AMD's runtime, if it is not libamdhip64.so.7, .6 or .5
 *   ATTUNE_HEURISTICS   a file of rules that replace the compiled ones, for all ops of this context
 *
 * The file of rules is read here, once. It must be for the device's GPU and have this version's
 * tunables of the kernels that it names, else the call is ATTUNE_INVALID, and the line of
 * attune_last_error begins "FILE:LINE:". `attune induce --emit text` writes one. One item a line,
 * blanks as you like, '#' begins a comment:
 *
 *   attune heuristics 4          the format's version
 *   gpu h200                     as in generated/attune_h200.h
 *   rules 0xf4d15459196c6605     hash of the features and segment costs
 *   kernel segmented 0x5d0...    hash of the tunables of each kernel that a choice names
 *   kernel ring 0x6b2...
 *   choice 0 segmented BLOCK_M=16 TILE_SIZE=64 ... SEGMENTS=balance(1,96,192,16)
 *   choice 1 ring BLOCK_M=8 ... SEGMENTS=fitted
 *   segments 1 128 2 96 ...      what the segments of choice 1 cost at head size 128;
 *                                kernels/select/rules_file.c and segments.h say how
 *   tree prefill                 the trees in this order, each in preorder
 *   return 1                     an id; -1: the defaults
 *   tree decode
 *   if kv_tokens <= 2048         a feature of kernels/features.def; two subtrees
 *     return 1                   follow: where it holds,
 *     return 0                   and where it does not
 *   tree overlap                 optional, for batches with both parts: -1: serial; streams: on
 *   return streams               two streams; an id: see kernels/select/selector.h
 *   tree early                   optional, for parts with a choice that has an axis EARLY: its
 *   return 1                     value if plan.start is EARLY; -1: the choice's own
 *
 * If a choice cannot run a batch, or the library carries no code of it for the shape, a default
 * runs instead, as with the compiled rules. */
enum attune_status attune_open(attune_context **ctx, const char *device);
void attune_close(attune_context *ctx);
/* e.g. "NVIDIA H200 (sm_90, 132 SMs)"; lives as long as ctx. */
const char *attune_device_name(const attune_context *ctx);
/* Where plans come from. "h200": measurements on that GPU, which may be another than this one, the
 * nearest with binaries that run here (`attune devices` says why). Or the file of
 * ATTUNE_HEURISTICS. "untuned": no measurements, plans use the defaults of the kernels' sources.
 * Lives as long as ctx. */
const char *attune_heuristic(const attune_context *ctx);

/* Loads all that a plan for `shape` may name. Allocates and synchronises. attune_plan_batch then
 * plans any batch, except that it refuses:
 *
 *   queries of more than 8 tokens
 *     over an E4M3 cache       other than on sm_90 at head sizes 64, 96, 128, 192 and 256
 *     with LSE                 other than on sm_90 where the library carries warpgroup
 *     in the classic layout    always
 *   decodes over an E4M3 cache other than with pages of a multiple of 8 tokens */
enum attune_status attune_prepare(attune_context *ctx, const attune_shape *shape, attune_op **op);
void attune_release(attune_op *op);

enum attune_status attune_plan_batch(const attune_op *op, const attune_batch *batch,
				     attune_plan *plan);

/* `stream`: a CUstream on CUDA, a hipStream_t on HIP. The CPU ignores it: there the call returns
 * when the work is done. `workspace`: device memory, 16-byte aligned, at least plan->workspace
 * bytes. Its contents mean nothing between calls; calls that may overlap need one each. */
enum attune_status attune_run(const attune_op *op, const attune_plan *plan,
			      const attune_tensors *tensors, void *workspace,
			      size_t workspace_bytes, void *stream);

/* Kernels with a grid of fixed size loop over a list of the batch's Q blocks. attune_run makes it
 * on the device, by a launch before each. A caller that runs one plan for many layers may make it
 * once on the host with this call, copy it to the device and pass it as tensors.schedule. *words:
 * the length of the list, 0 if none of the plan's kernels uses one. `schedule` has room for `room`
 * words; NULL: only *words is set. */
enum attune_status attune_schedule(const attune_op *op, const attune_plan *plan,
				   const attune_batch *batch, int32_t *schedule, size_t room,
				   size_t *words);

/* The largest workspace of any batch within these sizes, to be allocated once. */
enum attune_status attune_max_workspace(const attune_op *op, int max_seqs, int max_tokens,
					size_t *bytes);

/* 1: a graph that was captured with the first plan computes the batch of the second; else 0. */
int attune_plan_serves(const attune_plan *captured, const attune_plan *wanted);

/* Steps of a captured graph, on CUDA. Bounds of all its replays: exactly num_seqs sequences (pad
 * with query and sequence length 0), no query longer than max_query, at most num_tokens query
 * tokens. */
typedef struct attune_bounds {
	int num_seqs, max_query, num_tokens;
} attune_bounds;

/* Bytes of the plan and of the workspace, both in device memory, 16-byte aligned. */
enum attune_status attune_record_sizes(const attune_op *op, const attune_bounds *bounds,
				       size_t *plan_bytes, size_t *workspace_bytes);

/* Launches one small kernel, once a step: it reads lengths in device memory and writes a plan
 * there, by the op's heuristic. The prefill part runs first, then the decode part. A plan can only
 * name:
 *
 *   prefills  warpgroup in one segment, if it takes the shape and the library carries it
 *   decodes   ring_list, if it takes the shape and the longest query fits one of its Q blocks
 *   else      the choices of qblock and segmented that the heuristic may name, of BF16 on measured
 *             GPUs; elsewhere the defaults of these two */
enum attune_status attune_record_plan(const attune_op *op, const attune_bounds *bounds,
				      const int32_t *query_start, const int32_t *seq_lens,
				      void *plan, size_t plan_bytes, void *stream);

/* For each layer of the step: runs the plan as it is in device memory by then. A plan may serve one
 * launch after another, not two at a time. */
enum attune_status attune_record_run(const attune_op *op, const attune_bounds *bounds, void *plan,
				     const attune_tensors *tensors, void *workspace,
				     size_t workspace_bytes, void *stream);

/* The plan that attune_record_plan makes for these lengths, computed on the host. */
enum attune_status attune_plan_recorded(const attune_op *op, const attune_bounds *bounds,
					const attune_batch *batch, attune_plan *plan);

/* "prefill: qblock BLOCK_M=128 ... | decode: segmented ..."; "||": on two streams */
enum attune_status attune_plan_text(const attune_op *op, const attune_plan *plan, char *text,
				    size_t size);

const char *attune_status_text(enum attune_status status);
const char *attune_last_error(void);
const char *attune_version(void);

#ifdef __cplusplus
}
#endif
#endif
