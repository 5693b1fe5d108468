/* SPDX-License-Identifier: Apache-2.0 */
/* store_fixture.h - a folder of databases, rows to insert, and queries. Each program uses what
 * it needs. */
#ifndef TESTS_STORE_STORE_FIXTURE_H
#define TESTS_STORE_STORE_FIXTURE_H

#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define UNUSED __attribute__((unused))

UNUSED static struct store *fresh(const char *name)
{
	const char *path = in_folder(name);
	char log[160];
	unlink(path);
	snprintf(log, sizeof log, "%s-wal", path);
	unlink(log);
	struct store *s = store_open(path, 0);
	assert_non_null(s);
	return s;
}

/* stderr between quiet() and loud(); its number of lines. */
static char said[2000];
static int kept_stderr;

UNUSED static void quiet(void)
{
	const int fd = open(in_folder("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	fflush(stderr);
	kept_stderr = dup(2);
	assert_true(fd >= 0 && kept_stderr >= 0 && dup2(fd, 2) == 2);
	close(fd);
}

UNUSED static int loud(void)
{
	int lines = 0;
	fflush(stderr);
	const ssize_t n = pread(2, said, sizeof said - 1, 0);
	dup2(kept_stderr, 2);
	close(kept_stderr);
	said[n > 0 ? n : 0] = '\0';
	for (const char *c = said; *c; c++)
		lines += *c == '\n';
	return lines;
}

/* ---- things to store ---------------------------------------------------------- */

UNUSED static struct scenario scenario_of(const char *batch)
{
	char error[200];
	struct scenario sc = { .model = "llama3.1-8b@1",
			       .set = "steps",
			       .split = "train",
			       .weight = 2.5,
			       .seed = 0xfedcba9876543210,
			       .layout = LAYOUT_HND,
			       .shape = { .size = sizeof(attune_shape),
					  .num_query_heads = 32,
					  .num_kv_heads = 8,
					  .head_size = 128,
					  .page_size = 16,
					  .dtype = ATTUNE_BF16,
					  .kv_dtype = ATTUNE_F16,
					  .causal = 1,
					  .has_new_kv = 1,
					  .window = 4096,
					  .scale = 0.1f,
					  .softcap = 30,
					  .has_sinks = 1 } };
	sc.batch_text = strdup(batch);
	sc.batch = batch_parse(batch, error, sizeof error);
	assert_non_null(sc.batch);
	return sc;
}

UNUSED static void scenario_done(struct scenario *sc)
{
	batch_free(sc->batch);
	free(sc->batch_text);
}

UNUSED static struct measurement measured(double us)
{
	struct measurement m = { .outcome = OUTCOME_OK,
				 .samples = 3,
				 .calls = 10,
				 .us = { (float)us, (float)us + 1, (float)us + 2 },
				 .median_us = us + 1,
				 .min_us = us,
				 .ci_us = NAN,
				 .ratio = 1,
				 .gbps = 1200,
				 .tflops = 3.5,
				 .sm_mhz_before = 1980,
				 .sm_mhz_after = NAN,
				 .power_w = 400,
				 .joules = 0.25,
				 .rejected = 1,
				 .stopped = "interval" };
	return m;
}

UNUSED static struct choice choice_at(const char *kernel, int point)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, kernel) };
	assert_non_null(c.kernel);
	config_default(&c.config, c.kernel->space);
	while (point-- > 0)
		assert_true(config_next(&c.config, c.kernel->space, 32));
	return c;
}

UNUSED static const struct run_info h200 = {
	.device = { .name = "NVIDIA H200",
		    .gpu = "h200",
		    .arch = "sm_90",
		    .driver = "580.1 / 13.0",
		    .backend = BACKEND_GPU,
		    .units = 132,
		    .lanes = 32,
		    .smem_per_block = 232448,
		    .smem_per_unit = 233472,
		    .l2_bytes = 62914560,
		    .memory_bytes = 150000000000,
		    .clock_mhz = 1980,
		    .memory_clock_mhz = 3201,
		    .power_limit_w = 700 },
	.commit = "0123abcd",
	.sources = "committed",
	.card = "00112233aabbccdd",
	.toolkit = "nvrtc 13.0",
	.protocol = "graph-rotating",
	.command = "attune sweep",
	.dram_gbps = 4000,
	.fma_tflops = 60,
};

UNUSED static int put(struct store *s, long long run, const char *batch, const char *kernel,
		      int point, struct measurement m)
{
	struct scenario sc = scenario_of(batch);
	const struct choice c = choice_at(kernel, point);
	const int stored =
	    store_measurement(s, run, &sc, PHASE_DECODE, &c, "-DHEAD_SIZE=128", &m, 128, 16);
	scenario_done(&sc);
	return stored;
}

UNUSED static void add(struct store *s, long long run, const char *batch, const char *kernel,
		       int point, struct measurement m)
{
	assert_int_equal(put(s, run, batch, kernel, point, m), 1);
}

/* ---- things to read -------------------------------------------------------------- */

UNUSED static int keep_text(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)names;
	char *all = arg;
	for (int i = 0; i < n; i++)
		strcat(strcat(all, cells[i] ? cells[i] : "-"), i < n - 1 ? " " : ";");
	return 1;
}

/* All cells of a query, blanks between columns, a semicolon after each row. */
UNUSED static const char *ask(struct store *s, const char *sql)
{
	static char all[4000];
	all[0] = '\0';
	assert_true(store_query(s, sql, keep_text, all));
	return all;
}

struct kept_cells {
	struct store_cell v[8];
	char choice[8][300], batch[8][64], stage[8][16];
	int n, stop_at;
};

UNUSED static int keep_cell(void *arg, const struct store_cell *cell)
{
	struct kept_cells *c = arg;
	assert_true(c->n < 8);
	snprintf(c->choice[c->n], sizeof c->choice[0], "%s %s", cell->kernel, cell->choice);
	snprintf(c->batch[c->n], sizeof c->batch[0], "%s", cell->batch);
	snprintf(c->stage[c->n], sizeof c->stage[0], "%s", cell->stage);
	assert_string_equal(cell->gpu, "h200");
	c->v[c->n++] = *cell;
	return c->n != c->stop_at;
}

UNUSED static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

#endif
