/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - reports a sweep's cost and quality: device seconds by stage, what racing missed by the
 * audit, and the noise by the A/A controls. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "harness/measure/measure.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the audit --------------------------------------------------------------------- */

/* By the audit's own times: how much slower racing's pick is than the best choice that it had
 * tried (selection), and how much slower that one is than the best of all (exploration). */
static const char audit_sql[] =
    "WITH cell AS (SELECT c.scenario, c.phase, m.variant, m.median AS median_us,"
    "  t.name = 'audit' AS late,"
    "  row_number() OVER (PARTITION BY c.scenario, c.phase, m.variant, t.name = 'audit'"
    "  ORDER BY c.run DESC, c.id DESC) AS age"
    "  FROM race AS c JOIN run AS r ON r.id = c.run JOIN run AS mine ON mine.id = %lld"
    "  AND mine.device = r.device AND mine.protocol = r.protocol"
    "  JOIN stage AS t ON t.id = c.stage AND t.pass = 'A'"
    "  CROSS JOIN measurement AS m ON m.race = c.id"
    "  JOIN ran AS n ON n.id = m.ran"
    "  AND n.ending IN (SELECT id FROM ending WHERE outcome = 'ok')"
    "  WHERE c.phase <> 3 AND c.scenario IN (SELECT x.scenario FROM race AS x"
    "  JOIN stage AS y ON y.id = x.stage WHERE y.name = 'audit')),"
    " early AS (SELECT * FROM cell WHERE age = 1 AND NOT late),"
    " late AS (SELECT * FROM cell WHERE age = 1 AND late),"
    " picked AS (SELECT scenario, phase, variant, min(median_us) FROM early GROUP BY 1, 2),"
    " tried AS (SELECT l.scenario, l.phase, min(l.median_us) AS us FROM late l JOIN early e"
    "  USING (scenario, phase, variant) GROUP BY 1, 2),"
    " best AS (SELECT scenario, phase, min(median_us) AS us FROM late GROUP BY 1, 2)"
    " SELECT l.median_us / t.us, t.us / b.us FROM picked p"
    " JOIN late l USING (scenario, phase, variant) JOIN tried t USING (scenario, phase)"
    " JOIN best b USING (scenario, phase)";

/* By the audit's own times: [0], selection: racing's pick against the best choice that racing had
 * tried; [1], exploration: that one against the best of all. */
struct audit {
	int n, near[2]; /* problems; those within 2 % */
	double logs[2], worst[2];
};

static int add_audit(void *arg, int columns, const char *const *names, const char *const *cells)
{
	struct audit *a = arg;
	(void)names;
	for (int i = 0; i < columns && i < 2; i++) {
		const double ratio = cells[i] ? strtod(cells[i], NULL) : 1;
		a->logs[i] += log(ratio);
		a->near[i] += ratio <= 1.02;
		a->worst[i] = fmax(a->worst[i], ratio);
	}
	a->n++;
	return 1;
}

/* Over all audits of the device and protocol of that run. */
static struct audit audit_of(struct store *store, long long run)
{
	struct audit a = { .worst = { 1, 1 } };
	char sql[sizeof audit_sql + 32];
	snprintf(sql, sizeof sql, audit_sql, run);
	store_query(store, sql, add_audit, &a);
	return a;
}

/* 1 without audits */
static double audit_geomean(const struct audit *a, int which)
{
	return a->n ? exp(a->logs[which] / a->n) : 1;
}

/* ---- the report ---------------------------------------------------------------------- */

static struct table *stages_table(const struct sweep_session *session)
{
	static const char *const columns[] = { "stage", "races",    "cells",   "failed",
					       "noisy", "controls", "device_s" };
	struct table *t = table_new(session->o->format, columns, COUNT(columns));
	for (int s = STAGE_RACE; s < NUM_STAGES; s++) {
		const struct tally *y = &session->tally[s];
		if (!y->races)
			continue;
		table_text(t, stage_names[s]);
		table_number(t, (double)y->races, 0);
		table_number(t, (double)y->cells, 0);
		table_number(t, (double)y->failed, 0);
		table_number(t, (double)y->noisy, 0);
		table_number(t, (double)y->controls, 0);
		table_number(t, y->device_s, 1);
		table_end_row(t);
	}
	return t;
}

void noise_json(struct json_out *o, const struct noise *noise)
{
	out_list(o, "noise");
	for (size_t i = 0; i < COUNT(noise->pairs); i++) {
		out_object(o, NULL);
		out_integer(o, "pairs", noise->pairs[i]);
		out_number(o, "floor", noise->floor[i], 4);
		out_end(o);
	}
	out_end(o);
}

static void audit_json(struct json_out *o, const struct audit *a)
{
	static const char *const names[] = { "selection", "exploration" };
	out_object(o, "audit");
	out_integer(o, "n", a->n);
	for (int i = 0; i < 2; i++) {
		out_object(o, names[i]);
		out_number(o, "geomean", audit_geomean(a, i), 5);
		out_number(o, "worst", a->worst[i], 4);
		out_number(o, "within2", a->n ? (double)a->near[i] / a->n : 1, 3);
		out_end(o);
	}
	out_end(o);
}

static void print_json(const struct sweep_session *session, double spent, const struct audit *a,
		       const struct noise *noise)
{
	struct json_out *o = out_new();
	out_object(o, NULL);
	if (session->survey)
		out_integer(o, "scenarios", session->tally[STAGE_COMPLETE].scenarios);
	out_number(o, "device_s", spent, 1);
	table_json(stages_table(session), o, "stages");
	audit_json(o, a);
	noise_json(o, noise);
	out_end(o);
	out_print(o, 2, stdout);
}

static void complain_survey(const struct sweep_session *session)
{
	const struct tally *t = &session->tally[STAGE_COMPLETE];
	const double n = t->scenarios > 0 ? (double)t->scenarios : 1;
	complain("%lld scenarios surveyed: %.1f rows and %.3f s of device time each; the portfolio "
		 "comes from %d races",
		 t->scenarios, (double)(t->cells + t->failed) / n, t->device_s / n,
		 session->survey->races);
}

/* Whether the worst noise floor is one of a quiet machine. Failed controls are not stored, but
 * older programs stored them. */
static int is_believed(const struct sweep_session *session, const struct noise *noise)
{
	double most = 0;
	for (size_t i = 0; i < COUNT(noise->floor); i++)
		most = fmax(most, noise->floor[i]);
	if (device_is_emulated(&session->hello.info) || budget_is_held())
		return 1;
	if (most > noise_most_control)
		complain("%s: the same choice twice differs by %.0f %%: its times are from a busy "
			 "machine; start a new database",
			 session->db, 100 * most);
	return most <= noise_most_control;
}

int sweep_report(const struct sweep_session *session)
{
	const struct audit a = session->store ? audit_of(session->store, session->run)
					      : (struct audit){ .worst = { 1, 1 } };
	struct noise noise = { 0 };
	double spent = 0;
	for (int s = 0; s < NUM_STAGES; s++)
		spent += session->tally[s].device_s;
	if (!store_noise(session->store, session->hello.info.gpu, &noise))
		return 1;
	if (session->o->format == FORMAT_JSON) {
		print_json(session, spent, &a, &noise);
		return is_believed(session, &noise);
	}
	table_print(stages_table(session), session->o->format == FORMAT_TABLE ? stderr : stdout);
	if (session->survey)
		complain_survey(session);
	else
		complain("%.1f s of device time in this run", spent);
	if (a.n)
		complain("audit of %d scenario parts: racing's pick takes %.4f x the best it tried "
			 "(worst %.3f), and that takes %.4f x the best of all (worst %.3f)",
			 a.n, audit_geomean(&a, 0), a.worst[0], audit_geomean(&a, 1), a.worst[1]);
	complain("the same choice twice: within %.2f %% below 20 us (%d pairs), %.2f %% below "
		 "200 us (%d), %.2f %% above (%d)",
		 100 * noise.floor[0], noise.pairs[0], 100 * noise.floor[1], noise.pairs[1],
		 100 * noise.floor[2], noise.pairs[2]);
	return is_believed(session, &noise);
}
