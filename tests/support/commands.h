/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - runs subcommands on synthetic databases in a temporary folder, for tests of their
 * output and exit code. Include after cmocka.h and synthetic.h. */
#ifndef TESTS_SUPPORT_COMMANDS_H
#define TESTS_SUPPORT_COMMANDS_H

#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>
#include "folder.h"
#include "heard.h"

static char printed[1 << 18];

/* Runs a subcommand; its output is in `printed`. Returns its exit code. */
static int run_command(int (*command)(int, char **), const char *line)
{
	char words[600], *argv[20] = { "attune" }, *save = NULL;
	int argc = 1;
	snprintf(words, sizeof words, "%s", line);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	fflush(stdout);
	const int kept = dup(1), fd = open(in_folder("stdout"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(kept >= 0 && fd >= 0 && dup2(fd, 1) == 1);
	const int code = command(argc, argv);
	fflush(stdout);
	assert_true(dup2(kept, 1) == 1);
	const ssize_t n = pread(fd, printed, sizeof printed - 1, 0);
	printed[n > 0 ? n : 0] = '\0';
	close(fd);
	close(kept);
	return code;
}

static const char *words(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *words(const char *format, ...)
{
	static char text[600];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	return text;
}

static enum outcome outcome_of_put = OUTCOME_OK;

/* us <= 0: it failed. */
static void put_choice(struct store *st, long long run, const struct synthetic *v,
		       const char *kernel, const char *choice)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, kernel) };
	struct measurement m = { .outcome = outcome_of_put,
				 .samples = 1,
				 .calls = 1,
				 .us = { (float)v->us },
				 .median_us = v->us,
				 .min_us = v->us,
				 .ci_us = 0.001,
				 .ratio = v->us, /* to a reference of 1 us */
				 .gbps = 1,
				 .tflops = 1,
				 .sm_mhz_before = NAN,
				 .sm_mhz_after = NAN,
				 .power_w = NAN,
				 .joules = NAN };
	struct scenario sc = {
		.model = "llama3.1-8b@1", .set = "synthetic", .shape = llama, .weight = 1
	};
	char error[100];
	const char *where;
	snprintf(sc.split, sizeof sc.split, "%s", v->split);
	sc.batch = batch_parse(v->batch, error, sizeof error);
	sc.batch_text = sc.batch ? batch_format(&sc.batch->view) : NULL; /* as sweeps do */
	assert_true(sc.batch_text && config_parse(&c.config, c.kernel->space, choice, &where));
	const enum phase phase = !strcmp(v->phase, "all")      ? PHASE_ALL
				 : !strcmp(v->phase, "decode") ? PHASE_DECODE
							       : PHASE_PREFILL;
	if (v->us <= 0) {
		m.outcome = OUTCOME_RESOURCES;
		m.samples = m.calls = 0;
		m.median_us = m.min_us = m.ci_us = m.ratio = NAN;
		m.gbps = m.tflops = NAN;
	}
	assert_true(store_measurement(st, run, &sc, phase, &c, "-DX=1", &m, 32, 0));
	free(sc.batch_text);
	batch_free(sc.batch);
}

static void put(struct store *st, long long run, const struct synthetic *v)
{
	const struct store_cell cell = synthetic_cell(v);
	put_choice(st, run, v, cell.kernel, cell.choice);
}

/* The synthetic cells, of two lengths or of all, in another split and the first choice's
 * times scaled where asked. */
static void make_database_of(const char *path, const char *split, double scale, int all)
{
	enum { ROOM = 4000 };
	static struct synthetic v[ROOM];
	const int n = synthetic_cells(v, ROOM);
	struct store *st = store_open(path, 0);
	assert_non_null(st);
	const long long run = store_begin_run(st, &h200_run);
	assert_true(run > 0);
	for (int i = 0; i < n; i++) {
		if (!all && !strstr(v[i].batch, "s4096") && !strstr(v[i].batch, "s1024"))
			continue;
		if (split)
			v[i].split = split;
		v[i].us *= v[i].choice ? 1 : scale;
		put(st, run, &v[i]);
	}
	store_close(st);
}

static inline void make_database(const char *path, const char *split, double scale)
{
	make_database_of(path, split, scale, 0);
}

static inline json_t *member(json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);
	if (!v)
		fail_msg("no \"%s\"", key);
	return v;
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

#endif
