/* vllm_triton.h - a row of the table that vllm_triton.py writes and vllm_triton.c reads. */
#ifndef KERNELS_ADAPTERS_VLLM_TRITON_H
#define KERNELS_ADAPTERS_VLLM_TRITON_H

#include "attune.h"
#include <stddef.h>

enum kind { TWO_D, THREE_D, REDUCE };

/* What a kernel's parameters may be; NONE: a null pointer. */
enum {
	ARG_NONE,
	ARG_OUT,
	ARG_Q,
	ARG_K,
	ARG_V,
	ARG_K_SCALE,
	ARG_V_SCALE,
	ARG_TABLE,
	ARG_SEQ_LENS,
	ARG_QUERY_START,
	ARG_SEGM_OUT,
	ARG_SEGM_MAX,
	ARG_SEGM_SUM,
	ARG_SCALE,
	ARG_NUM_SEQS,
	ARG_TABLE_STRIDE,
	ARG_Q_TOKEN,
	ARG_Q_HEAD,
	ARG_OUT_TOKEN,
	ARG_OUT_HEAD,
	ARG_K_PAGE,
	ARG_K_SLOT,
	ARG_K_HEAD,
	ARG_V_PAGE,
	ARG_V_SLOT,
	ARG_V_HEAD,
	NUM_ARGS
};

struct code {
	enum kind kind;
	enum attune_dtype kv_dtype; /* of the cache */
	int heads, group, page;     /* REDUCE has neither these two nor a cache */
	int block_m, tile, warps, stages, segments;
	unsigned shared, threads;
	size_t at; /* of its cubin in cubins[] */
	const char *name;
	int num_args;
	unsigned char args[32];
};

#endif
