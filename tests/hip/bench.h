/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - a HIP device with a kernel that adds, and checks that hold for any runtime. The
 * including test opens the device. */
#ifndef TESTS_HIP_BENCH_H
#define TESTS_HIP_BENCH_H

#include "lines.h"
#include "kernels/spec/space.h"

enum { N = 1000, THREADS = 256 };

/* The arguments of a kernel that adds to each of N integers. */
struct add {
	int *out;
	const int *in;
	int n, add;
};
static const struct geometry grid = {
	.x = (N + THREADS - 1) / THREADS, .y = 1, .z = 1, .threads = THREADS
};

static inline int *device_ints(struct device *dev, int value)
{
	int v[N];
	void *mem;
	for (int i = 0; i < N; i++)
		v[i] = value;
	ok(dev->ops->alloc(dev, &mem, sizeof v));
	ok(dev->ops->put(dev, mem, v, sizeof v));
	return mem;
}

static inline void assert_ints(struct device *dev, const int *mem, int value)
{
	int v[N];
	ok(dev->ops->get(dev, v, mem, sizeof v));
	for (int i = 0; i < N; i++)
		assert_int_equal(v[i], value);
}

static inline enum attune_status launch(struct device *dev, const struct code *code, int *out,
					const int *in, int add, void *stream)
{
	const struct add args = { out, in, N, add };
	return dev->ops->launch(dev, code, &grid, &args, sizeof args, stream);
}

/* A device with code and two arrays. */
struct bench {
	struct device dev;
	struct code *code;
	int *a, *b;
};
static void bench_open(struct bench *, const char *fault);

static inline void bench_close(struct bench *t)
{
	t->dev.ops->release(&t->dev, t->a);
	t->dev.ops->release(&t->dev, t->b);
	t->dev.ops->unload(&t->dev, t->code);
	device_close(&t->dev);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* The side stream sees what came before the fork, and the stream what came before the join. */
static inline void sides_are_waited_for(void **state)
{
	struct bench t;
	void *side;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	void *stream = ops->stream(&t.dev);
	ok(launch(&t.dev, t.code, t.b, t.a, 1, stream));
	ok(ops->fork(&t.dev, stream, &side));
	assert_ptr_not_equal(side, stream);
	ok(launch(&t.dev, t.code, t.a, t.b, 10, side));
	ok(ops->join(&t.dev, stream, side));
	ok(launch(&t.dev, t.code, t.b, t.a, 100, stream));
	ok(ops->wait(&t.dev, stream));
	assert_ints(&t.dev, t.b, 112);
	bench_close(&t);
}

static inline void graphs_play_again(void **state)
{
	struct bench t;
	struct graph *graph;
	void *side;
	double ns = 0;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	void *stream = ops->stream(&t.dev);
	ok(ops->graph_begin(&t.dev));
	assert_true(ops->capturing(&t.dev, stream));
	ok(ops->clear(&t.dev, t.b, N * sizeof *t.b, stream));
	ok(ops->fork(&t.dev, stream, &side));
	ok(launch(&t.dev, t.code, t.a, t.a, 3, side));
	ok(ops->join(&t.dev, stream, side));
	ok(launch(&t.dev, t.code, t.b, t.a, 1, stream));
	ok(ops->graph_end(&t.dev, &graph));
	assert_false(ops->capturing(&t.dev, stream));
	assert_ints(&t.dev, t.a, 1); /* recorded, not run */
	for (int i = 1; i <= 3; i++) {
		ok(ops->graph_play(&t.dev, graph, &ns));
		assert_true(ns > 0);
		assert_ints(&t.dev, t.a, 1 + 3 * i);
		assert_ints(&t.dev, t.b, 2 + 3 * i);
	}
	ops->graph_free(&t.dev, graph);
	bench_close(&t);
}

static inline void calls_are_timed_in_stream_order(void **state)
{
	struct bench t;
	double ns = -1;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	ok(ops->time_begin(&t.dev));
	ok(launch(&t.dev, t.code, t.b, t.a, 1, ops->stream(&t.dev)));
	ok(ops->time_end(&t.dev, &ns));
	assert_true(ns > 0);
	assert_ints(&t.dev, t.b, 2);
	bench_close(&t);
}

#endif
