/* SPDX-License-Identifier: Apache-2.0 */
/* texts_base.c - a small valid database of made-up times, with a row in each table that has texts. */
#include "texts.h"
#include "harness/measure/measure.h"
#include "tests/support/synthetic.h"
#include <sqlite3.h>
#include <stdio.h>

static struct measurement time_of(double us)
{
	return (struct measurement){ .outcome = OUTCOME_OK,
				     .samples = 3,
				     .calls = 1,
				     .us = { (float)us, (float)us, (float)us },
				     .median_us = us,
				     .min_us = us,
				     .ci_us = 0.001,
				     .ratio = 1,
				     .sm_mhz_before = NAN,
				     .sm_mhz_after = NAN,
				     .power_w = NAN,
				     .stopped = "settled" };
}

static int put(struct store *s, long long run, const struct synthetic *v)
{
	const struct store_cell cell = synthetic_cell(v);
	const struct measurement m = time_of(v->us);
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, cell.kernel) };
	struct scenario sc = {
		.model = "llama3.1-8b@1", .set = "made up", .shape = llama, .weight = 1
	};
	char error[100];
	const char *where;
	enum phase phase = PHASE_ALL;
	while (phase < PHASE_DECODE && strcmp(phase_name((int)phase), v->phase))
		phase++;
	snprintf(sc.split, sizeof sc.split, "%s", v->split);
	sc.batch = batch_parse(v->batch, error, sizeof error);
	sc.batch_text = sc.batch ? batch_format(&sc.batch->view) : NULL;
	const int ok = sc.batch_text &&
		       config_parse(&c.config, c.kernel->space, cell.choice, &where) &&
		       store_measurement(s, run, &sc, phase, &c, "-DX=1", &m, 32, 0) &&
		       store_bench(s, run, &sc, "attune", "qblock", BACKEND_GPU, &m);
	scenario_drop(&sc);
	return ok;
}

static int put_resources(struct store *s)
{
	struct resources r = { .kernel = kernel_find(BACKEND_GPU, "qblock"),
			       .flags = "-DX=1",
			       .outcome = OUTCOME_COMPILE,
			       .why = "no such block" };
	for (int i = 0; i < NUM_TAKES; i++)
		r.takes[i] = NAN;
	return store_resources(s, &h200_run.device, "nvrtc 13.0", &r, 1);
}

static int put_settled(struct store *s)
{
	static char choice[2][MAX_PART_TEXT], code[20];
	struct store_settled row = {
		.protocol = "settled",
		.writer = "version=0.2.0 rules=0123456789abcdef driver=\"580\"",
		.op = "heads=32/8 head_size=128 page_size=16 dtype=bf16 kv_dtype=bf16 "
		      "layout=strided causal=1 window=0 scale=0 softcap=0 sinks=0 alibi=0 new_kv=0 "
		      "lse=0",
		.kind = "decode",
		.batch = "3q1s999",
		.first = choice[0],
		.winner = 1,
		.again_us = NAN,
		.rounds = 10,
		.settles = 1,
		.n = 2,
	};
	int added;
	snprintf(code, sizeof code, "%016llx", kernel_hash(kernel_find(BACKEND_GPU, "qblock")));
	for (int i = 0; i < row.n; i++) {
		snprintf(choice[i], sizeof choice[i], "qblock %s",
			 with("qblock", synthetic_choices[i][1]));
		row.v[i] = (struct store_settled_member){ "", choice[i], code, 12 - i };
	}
	return store_add_settled(s, "h200", &row, 1, &added) && added == 1;
}

/* A few batches of each kind. */
static int put_all(struct store *s)
{
	enum { ROOM = 4000 };
	struct synthetic *v = malloc(ROOM * sizeof *v);
	const int n = v ? synthetic_cells(v, ROOM) : 0;
	struct run_info info = h200_run;
	struct store_basis basis = { .header = "h200", .incumbent = "", .rules = "", .prior = "" };
	snprintf(info.card, sizeof info.card, "0123456789abcdef");
	snprintf(info.command, sizeof info.command, "attune sweep");
	const long long run = store_begin_run(s, &info);
	int ok = run > 0 && n > 0;
	for (int i = 0; ok && i < n; i++)
		if (atoi(v[i].batch) < 16 &&
		    (strstr(v[i].batch, "s1024") || strstr(v[i].batch, "q256")))
			ok = put(s, run, &v[i]);
	free(v);
	return ok && put_resources(s) && put_settled(s) && store_set_basis(s, &basis);
}

/* Rows that the store writes on a real device. The basis goes: induce would begin from it. */
static const char rest[] =
    "INSERT INTO ceiling (run, name, detail, value, unit) VALUES (1, 'read', 'path=async kib=64', "
    "3000, "
    "'GB/s');"
    "INSERT INTO bridge (kernel, old, new, arch, flags, how, gpu, batches, mean, p95, toolkit, "
    "commit_id)"
    " VALUES ('qblock', 'a', 'b', 'sm_90', '', 'race', 'h200', 1, 1, 0, 'nvrtc 13.0', 'abcdef');"
    "INSERT INTO bridge_race VALUES (1, 'llama3.1-8b@1', 'q1s1k', 2, 'qblock', 1000, 1);"
    "INSERT INTO failure SELECT race, variant, 'no such block' FROM measurement LIMIT 1;"
    "DELETE FROM basis; PRAGMA journal_mode = DELETE;";

int texts_make_base(const char *path)
{
	struct store *s = store_open(path, 0);
	const int made = s && put_all(s);
	sqlite3 *db = NULL;
	store_close(s);
	const int ok = made && sqlite3_open(path, &db) == SQLITE_OK &&
		       sqlite3_exec(db, rest, NULL, NULL, NULL) == SQLITE_OK;
	sqlite3_close(db);
	return ok;
}
