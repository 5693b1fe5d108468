/* SPDX-License-Identifier: Apache-2.0 */
/* damage_fixture.h - two small databases, one sealed and one not, and a child process that reads a
 * copy of them and reports what it found. */
#ifndef TESTS_STORE_DAMAGE_FIXTURE_H
#define TESTS_STORE_DAMAGE_FIXTURE_H

#include <stdio.h>
#include "store_fixture.h"
#include "harness/base/base.h"
#include "harness/commands/commands.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"

enum { PAGE = 512, PATIENCE_S = 20 };

/* The result of a child. */
enum found { SAME, REFUSED, OTHER_ROWS, SILENT, TALKATIVE, NUM_FOUND };
static const char *const found_names[NUM_FOUND] = { "read", "refused", "read as other rows",
						    "refused without a word",
						    "refused in many lines" };

/* ---- the database ----------------------------------------------------------------------- */
static void add_plan(struct store *s, long long run, const char *batch, double us)
{
	struct scenario sc = scenario_of(batch);
	const struct measurement m = measured(us);
	char prefill[MAX_PART_TEXT], decode[MAX_PART_TEXT], plan[2 * MAX_PART_TEXT + 32];
	const struct choice a = choice_at("qblock", 0), b = choice_at("segmented", 1);
	choice_text(prefill, sizeof prefill, &a);
	choice_text(decode, sizeof decode, &b);
	parts_text(plan, sizeof plan, prefill, decode, ATTUNE_STREAMS);
	assert_int_equal(store_plan_measurement(s, run, &sc, plan, &m), 1);
	scenario_done(&sc);
}

static void add_control(struct store *s, long long run, const char *batch, double us, double ratio)
{
	struct scenario sc = scenario_of(batch);
	assert_int_equal(store_control(s, run, &sc, "decode", "segmented X=1", us, ratio), 1);
	scenario_done(&sc);
}

static void add_failure(struct store *s, long long run, const char *batch)
{
	struct measurement m = { .outcome = OUTCOME_WRONG };
	snprintf(m.detail, sizeof m.detail, "sequence 1, token 3: 0.5, not 0.25");
	add(s, run, batch, "segmented", 3, m);
}

static void make(const char *name, int is_sealed)
{
	static const char *const batches[] = { "q1s1k", "8q1s2k", "2q1s4k", "3q1s512_q64" };
	static const struct ceiling ceiling = { "read", "path=async kib=64", "GB/s", 4000 };
	struct store *s = fresh(name);
	struct compacted gone;
	for (int turn = 0; turn < 2; turn++) { /* the second supersedes the first */
		const long long run = store_begin_run(s, &h200);
		for (size_t i = 0; i < COUNT(batches); i++) {
			for (int point = 0; point < 3; point++)
				add(s, run, batches[i], "segmented", point,
				    measured(10 + 3 * (double)i + point));
			add_failure(s, run, batches[i]);
			add_control(s, run, batches[i], 15 + 100 * (double)i,
				    1.01 + 0.01 * (double)i);
		}
		add_plan(s, run, batches[3], 40);
		assert_int_equal(store_ceilings(s, run, &ceiling, 1), 1);
	}
	assert_true(
	    store_query(s,
			"INSERT INTO bridge (kernel, old, new, arch, flags, how, gpu, batches,"
			" toolkit, commit_id) VALUES ('segmented', 'a', 'b', 'sm_90', '', 'code',"
			" '', 0, 'nvrtc', 'c')",
			NULL, NULL));
	assert_true(!is_sealed || store_compact(s, 0, &gone));
	store_close(s);
	s = store_open(in_folder(name), 0); /* small pages: few bits that mean nothing */
	assert_non_null(s);
	assert_true(store_query(s, "PRAGMA page_size = 512; VACUUM", NULL, NULL));
	store_close(s);
}

/* A path that stays. */
static const char *stays(char path[128], const char *name)
{
	snprintf(path, 128, "%s", in_folder(name));
	return path;
}

/* ---- a reader ----------------------------------------------------------------------------- */
static unsigned long long scrambled(unsigned long long x)
{
	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

static unsigned long long of_text(const char *text)
{
	unsigned long long x = 1469598103934665603ull;
	for (; *text; text++)
		x = scrambled(x ^ (unsigned char)*text);
	return x;
}

/* Adds up the rows, all but their ids. */
static int add_cell(void *arg, const struct store_cell *c)
{
	char text[2000];
	const attune_shape *h = &c->shape;
	snprintf(text, sizeof text,
		 "%s %s %s %s %s %s %s %s %s %s %s %d %d %d %d %d %d %d %d %d %llu %a %a %a "
		 "%a %a %a %a %a %a %a %a %c %s %s %d",
		 c->gpu, c->model, c->set, c->split, c->batch, c->outcome, c->protocol, c->dtype,
		 c->layout, c->phase, c->kernel, h->num_query_heads, h->num_kv_heads, h->head_size,
		 h->page_size, (int)h->dtype, (int)h->kv_dtype, h->causal, h->window,
		 h->has_sinks + 2 * h->has_alibi, c->seed, (double)h->scale, (double)h->softcap,
		 c->weight, c->median_us, c->min_us, c->ci_us, c->ratio, c->gbps, c->tflops,
		 c->joules, 0.0, c->pass, c->stage, c->stopped ? c->stopped : "-", c->samples);
	*(unsigned long long *)arg += of_text(text) ^ scrambled(of_text(c->choice) + c->today);
	return 1;
}

/* A call that fails prints its reason, in one to three lines. */
static int step(int (*call)(const char *, unsigned long long *), const char *path,
		unsigned long long *rows, enum found *found)
{
	quiet();
	const int ok = call(path, rows);
	const int lines = loud();
	if (ok)
		return 1;
	if (*found == SAME || *found == REFUSED)
		*found = lines < 1 ? SILENT : lines > 3 ? TALKATIVE : REFUSED;
	return 0;
}

static int check(const char *path, unsigned long long *rows)
{
	struct store *s = store_open(path, 1);
	const int ok = s && store_check(s);
	(void)rows;
	store_close(s);
	return ok;
}

static int read_rows(const char *path, unsigned long long *rows)
{
	struct store *s = store_open(path, 1);
	struct noise noise;
	struct run_info run;
	char hash[33];
	*rows = 0;
	const int ok = s && store_each(s, "h200", add_cell, rows) &&
		       store_noise(s, "h200", &noise) && store_device(s, "h200", &run) &&
		       store_hash(s, "h200", hash);
	for (int i = 0; ok && i < 3; i++)
		*rows += scrambled((unsigned)noise.pairs[i] + (unsigned)(1e6 * noise.floor[i]));
	*rows += ok ? of_text(run.device.name) + (unsigned)run.device.units + of_text(hash) : 0;
	store_close(s);
	return ok;
}

static int merge(const char *path, unsigned long long *rows)
{
	const char *into = in_folder("into.sqlite");
	long long added;
	unlink(into);
	unlink(in_folder("into.sqlite-wal"));
	struct store *s = store_open(into, 0);
	const int ok = s && store_merge(s, path, &added);
	(void)rows;
	store_close(s);
	return ok;
}

/* In a child: the exit code is an enum found. with_merge: the slow step, which syncs a disk. */
static void read_all(const char *path, unsigned long long expected, int with_merge)
{
	unsigned long long rows = 0;
	enum found found = SAME;
	alarm(PATIENCE_S);
	const int sound = step(check, path, &rows, &found);
	const int readable = step(read_rows, path, &rows, &found);
	if (with_merge)
		step(merge, path, &rows, &found);
	_exit(found <= REFUSED && sound && readable && expected && rows != expected ? OTHER_ROWS
										    : (int)found);
}

/* expected: the sum of the rows; 0: any. */
static enum found find(const char *path, unsigned long long expected, int with_merge)
{
	int status;
	const pid_t pid = fork();
	if (!pid)
		read_all(path, expected, with_merge);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("%s: %s", path, strsignal(WTERMSIG(status)));
	return (enum found)WEXITSTATUS(status);
}

/* ---- random damage -------------------------------------------------------------------------- */
static unsigned char *bytes_of(const char *name, size_t *n)
{
	FILE *f = fopen(in_folder(name), "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*n = (size_t)ftell(f);
	rewind(f);
	unsigned char *bytes = malloc(*n);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *n, f), *n);
	fclose(f);
	return bytes;
}

static void write_bytes(const char *path, const unsigned char *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static int make_all(void **state)
{
	if (make_folder(state))
		return -1;
	make("sealed.sqlite", 1);
	make("open.sqlite", 0);
	return 0;
}

#endif
