/* SPDX-License-Identifier: Apache-2.0 */
/* bench_threads.c - `make bench-threads`: what a call of attune_run takes by the number of threads,
 * beside one thread, on an idle machine and beside programs that never sleep. Not part of `make
 * test`: it takes a minute or two, and times depend on the machine.
 *
 *   bench_threads [CALLS] [BUSY] [SEQS] [KEYS] [THREADS...]      10000 0 8 500 1 2 4 8 16
 *
 * CALLS of each number of threads, in blocks that take turns; BUSY programs run beside them, decodes
 * of SEQS sequences of KEYS keys, 32 query heads, 8 KV heads, head size 128, BF16. */
#include "kernels/attune.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { QUERY_HEADS = 32, KV_HEADS = 8, HEAD = 128, PAGE = 16 };
enum { BLOCK = 50, WARM = 5, MOST_COUNTS = 16, PAUSE_US = 20000 };

/* A number of threads with what it measured. */
struct contender {
	int threads;
	attune_context *ctx;
	attune_op *op;
	attune_plan plan;
	double *us;
	int n;
};

static attune_tensors tensors;
static attune_batch batch;
static void *workspace;

static void check(enum attune_status status)
{
	if (!status)
		return;
	fprintf(stderr, "bench_threads: %s\n", attune_last_error());
	exit(2);
}

static void *need(size_t bytes)
{
	void *p = calloc(1, bytes);
	if (!p) {
		fprintf(stderr, "bench_threads: out of memory\n");
		exit(2);
	}
	return p;
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* Small BF16 numbers of both signs, as a cache has. */
static uint16_t *numbers(size_t n)
{
	uint16_t *v = need(2 * n);
	unsigned seed = 1;
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		v[i] = (uint16_t)(0x3c00 | (seed >> 31 << 15) | (seed >> 24 & 0x7f));
	}
	return v;
}

static void make_batch(int seqs, int keys)
{
	const int pages = (keys + PAGE - 1) / PAGE;
	const size_t rows = (size_t)seqs * QUERY_HEADS * HEAD;
	const size_t cache = (size_t)seqs * (size_t)pages * PAGE * KV_HEADS * HEAD;
	int32_t *start = need(((size_t)seqs + 1) * 4), *lens = need((size_t)seqs * 4);
	int32_t *table = need((size_t)seqs * (size_t)pages * 4);
	for (int i = 0; i < seqs; i++) {
		start[i + 1] = i + 1;
		lens[i] = keys;
	}
	for (int i = 0; i < seqs * pages; i++)
		table[i] = seqs * pages - 1 - i;
	batch = (attune_batch){
		.size = sizeof batch, .num_seqs = seqs, .query_start = start, .seq_lens = lens
	};
	tensors = (attune_tensors){ .size = sizeof(attune_tensors),
				    .out = need(rows * 2),
				    .q = numbers(rows),
				    .k_cache = numbers(cache),
				    .v_cache = numbers(cache),
				    .block_table = table,
				    .query_start = start,
				    .seq_lens = lens,
				    .q_token_stride = QUERY_HEADS * HEAD,
				    .q_head_stride = HEAD,
				    .out_token_stride = QUERY_HEADS * HEAD,
				    .out_head_stride = HEAD,
				    .k_page_stride = PAGE * KV_HEADS * HEAD,
				    .k_slot_stride = KV_HEADS * HEAD,
				    .k_head_stride = HEAD,
				    .v_page_stride = PAGE * KV_HEADS * HEAD,
				    .v_slot_stride = KV_HEADS * HEAD,
				    .v_head_stride = HEAD,
				    .block_table_stride = pages };
}

static void open_with(struct contender *c, int threads, int calls)
{
	const attune_shape shape = { .size = sizeof shape,
				     .num_query_heads = QUERY_HEADS,
				     .num_kv_heads = KV_HEADS,
				     .head_size = HEAD,
				     .page_size = PAGE,
				     .dtype = ATTUNE_BF16,
				     .kv_dtype = ATTUNE_BF16,
				     .causal = 1 };
	char text[16];
	snprintf(text, sizeof text, "%d", threads);
	setenv("ATTUNE_THREADS", text, 1);
	c->threads = threads;
	c->us = need((size_t)calls * sizeof *c->us);
	check(attune_open(&c->ctx, "cpu"));
	check(attune_prepare(c->ctx, &shape, &c->op));
	c->plan.size = sizeof c->plan;
	check(attune_plan_batch(c->op, &batch, &c->plan));
}

static void run_block(struct contender *c, int calls)
{
	for (int i = -WARM; i < BLOCK && c->n < calls; i++) {
		const double begin = now_us();
		check(attune_run(c->op, &c->plan, &tensors, workspace, c->plan.workspace, NULL));
		if (i >= 0)
			c->us[c->n++] = now_us() - begin;
	}
	usleep(PAUSE_US); /* threads that wait actively are asleep before the next block */
}

static int by_size(const void *pa, const void *pb)
{
	const double a = *(const double *)pa, b = *(const double *)pb;
	return (a > b) - (a < b);
}

static void start_busy(int n)
{
	for (int i = 0; i < n; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (volatile unsigned long x = 0;; x++)
				;
		}
}

static void print(const struct contender *c, const struct contender *one)
{
	const double median = c->us[c->n / 2], tail = c->us[c->n * 99 / 100];
	printf("%7d %10.1f %10.1f %10.1f   %6.2f %6.2f\n", c->threads, median, tail,
	       c->us[c->n - 1], median / one->us[one->n / 2], tail / one->us[one->n * 99 / 100]);
}

int main(int argc, char **argv)
{
	static const int usual[] = { 1, 2, 4, 8, 16 };
	const int calls = argc > 1 ? atoi(argv[1]) : 10000, busy = argc > 2 ? atoi(argv[2]) : 0;
	const int seqs = argc > 3 ? atoi(argv[3]) : 8, keys = argc > 4 ? atoi(argv[4]) : 500;
	struct contender c[MOST_COUNTS] = { { 0 } };
	size_t most = 0;
	int n = 0;
	if (calls < 1 || seqs < 1 || keys < 1) {
		fprintf(stderr, "usage: bench_threads [CALLS] [BUSY] [SEQS] [KEYS] [THREADS...]\n");
		return 2;
	}
	make_batch(seqs, keys);
	for (int i = 5; i < argc && n < MOST_COUNTS; i++)
		open_with(&c[n++], atoi(argv[i]), calls);
	for (int i = 0; argc < 6 && i < 5; i++)
		open_with(&c[n++], usual[i], calls);
	for (int i = 0; i < n; i++)
		most = c[i].plan.workspace > most ? c[i].plan.workspace : most;
	workspace = aligned_alloc(64, (most + 64) / 64 * 64);
	start_busy(busy);
	while (c[n - 1].n < calls)
		for (int i = 0; i < n; i++)
			run_block(&c[i], calls);
	printf("%d calls, %d busy, %d decodes of %d keys; us; the last two: ratios to row 1\n"
	       "threads     median        p99        max   median    p99\n",
	       calls, busy, seqs, keys);
	for (int i = 0; i < n; i++) {
		qsort(c[i].us, (size_t)c[i].n, sizeof *c[i].us, by_size);
		print(&c[i], &c[0]);
	}
	return 0;
}
