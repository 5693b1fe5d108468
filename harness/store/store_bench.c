/* SPDX-License-Identifier: Apache-2.0 */
/* store_bench.c - writes and merges table `bench` (bench.sql): what attune bench timed. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include <math.h>

EMBED(store_bench_sql, "harness/store/bench.sql")

int store_has_bench(struct store *s)
{
	return (int)store_number(s, HAS_BENCH, "");
}

int store_bench(struct store *s, long long run, const struct scenario *sc, const char *policy,
		const char *plan, enum backend backend, const struct measurement *m)
{
	char sources[CODE_TEXT];
	const int timed = m->samples > 0 && m->median_us > 0 && m->median_us < 1e12;
	const double ci = timed && m->ci_us >= 0 ? round(m->ci_us * 1e3) : NAN;
	store_code(sources, backend, plan);
	if (!store_begin(s))
		return 0;
	const long long scenario = store_labelled_scenario(s, sc);
	const int ok = scenario > 0 && (store_execute(s, store_bench_sql) || store_explain(s)) &&
		       store_number(s, ADD_BENCH, "llssssddd", run, scenario, policy, plan, sources,
				    outcome_name(m->outcome), timed ? m->samples : NAN,
				    timed ? store_nanoseconds(m->median_us) : NAN, ci) > 0;
	return store_end(s, ok);
}

/* Existing rows are unchanged. */
int store_merge_bench(struct store *s)
{
	const long long theirs = store_number(s, SRC_HAS_BENCH, "");
	if (theirs <= 0)
		return theirs == 0;
	return (store_execute(s, store_bench_sql) || store_explain(s)) &&
	       store_number(s, MERGE_BENCH, "") == 0;
}

/* Runs before compact.sql. Drops the rows of runs on modified sources; of the others the newest row
 * of each device, protocol, scenario and policy stays. Lists the runs of the rows that stay in
 * temp.benched, so that compact.sql keeps these runs. */
int store_compact_bench(struct store *s)
{
	static const char newest[] =
	    "DELETE FROM bench WHERE run IN (SELECT id FROM run WHERE sources IN ('modified',"
	    " 'unknown'));"
	    "DELETE FROM bench WHERE id IN (SELECT id FROM (SELECT b.id, row_number() OVER ("
	    " PARTITION BY r.device, r.protocol, b.scenario, b.policy ORDER BY b.run DESC) AS age"
	    " FROM bench AS b JOIN run AS r ON r.id = b.run) WHERE age > 1);"
	    "INSERT INTO temp.benched SELECT DISTINCT run FROM bench;";
	const int has = store_has_bench(s);
	if (has < 0)
		return 0;
	return (store_execute(s, "CREATE TEMP TABLE benched (run INTEGER PRIMARY KEY)") &&
		(!has || store_execute(s, newest))) ||
	       store_explain(s);
}
