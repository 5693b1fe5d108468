/* SPDX-License-Identifier: Apache-2.0 */
/* t_hip_runs.c - runs the device verbs of an AMD GPU on the stand-in of tests/hip, and checks
 * their messages when a call fails. */
#include <stdio.h>
#include "harness/compile/compile.h"
#include "tests/hip/stand_in_here.h"
#include "tests/hip/bench.h"

static enum attune_status load(struct device *dev, struct code **code, const char *text)
{
	const struct blob blob = { .data = text, .size = strlen(text) + 1, .entry = "attune_add" };
	*code = NULL;
	return dev->ops->load(dev, code, &blob);
}

static void bench_open(struct bench *t, const char *fault)
{
	ok(open_as(&t->dev, "MI300X", fault, "hip"));
	ok(load(&t->dev, &t->code, "code for gfx942: add"));
	t->a = device_ints(&t->dev, 1);
	t->b = device_ints(&t->dev, 0);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Whatever device is the caller's current one, it stays so. */
static void the_second_gpu_is_used_beside_the_callers(void **state)
{
	struct device dev;
	int *a, device = -1;
	(void)state;
	ok(open_as(&dev, "MI300X", "", "hip:1"));
	a = device_ints(&dev, 4);
	for (int callers = 1; callers >= 0; callers--) {
		go_to(callers);
		ok(dev.ops->clear(&dev, a, N * sizeof *a, dev.ops->stream(&dev)));
		ok(dev.ops->wait(&dev, dev.ops->stream(&dev)));
		assert_ints(&dev, a, 0);
		now_on(&device);
		assert_int_equal(device, callers);
	}
	dev.ops->release(&dev, a);
	device_close(&dev);
	now_on(&device);
	assert_int_equal(device, 0);
}

static void memory_is_copied_and_filled(void **state)
{
	struct bench t;
	int v[2];
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	assert_ints(&t.dev, t.a, 1);
	ok(ops->fill(&t.dev, t.a, 1, N * sizeof *t.a)); /* is done before any stream's launch */
	ok(launch(&t.dev, t.code, t.b, t.a, 1, ops->stream(&t.dev)));
	ok(ops->wait(&t.dev, ops->stream(&t.dev)));
	assert_ints(&t.dev, t.b, 0x01010102);
	assert_ints(&t.dev, t.a, 0x01010101);
	ok(ops->clear(&t.dev, t.a, N * sizeof *t.a, ops->stream(&t.dev)));
	assert_ints(&t.dev, t.a, 0x01010101); /* nothing has waited for it */
	ok(ops->wait(&t.dev, ops->stream(&t.dev)));
	assert_ints(&t.dev, t.a, 0);
	assert_string_equal(misuse(), "");
	assert_int_equal(ops->get(&t.dev, v, t.a + N - 1, sizeof v), ATTUNE_DEVICE_ERROR);
	assert_line("hip: copy from the device: invalid argument (error 1)");
	assert_string_equal(misuse(), "hipMemcpy: outside of an allocation");
	bench_close(&t);
}

static void memory_runs_out(void **state)
{
	struct device dev;
	void *mem[3];
	(void)state;
	ok(open_as(&dev, "MI300X", "memory 3", "hip"));
	for (int i = 0; i < 2; i++)
		ok(dev.ops->alloc(&dev, &mem[i], 0));
	assert_int_equal(dev.ops->alloc(&dev, &mem[2], 100), ATTUNE_NO_MEMORY);
	assert_line("hip: allocation: out of memory (error 2)");
	assert_null(mem[2]);
	for (int i = 0; i < 3; i++)
		dev.ops->release(&dev, mem[i]);
	device_close(&dev);
}

static void code_that_does_not_fit_is_one_line(void **state)
{
	static const struct {
		const char *text, *words;
		enum attune_status status;
	} rows[] = {
		{ "code for gfx90a: add", "hip: load: no kernel image", ATTUNE_UNSUPPORTED },
		{ "code for gfx942: sub", "hip: load: ", ATTUNE_DEVICE_ERROR },
		{ "\x7f"
		  "ELF",
		  "hip: load: ", ATTUNE_DEVICE_ERROR },
	};
	struct device dev;
	struct code *code;
	(void)state;
	ok(open_as(&dev, "MI300X", "", "hip"));
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(load(&dev, &code, rows[i].text), rows[i].status);
		assert_line(rows[i].words);
		assert_null(code);
	}
	device_close(&dev);
}

static void launches_run(void **state)
{
	struct geometry g = grid;
	struct bench t;
	struct code *spilling;
	int registers, spill, smem;
	(void)state;
	bench_open(&t, "");
	const struct device_ops *ops = t.dev.ops;
	void *stream = ops->stream(&t.dev);
	ok(launch(&t.dev, t.code, t.b, t.a, 4, stream));
	ok(launch(&t.dev, t.code, t.a, t.b, 10, stream));
	ok(ops->wait(&t.dev, stream));
	assert_ints(&t.dev, t.a, 15);
	ok(load(&t.dev, &spilling, "code for gfx942: add_spilling"));
	ops->resources(spilling, &registers, &spill, &smem);
	assert_int_equal(registers, 256);
	assert_int_equal(spill, 48);
	assert_int_equal(smem, 4096);
	g.smem = 65536 - 4096;
	const struct add args = { t.a, t.b, N, 1 };
	ok(ops->launch(&t.dev, spilling, &g, &args, sizeof args, stream));
	g.smem++;
	assert_int_equal(ops->launch(&t.dev, spilling, &g, &args, sizeof args, stream),
			 ATTUNE_UNSUPPORTED);
	assert_line("hip: 61441 bytes of LDS, 61440 is the limit");
	g.x = 0;
	g.smem = 0;
	ok(ops->launch(&t.dev, spilling, &g, &args, sizeof args, stream));
	ok(ops->wait(&t.dev, stream));
	assert_ints(&t.dev, t.a, 6);
	ops->unload(&t.dev, spilling);
	assert_string_equal(misuse(), "");
	const struct add beside = { t.a + 1, t.b, N, 1 };
	ok(ops->launch(&t.dev, t.code, &grid, &beside, sizeof beside, stream));
	assert_int_equal(ops->wait(&t.dev, stream), ATTUNE_DEVICE_ERROR);
	assert_line("hip: wait: ");
	assert_string_equal(misuse(), "add: outside of an allocation");
	bench_close(&t);
}

/* And the next one is as if they had not been. */
static void graphs_that_fail_are_one_line(void **state)
{
	struct bench t;
	struct graph *graph = NULL;
	void *side;
	(void)state;
	bench_open(&t, "capture");
	const struct device_ops *ops = t.dev.ops;
	void *stream = ops->stream(&t.dev);
	ok(ops->graph_begin(&t.dev));
	assert_int_equal(launch(&t.dev, t.code, t.b, t.a, 1, stream), ATTUNE_DEVICE_ERROR);
	assert_line("hip: launch: ");
	assert_int_equal(ops->graph_end(&t.dev, &graph), ATTUNE_DEVICE_ERROR);
	assert_line("hip: end of capture: operation failed due to a previous error");
	assert_null(graph);
	bench_close(&t);
	bench_open(&t, "");
	stream = ops->stream(&t.dev);
	ok(ops->graph_begin(&t.dev));
	ok(ops->fork(&t.dev, stream, &side));
	ok(launch(&t.dev, t.code, t.b, t.a, 1, side));
	assert_int_equal(ops->graph_end(&t.dev, &graph), ATTUNE_DEVICE_ERROR);
	assert_line("(error 904)");
	ok(ops->graph_begin(&t.dev));
	ok(ops->graph_end(&t.dev, &graph));
	ops->graph_free(&t.dev, graph);
	bench_close(&t);
}

/* Compiled in a process of its own, by the library that the runtime is, and loaded. */
static void sources_become_code(void **state)
{
	static const struct {
		const char *text, *arch, *log;
		int status;
	} rows[] = {
		{ "kernel add", "gfx942", "", 0 },
		{ "kernel add\n#error", "gfx942", "1 error generated for gfx942", 1 },
		{ "kernel add_spilling", "gfx90a", "", 0 },
	};
	char folder[] = "/tmp/t_hip.XXXXXX", path[64], command[64];
	struct bench t;
	(void)state;
	assert_non_null(mkdtemp(folder));
	setenv("ATTUNE_CACHE", folder, 1);
	setenv("HIPCC", "", 1); /* no clang: it cannot compile these sources */
	snprintf(path, sizeof path, "%s/source.cu", folder);
	assert_string_equal(jit_version(BACKEND_GPU, "gfx942"), "hiprtc");
	assert_string_equal(jit_version(BACKEND_GPU, "gfx950"), "none"); /* it aborts */
	bench_open(&t, "");
	for (size_t i = 0; i < 2 * COUNT(rows); i++) {
		const size_t r = i / 2;
		struct binary b;
		FILE *f = fopen(path, "we");
		assert_non_null(f);
		fputs(rows[r].text, f);
		fclose(f);
		assert_int_equal(jit_compile_source(&b, path, "-DX=1", rows[r].arch),
				 rows[r].status);
		assert_int_equal(b.cached, i % 2);
		assert_non_null(strstr(b.log, rows[r].log));
		if (!r) {
			struct code *code;
			ok(t.dev.ops->load(&t.dev, &code, &b.blob));
			t.dev.ops->unload(&t.dev, code);
		}
		jit_free(&b);
	}
	bench_close(&t);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HIP_ROW(the_second_gpu_is_used_beside_the_callers),
		HIP_ROW(memory_is_copied_and_filled),
		HIP_ROW(memory_runs_out),
		HIP_ROW(code_that_does_not_fit_is_one_line),
		HIP_ROW(launches_run),
		HIP_ROW(sides_are_waited_for),
		HIP_ROW(graphs_play_again),
		HIP_ROW(calls_are_timed_in_stream_order),
		HIP_ROW(graphs_that_fail_are_one_line),
		HIP_ROW(sources_become_code),
	};
	return HIP_ROWS("hip runs", tests);
}
