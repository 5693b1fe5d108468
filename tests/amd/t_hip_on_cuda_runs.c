/* SPDX-License-Identifier: Apache-2.0 */
/* t_hip_on_cuda_runs.c - runs the device verbs of an AMD GPU on an NVIDIA one
 * (tests/hip_on_cuda): the host code is the same, and the GPU's own driver answers. Skips itself
 * without such a GPU. */
#include "kernels/spec/space.h"
#include "tests/hip_on_cuda/here.h"
#include "tests/hip/bench.h"
#include <math.h>
#include <time.h>

static int (*last_error)(void);

static void compile(struct binary *b, const char *arch)
{
	if (compile_text(b, add_text, arch))
		fail_msg("%s: %s", arch, b->log ? b->log : "no compiler");
}

static void bench_open(struct bench *t, const char *fault)
{
	struct binary b;
	(void)fault;
	ok(device_open(&t->dev, "hip"));
	compile(&b, t->dev.info.arch);
	ok(t->dev.ops->load(&t->dev, &t->code, &b.blob));
	jit_free(&b);
	t->a = device_ints(&t->dev, 1);
	t->b = device_ints(&t->dev, 0);
}

static int no_error_is_left(void **state)
{
	const int error = last_error();
	(void)state;
	if (error)
		print_error("error %d is left to the caller\n", error);
	return error;
}

/* ---- what it is --------------------------------------------------------------------------- */

/* The properties equal those of CUDA's own host code, except the architecture's name. */
static void it_says_what_the_gpu_is(void **state)
{
	struct device cuda, dev;
	int major = 0;
	char minor = '\0';
	(void)state;
	ok(device_open(&cuda, "cuda"));
	ok(device_open(&dev, "hip"));
	const struct device_info *c = &cuda.info, *h = &dev.info;
	assert_string_equal(h->name, c->name);
	assert_string_equal(h->gpu, c->gpu);
	assert_int_equal(sscanf(h->arch, "gfx%d.%c", &major, &minor), 2);
	assert_int_equal(10 * major + minor - '0', atoi(c->arch + strlen("sm_")));
	assert_null(hip_chip(h->arch));
	assert_string_equal(strstr(h->driver, "HIP ") + 4, strstr(c->driver, "CUDA ") + 5);
	assert_int_equal(h->units, c->units);
	assert_int_equal(h->lanes, 32);
	assert_int_equal(h->smem_per_block, c->smem_per_block);
	assert_int_equal(h->smem_per_unit, c->smem_per_unit);
	assert_int_equal(h->l2_bytes, c->l2_bytes);
	assert_int_equal(h->memory_bytes, c->memory_bytes);
	assert_int_equal(h->clock_mhz, c->clock_mhz);
	assert_int_equal(h->memory_clock_mhz, c->memory_clock_mhz);
	assert_int_equal(h->dies, 0);
	device_close(&dev);
	device_close(&cuda);
}

static void the_library_opens_it(void **state)
{
	static const attune_shape shape = { .size = sizeof(attune_shape),
					    .num_query_heads = 8,
					    .num_kv_heads = 2,
					    .head_size = 128,
					    .page_size = 16,
					    .dtype = ATTUNE_BF16,
					    .kv_dtype = ATTUNE_BF16,
					    .causal = 1 };
	attune_context *ctx;
	attune_op *op;
	(void)state;
	ok(attune_open(&ctx, "hip"));
	assert_non_null(strstr(attune_device_name(ctx), "(gfx"));
	assert_non_null(strstr(attune_device_name(ctx), " CUs)"));
	assert_int_equal(attune_prepare(ctx, &shape, &op), ATTUNE_UNSUPPORTED);
	assert_line("no kernel is carried for gfx");
	attune_close(ctx);
	assert_int_equal(attune_open(&ctx, "hip:99"), ATTUNE_NO_DEVICE);
	assert_line("hip:99: GPUs 0 to ");
}

/* ---- memory and code ---------------------------------------------------------------------- */

static void memory_is_copied_and_filled(void **state)
{
	struct bench t;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	assert_ints(&t.dev, t.a, 1);
	ok(ops->fill(&t.dev, t.a, 1, N * sizeof *t.a)); /* is done before any stream's launch */
	ok(launch(&t.dev, t.code, t.b, t.a, 1, ops->stream(&t.dev)));
	ok(ops->wait(&t.dev, ops->stream(&t.dev)));
	assert_ints(&t.dev, t.b, 0x01010102);
	ok(ops->clear(&t.dev, t.a, N * sizeof *t.a, ops->stream(&t.dev)));
	ok(ops->wait(&t.dev, ops->stream(&t.dev)));
	assert_ints(&t.dev, t.a, 0);
	bench_close(&t);
}

static void memory_runs_out(void **state)
{
	struct device dev;
	void *mem;
	(void)state;
	ok(device_open(&dev, "hip"));
	assert_int_equal(dev.ops->alloc(&dev, &mem, (size_t)1 << 50), ATTUNE_NO_MEMORY);
	assert_line("hip: allocation: out of memory (error 2)");
	assert_null(mem);
	device_close(&dev);
}

/* No code, another GPU's, and one without that kernel. */
static void code_that_does_not_fit_is_one_line(void **state)
{
	static const char nothing[4096] = "no code";
	struct device dev;
	struct binary others, own;
	(void)state;
	ok(device_open(&dev, "hip"));
	compile(&others, strncmp(dev.info.arch, "gfx8", 4) ? "gfx8.0" : "gfx9.0");
	compile(&own, dev.info.arch);
	free((void *)own.blob.entry);
	own.blob.entry = strdup("attune_other");
	const struct {
		struct blob blob;
		const char *words;
		enum attune_status status;
	} rows[] = {
		{ { .data = nothing, .size = sizeof nothing, .entry = "attune_nothing" },
		  "hip: load: ",
		  ATTUNE_DEVICE_ERROR },
		{ others.blob, "(error 209)", ATTUNE_UNSUPPORTED },
		{ own.blob, "(error 500)", ATTUNE_DEVICE_ERROR },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct code *code = NULL;
		assert_int_equal(dev.ops->load(&dev, &code, &rows[i].blob), rows[i].status);
		assert_line("hip: load: ");
		assert_line(rows[i].words);
		assert_null(code);
	}
	jit_free(&others);
	jit_free(&own);
	device_close(&dev);
}

/* With all shared memory there is, and not with a byte more. */
static void launches_have_their_limits(void **state)
{
	struct geometry g = grid;
	struct bench t;
	int registers, spill, smem;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	void *stream = ops->stream(&t.dev);
	const struct add args = { t.b, t.a, N, 6 };
	ops->resources(t.code, &registers, &spill, &smem);
	assert_true(registers > 0);
	assert_int_equal(spill, 0);
	assert_int_equal(smem, 0);
	g.smem = (unsigned)t.dev.info.smem_per_block;
	ok(ops->launch(&t.dev, t.code, &g, &args, sizeof args, stream));
	ok(ops->wait(&t.dev, stream));
	assert_ints(&t.dev, t.b, 7);
	g.smem++;
	assert_int_equal(ops->launch(&t.dev, t.code, &g, &args, sizeof args, stream),
			 ATTUNE_UNSUPPORTED);
	assert_line(" bytes of LDS, ");
	g.smem = 0;
	g.threads = 1 << 20;
	assert_int_equal(ops->launch(&t.dev, t.code, &g, &args, sizeof args, stream),
			 ATTUNE_DEVICE_ERROR);
	assert_line("hip: launch: ");
	bench_close(&t);
}

/* ---- graphs -------------------------------------------------------------------------------- */

/* And the next one is as if it had not been. */
static void a_tape_that_fails_is_one_line(void **state)
{
	struct bench t;
	struct graph *graph = NULL;
	void *side;
	double ns;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	void *stream = ops->stream(&t.dev);
	ok(ops->graph_begin(&t.dev));
	ok(ops->fork(&t.dev, stream, &side));
	ok(launch(&t.dev, t.code, t.b, t.a, 1, side));
	assert_int_equal(ops->graph_end(&t.dev, &graph), ATTUNE_DEVICE_ERROR);
	assert_line("hip: end of capture: ");
	assert_line("(error 904)");
	assert_null(graph);
	ok(ops->graph_begin(&t.dev));
	ok(launch(&t.dev, t.code, t.b, t.a, 1, stream));
	ok(ops->graph_end(&t.dev, &graph));
	ok(ops->graph_play(&t.dev, graph, &ns));
	assert_ints(&t.dev, t.b, 2);
	ops->graph_free(&t.dev, graph);
	bench_close(&t);
}

static struct graph *graph_of_clears(struct device *dev, void *mem, size_t bytes, int n)
{
	struct graph *graph;
	ok(dev->ops->graph_begin(dev));
	for (int i = 0; i < n; i++)
		ok(dev->ops->clear(dev, mem, bytes, dev->ops->stream(dev)));
	ok(dev->ops->graph_end(dev, &graph));
	return graph;
}

static double host_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Events measure the device's time: more for 64 times the work, however busy others keep it, and
 * no more than the host's clock. */
static void graphs_say_how_long_they_take(void **state)
{
	enum { BYTES = 256 << 20, MANY = 64, TRIES = 8 };
	struct device dev;
	void *mem;
	double least = INFINITY, many, ns;
	(void)state;
	ok(device_open(&dev, "hip"));
	ok(dev.ops->alloc(&dev, &mem, BYTES));
	struct graph *one = graph_of_clears(&dev, mem, BYTES, 1);
	struct graph *all = graph_of_clears(&dev, mem, BYTES, MANY);
	for (int i = 0; i < TRIES; i++) {
		ok(dev.ops->graph_play(&dev, one, &ns));
		least = fmin(least, ns);
	}
	const double begin = host_ns();
	ok(dev.ops->graph_play(&dev, all, &many));
	assert_true(many <= host_ns() - begin);
	assert_true(least > 0);
	assert_true(many > least);
	dev.ops->graph_free(&dev, one);
	dev.ops->graph_free(&dev, all);
	dev.ops->release(&dev, mem);
	device_close(&dev);
}

/* The last row: after this the process has no GPU. */
static void a_fault_is_one_line(void **state)
{
	struct bench t;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	ok(launch(&t.dev, t.code, NULL, t.a, 1, ops->stream(&t.dev)));
	assert_int_equal(ops->wait(&t.dev, ops->stream(&t.dev)), ATTUNE_DEVICE_ERROR);
	assert_line("hip: wait: ");
	assert_line("(error 700)");
	bench_close(&t);
}

#define ROW(test) cmocka_unit_test_teardown(test, no_error_is_left)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(it_says_what_the_gpu_is),
		ROW(the_library_opens_it),
		ROW(memory_is_copied_and_filled),
		ROW(memory_runs_out),
		ROW(code_that_does_not_fit_is_one_line),
		ROW(launches_have_their_limits),
		ROW(sides_are_waited_for),
		ROW(graphs_play_again),
		ROW(calls_are_timed_in_stream_order),
		ROW(a_tape_that_fails_is_one_line),
		ROW(graphs_say_how_long_they_take),
		cmocka_unit_test(a_fault_is_one_line),
	};
	int status;
	if (!has_gpu(&status))
		return status;
	void *runtime = find_runtime();
	if (!runtime)
		return 1;
	*(void **)(void *)&last_error = dlsym(runtime, "hipGetLastError");
	const int bad = cmocka_run_group_tests_name("hip on cuda runs", tests, NULL, NULL);
	return !leave_folder() || bad;
}
