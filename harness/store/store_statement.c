/* SPDX-License-Identifier: Apache-2.0 */
/* store_statement.c - the SQL of all statements, and running them: errors, transactions, and the
 * values of a row's columns. */
#include "handle.h"
#include "store.h"
#include "harness/base/base.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define IDENTITY                                                                    \
	"model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads, " \
	"num_kv_heads, head_size, causal, \"window\", scale, softcap, has_sinks, has_alibi"
#define OF(x)                                                                                   \
	x ".model, " x ".batch, " x ".page_size, " x ".dtype, " x ".kv_dtype, " x ".layout, " x \
	  ".seed, " x ".num_query_heads, " x ".num_kv_heads, " x ".head_size, " x ".causal, " x \
	  ".\"window\", " x ".scale, " x ".softcap, " x ".has_sinks, " x ".has_alibi"
/* The races of a device, protocol, scenario, phase and pass. */
#define RACES_LIKE                                                                             \
	"race AS c JOIN run AS r ON r.id = c.run JOIN stage AS t ON t.id = c.stage"            \
	" WHERE c.scenario = ?1 AND c.phase = ?2 AND r.device = ?4 AND ?5 IN ('', r.protocol)" \
	" AND t.pass = (SELECT pass FROM stage WHERE name = ?6)"

#define CELL_COLUMNS                                                             \
	"c.id, m.variant, c.phase, t.name, t.pass, c.run, r.protocol, n.build, " \
	"n.ending, m.median, m.below, m.ci, m.ratio"
#define CELL_TABLES                                                                            \
	" FROM race AS c CROSS JOIN run AS r ON r.id = c.run AND r.device = ?2"                \
	" LEFT JOIN stage AS t ON t.id = c.stage CROSS JOIN measurement AS m ON m.race = c.id" \
	" LEFT JOIN ran AS n ON n.id = m.ran"
#define IS_NEWEST                                                                \
	"NOT EXISTS (SELECT 1 FROM superseded AS s WHERE s.race = m.race AND s." \
	"variant = m.variant)"
#define POWER "iif(g.race IS NULL, c.power_mw, g.power_mw)"
#define CELL_ORDER " WHERE c.scenario = ?1 AND " IS_NEWEST " ORDER BY c.phase, c.id, m.variant"

/* For each right ending, that of the same race where the time is not believed. */
#define DOUBTED                                                                     \
	"SELECT a.id AS ok, b.id AS noisy FROM ending AS a JOIN ending AS b ON"     \
	" (b.stopped, b.samples) = (a.stopped, a.samples) AND a.outcome = 'ok' AND" \
	" b.outcome = 'noisy'"

static const char *const queries[NUM_QUERIES] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",

	[FIND_DEVICE] =
	    "SELECT id FROM device WHERE (gpu, name, arch, units, memory_gib, machine) ="
	    " (?1, ?2, ?3, ?4, ?5, ?6)",
	[ADD_DEVICE] =
	    "INSERT INTO device (gpu, name, arch, units, memory_gib, machine, lanes,"
	    " smem_per_block, smem_per_unit, l2_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
	    " ?10) RETURNING id",
	[ADD_RUN] =
	    "INSERT INTO run (uid, device, card, driver, memory_bytes, clock_mhz,"
	    " memory_clock_mhz, power_limit_w, built, compiled, commit_id, sources, toolkit, "
	    "protocol,"
	    " command, dram_gbps, fma_tflops, started) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
	    " ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')) "
	    "RETURNING id",

	[SET_COMMIT] = "UPDATE run SET (commit_id, sources) = (?3, ?4) WHERE (built, compiled) ="
		       " (?1, ?2) AND sources IN ('unknown', 'modified')"
		       " AND (commit_id, sources) <> (?3, ?4)",

	[FIND_SCENARIO] =
	    "SELECT id FROM scenario WHERE (" IDENTITY ") ="
	    " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
	    " AND (kv_tokens, query_tokens, max_seq, num_seqs) = (?24, ?22, ?25, ?20)",
	[ADD_SCENARIO] =
	    "INSERT INTO scenario (" IDENTITY ", set_name, split, weight, num_seqs,"
	    " steps, query_tokens, max_query, kv_tokens, max_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
	    " ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,"
	    " ?24, ?25) RETURNING id",
	[LABEL_SCENARIO] = "UPDATE scenario SET (set_name, split, weight, steps) ="
			   " (?2, ?3, ?4, ?5) WHERE id = ?1"
			   " AND (set_name, split, weight, steps) <> (?2, ?3, ?4, ?5)",
	[ADD_WORK] = "INSERT OR REPLACE INTO work VALUES (?1, ?2, ?3, ?4)",

	[FIND_FAMILY] = "SELECT id FROM family WHERE digest = ?3",
	[ADD_FAMILY] = "INSERT INTO family (kernel, text, digest) VALUES (?1, ?2, ?3) RETURNING id",
	[FIND_CHOICE] = "SELECT id FROM choice WHERE (family, segments) = (?1, ?2)",
	[ADD_CHOICE] = "INSERT INTO choice (family, segments) VALUES (?1, ?2) RETURNING id",
	[FIND_VARIANT] = "SELECT id FROM variant WHERE choice = ?1 AND how = ?3"
			 " AND ifnull(decode, 0) = ?2",
	[ADD_VARIANT] = "INSERT INTO variant (choice, decode, how) VALUES (?1, nullif(?2, 0), ?3)"
			" RETURNING id",
	[FIND_CODE] = "SELECT id FROM code WHERE sources = ?1",
	[ADD_CODE] = "INSERT INTO code (sources) VALUES (?1) RETURNING id",
	[FIND_BUILD] =
	    "SELECT id FROM build WHERE (arch, flags, code, registers, spill_bytes) ="
	    " ((SELECT d.arch FROM run r JOIN device d ON d.id = r.device WHERE r.id = ?1),"
	    " ?2, ?3, ?4, ?5)",
	[ADD_BUILD] =
	    "INSERT INTO build (arch, flags, code, registers, spill_bytes) VALUES"
	    " ((SELECT d.arch FROM run r JOIN device d ON d.id = r.device WHERE r.id = ?1),"
	    " ?2, ?3, ?4, ?5) RETURNING id",
	[FIND_ENDING] = "SELECT id FROM ending WHERE (outcome, stopped, samples) = (?1, ?2, ?3)",
	[ADD_ENDING] = "INSERT INTO ending (outcome, stopped, samples) VALUES (?1, ?2, ?3)"
		       " RETURNING id",

	[FIND_RAN] = "SELECT id FROM ran WHERE (build, ending) = (?1, ?2)",
	[ADD_RAN] = "INSERT INTO ran (build, ending) VALUES (?1, ?2) RETURNING id",

	[FIND_RACE] = "SELECT id FROM race WHERE (scenario, phase, run, stage) = (?1, ?2, ?3, ?4)",
	[ADD_RACE] =
	    "INSERT INTO race (scenario, phase, run, stage, mhz_before, mhz_after, power_mw)"
	    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING id",
	[RACE_READING] =
	    "SELECT (mhz_before IS ?2) AND (mhz_after IS ?3) AND (power_mw IS ?4) FROM race"
	    " WHERE id = ?1",
	[SUPERSEDE] = "INSERT OR IGNORE INTO superseded SELECT race, variant FROM measurement"
		      " WHERE variant = ?3 AND race IN (SELECT c.id FROM " RACES_LIKE ")",
	[ADD_MEASUREMENT] = "INSERT OR REPLACE INTO measurement VALUES"
			    " (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[ADD_READING] = "INSERT INTO reading VALUES (?1, ?2, ?3, ?4, ?5)",
	[ADD_FAILURE] = "INSERT INTO failure VALUES (?1, ?2, ?3)",
	[ADD_SAMPLE] = "INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5)",
	[LAST_RACE] = "SELECT id FROM race WHERE run = ?1 ORDER BY id DESC LIMIT 1",
	[ADD_NOISY_ENDINGS] = "INSERT OR IGNORE INTO ending (outcome, stopped, samples) SELECT"
			      " 'noisy', stopped, samples FROM ending WHERE outcome = 'ok'",
	[ADD_NOISY_RANS] = "INSERT OR IGNORE INTO ran (build, ending) SELECT DISTINCT"
			   " build, noisy FROM race AS c JOIN measurement AS m ON m.race = c.id"
			   " JOIN ran AS n ON n.id = m.ran JOIN (" DOUBTED ") ON ok = n.ending"
			   " WHERE c.run = ?1 AND c.id > ?2",
	[DISBELIEVE] = "UPDATE measurement AS m SET ran = w.id FROM ran AS n JOIN (" DOUBTED ") ON"
		       " ok = n.ending JOIN ran AS w ON (w.build, w.ending) = (n.build, noisy)"
		       " WHERE n.id = m.ran AND m.race IN (SELECT id FROM race WHERE run = ?1"
		       " AND id > ?2)",
	[SUPERSEDE_OLDER] = "INSERT INTO superseded SELECT race, variant FROM aged"
			    " WHERE newest AND age > 1",
	[UNSUPERSEDE] = "DELETE FROM superseded WHERE (race, variant) IN (SELECT race, variant"
			" FROM aged WHERE NOT newest AND age = 1)",
	[ADD_STALE] = "INSERT INTO temp.stale VALUES (?1, ?2)",
	[ADD_NAMED] = "INSERT OR IGNORE INTO temp.named VALUES (?1)",
	[ADD_SPECIFIC] = "INSERT OR IGNORE INTO temp.specific VALUES (?1)",
	[ADD_CONTROL] = "INSERT OR REPLACE INTO control VALUES (?1, ?2, ?3, ?4)",

	[ADD_CEILING] = "INSERT INTO ceiling (run, name, detail, value, unit) VALUES"
			" (?1, ?2, ?3, ?4, ?5) RETURNING id",
	[CEILINGS] = "SELECT name, detail, value, unit FROM ceiling WHERE run ="
		     " (SELECT c.run FROM ceiling c JOIN run r ON r.id = c.run JOIN device d ON"
		     " d.id = r.device WHERE d.gpu = ?1 ORDER BY c.run DESC LIMIT 1) ORDER BY id",

	[ADD_RESOURCES] = "INSERT OR REPLACE INTO resources VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
			  " ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) RETURNING 1",

	[RUN_IS_CPU] = "SELECT 1 + (d.gpu = 'cpu') FROM run r JOIN device d ON d.id = r.device"
		       " WHERE r.id = ?1",
	[NEWEST] =
	    "SELECT r.device FROM run AS r JOIN device AS d ON d.id = r.device WHERE d.gpu = ?1"
	    " AND EXISTS (SELECT 1 FROM race AS c JOIN measurement AS m ON m.race = c.id WHERE "
	    "c.run ="
	    " r.id) ORDER BY r.id DESC LIMIT 1",
	[MEASURED] =
	    "SELECT d.id, d.name, d.arch, d.units, d.machine FROM device AS d WHERE d.gpu = ?1 AND"
	    " EXISTS (SELECT 1 FROM run AS r JOIN race AS c ON c.run = r.id JOIN measurement AS m"
	    " ON m.race = c.id WHERE r.device = d.id) ORDER BY d.id",
	[HAS] = "SELECT b.arch, b.flags, k.sources FROM measurement AS m JOIN ran AS n ON"
		" n.id = m.ran JOIN build AS b ON b.id = n.build JOIN code AS k ON k.id = b.code"
		" WHERE m.variant = ?3 AND " IS_NEWEST
		" AND n.ending NOT IN (SELECT id FROM ending WHERE outcome = 'noisy')"
		" AND m.race IN (SELECT c.id FROM " RACES_LIKE ")",

	[ALL_SCENARIOS] =
	    "SELECT s.id, " IDENTITY ", set_name, split, weight,"
	    " (SELECT group_concat(w.phase || ' ' || w.bytes || ' ' || w.flops, ' ') FROM work AS w"
	    " WHERE w.scenario = s.id), steps FROM scenario AS s ORDER BY model, page_size, batch, "
	    "dtype,"
	    " kv_dtype, layout, \"window\", softcap, has_sinks, has_alibi, seed, head_size,"
	    " num_query_heads, num_kv_heads, causal, scale",
	[ALL_VARIANTS] = "SELECT v.id, h.kernel, h.text, v.how, o.kernel, o.text FROM variant AS v"
			 " JOIN choices AS h ON h.id = v.choice LEFT JOIN choices AS o ON o.id = "
			 "v.decode ORDER BY v.id",
	[ALL_BUILDS] = "SELECT b.id, b.arch, b.flags, k.sources FROM build AS b"
		       " JOIN code AS k ON k.id = b.code ORDER BY b.id",
	[ALL_ENDINGS] = "SELECT id, outcome, stopped, samples FROM ending ORDER BY id",
	[ALL_BRIDGES] = "SELECT new FROM bridge WHERE arch = ?1"
			" AND kernel = ?2 AND old = ?3 AND flags IN ('', ?4)",
	/* A plan's rows are grouped by variant, which has the parts. */
	[BUILD_USES] =
	    "SELECT n.build, c.scenario, iif(b.flags = '', m.variant, 0), count(*)"
	    " FROM race AS c JOIN run AS r ON r.id = c.run AND r.device = ?1"
	    " CROSS JOIN measurement AS m ON m.race = c.id"
	    " JOIN ran AS n ON n.id = m.ran JOIN build AS b ON b.id = n.build WHERE " IS_NEWEST
	    " GROUP BY 1, 2, 3 ORDER BY 1",
	[DROP_BRIDGE] = "DELETE FROM bridge WHERE (kernel, old, new, arch, flags, how, gpu) ="
			" (?1, ?2, ?3, ?4, ?5, 'code', '')",
	[ADD_BRIDGE] =
	    "INSERT INTO bridge (kernel, old, new, arch, flags, how, gpu, batches, toolkit, "
	    "commit_id) VALUES (?1, ?2, ?3, ?4, ?5, 'code', '', 0, ?6, ?7) RETURNING id",
	[ADD_BENCH] = "INSERT OR REPLACE INTO bench (run, scenario, policy, plan, sources, outcome,"
		      " samples, median, ci) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
		      " RETURNING id",
	[HAS_BENCH] = "SELECT count(*) FROM main.sqlite_schema WHERE name = 'bench'",
	[SRC_HAS_BENCH] = "SELECT count(*) FROM src.sqlite_schema WHERE name = 'bench'",
	[MERGE_BENCH] =
	    "INSERT OR IGNORE INTO main.bench (run, scenario, policy, plan, sources, outcome,"
	    " samples, median, ci) SELECT r.id, s.id, b.policy, b.plan, b.sources, b.outcome,"
	    " b.samples, b.median, b.ci FROM src.bench AS b JOIN src.run AS q ON q.id = b.run"
	    " JOIN main.run AS r ON r.uid = q.uid JOIN src.scenario AS o ON o.id = b.scenario"
	    " JOIN main.scenario AS s ON (" OF("s") ") = (" OF("o") ") ORDER BY b.id",
	[BENCH_OF] = "SELECT r.uid, s.model, s.batch, s.page_size, s.kv_dtype, s.layout, s.seed,"
		     " b.policy, b.plan, b.sources, b.outcome, b.samples, b.median, b.ci"
		     " FROM bench AS b JOIN run AS r ON r.id = b.run AND r.device = ?1"
		     " JOIN scenario AS s ON s.id = b.scenario",
	[HAS_SETTLED] = "SELECT count(*) FROM main.sqlite_schema WHERE name = 'settled'",
	[SRC_HAS_SETTLED] = "SELECT count(*) FROM src.sqlite_schema WHERE name = 'settled'",
	[ADD_SETTLED_NAME] = "INSERT OR IGNORE INTO settled_name VALUES (?1, ?2, ?3)",
	[ADD_SETTLED] = "INSERT OR IGNORE INTO settled VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
			" ?10, ?11, ?12) RETURNING 1",
	[ADD_SETTLED_MEMBER] = "INSERT INTO settled_member VALUES (?1, ?2, ?3, ?4, ?5)",
	[MERGE_SETTLED_NAMES] =
	    "INSERT OR IGNORE INTO main.settled_name SELECT * FROM src.settled_name",
	[MERGE_SETTLED] =
	    "INSERT OR IGNORE INTO main.settled SELECT t.id, d.id, t.protocol, t.writer, t.op,"
	    " t.kind, t.batch, t.first, t.winner, t.again, t.rounds, t.settles"
	    " FROM src.settled AS t JOIN src.device AS o ON o.id = t.device JOIN main.device AS d"
	    " ON (d.gpu, d.name, d.arch, d.units, d.memory_gib, d.machine)"
	    "  = (o.gpu, o.name, o.arch, o.units, o.memory_gib, o.machine)",
	[MERGE_SETTLED_MEMBERS] =
	    "INSERT OR IGNORE INTO main.settled_member SELECT m.* FROM src.settled_member AS m"
	    " JOIN main.settled AS t ON t.id = m.settled",
	[SETTLED_OF] = "SELECT t.id, t.protocol, w.text, o.text, t.kind, t.batch, f.text,"
		       " t.winner, t.again, t.rounds, t.settles FROM settled AS t"
		       " LEFT JOIN settled_name AS w ON w.id = t.writer"
		       " LEFT JOIN settled_name AS o ON o.id = t.op"
		       " LEFT JOIN settled_name AS f ON f.id = t.first WHERE t.device = ?1"
		       " ORDER BY t.kind, o.text, t.batch, t.id",
	[SETTLED_HASHED] =
	    "SELECT t.id, t.protocol, w.text, o.text, t.kind, t.batch, f.text, t.winner, t.again,"
	    " t.rounds, t.settles, m.nr, m.way, c.text, c.code, m.median FROM settled AS t"
	    " LEFT JOIN settled_name AS w ON w.id = t.writer"
	    " LEFT JOIN settled_name AS o ON o.id = t.op"
	    " LEFT JOIN settled_name AS f ON f.id = t.first"
	    " JOIN settled_member AS m ON m.settled = t.id"
	    " LEFT JOIN settled_name AS c ON c.id = m.choice WHERE t.device = ?1",
	[SETTLED_MEMBERS_OF] =
	    "SELECT m.nr, m.way, c.text, c.code, m.median FROM settled_member AS m"
	    " LEFT JOIN settled_name AS c ON c.id = m.choice WHERE m.settled = ?1 ORDER BY m.nr",
	[SET_BASIS] = "INSERT OR REPLACE INTO basis VALUES (?1, ?2, ?3, ?4, ?5) RETURNING 1",
	[GET_BASIS] = "SELECT header, incumbent, rules, prior FROM basis WHERE device = ?1"
		      " AND header = ?2",
	[HAS_BASIS] = "SELECT count(*) FROM main.sqlite_schema WHERE name = 'basis'",
	[SRC_HAS_BASIS] = "SELECT count(*) FROM src.sqlite_schema WHERE name = 'basis'",
	[BASES_OF] = "SELECT header, incumbent, rules, prior FROM basis WHERE device = ?1",
	[BRIDGES_OF] =
	    "SELECT kernel, old, new, arch, flags, how, gpu, batches, mean, p95 FROM bridge"
	    " WHERE arch = ?1",
	[CONTROLS] =
	    "SELECT s.model, s.batch, c.phase, h.kernel, h.text, v.how, o.kernel, o.text,"
	    " r.protocol, a.median, a.ratio FROM control AS a JOIN race AS c ON c.id = a.race"
	    " JOIN run AS r ON r.id = c.run AND r.device = ?1 LEFT JOIN scenario AS s ON"
	    " s.id = c.scenario LEFT JOIN variant AS v ON v.id = a.variant LEFT JOIN choices AS h"
	    " ON h.id = v.choice LEFT JOIN choices AS o ON o.id = v.decode",
	[DEVICE_LIMITS] =
	    "SELECT gpu, name, arch, units, memory_gib, lanes, smem_per_block, smem_per_unit,"
	    " l2_bytes FROM device WHERE id = ?1",
	[RUNS_OF] =
	    "SELECT uid, card, driver, memory_bytes, clock_mhz, memory_clock_mhz, power_limit_w,"
	    " built, compiled, commit_id, sources, toolkit, protocol, command, dram_gbps, "
	    "fma_tflops,"
	    " started,"
	    " (SELECT machine FROM device WHERE id = ?1) FROM run WHERE device = ?1",
	[CEILINGS_OF] =
	    "SELECT r.uid, c.name, c.detail, c.value, c.unit FROM ceiling AS c JOIN run AS r"
	    " ON r.id = c.run WHERE r.device = ?1",
	[UNSEAL] = "DELETE FROM seal",
	[SEAL] = "INSERT OR REPLACE INTO seal VALUES (?1, ?2) RETURNING 1",
	[SEALS] = "SELECT d.id, s.hash FROM device AS d LEFT JOIN seal AS s ON s.device = d.id"
		  " ORDER BY d.id",
	[COUNT_SEALS] = "SELECT count(*) FROM seal",
	/* CROSS JOIN fixes the order. LEFT JOIN keeps a row with a missing stage, which is damage. */
	[CELLS] = "SELECT " CELL_COLUMNS ", c.power_mw, 1" CELL_TABLES CELL_ORDER,
	[CELLS_READ] =
	    "SELECT " CELL_COLUMNS ", " POWER ", count(*) OVER (PARTITION BY m.race, " POWER
	    ") > 1" CELL_TABLES
	    " LEFT JOIN reading AS g ON g.race = m.race AND g.variant = m.variant" CELL_ORDER,
	[HAS_READINGS] = "SELECT EXISTS (SELECT 1 FROM reading)",
	[HAS_RACE] =
	    "SELECT EXISTS (SELECT 1 FROM race c JOIN run r ON r.id = c.run AND r.device = ?2"
	    " WHERE c.scenario = ?1)",
	[NOISE] = "SELECT band, pairs, floor FROM noise WHERE device_id = ?1 AND protocol ="
		  " (SELECT r.protocol FROM run r WHERE r.device = ?1 AND EXISTS"
		  " (SELECT 1 FROM race c JOIN measurement m ON m.race = c.id WHERE c.run = r.id)"
		  " ORDER BY r.id DESC)",
	[COUNT_ROWS] = "SELECT count(*) FROM measurement",
	[DEVICE_NAMES] = "SELECT gpu, arch FROM device WHERE id = ?1",
	[DEVICE] =
	    "SELECT d.name, d.gpu, d.arch, r.driver, r.commit_id, r.toolkit, r.protocol,"
	    " r.command, r.sources, d.machine, d.units, d.lanes, d.smem_per_block, d.smem_per_unit,"
	    " d.l2_bytes, r.memory_bytes, r.clock_mhz, r.memory_clock_mhz, r.power_limit_w,"
	    /* ceilings: the newest of any run of the device */
	    " (SELECT dram_gbps FROM run WHERE device = d.id AND dram_gbps > 0 ORDER BY id DESC"
	    " LIMIT 1), (SELECT fma_tflops FROM run WHERE device = d.id AND fma_tflops > 0"
	    " ORDER BY id DESC LIMIT 1)"
	    " FROM run r JOIN device d ON d.id = r.device WHERE d.id = ?1 AND EXISTS"
	    " (SELECT 1 FROM race c JOIN measurement m ON m.race = c.id WHERE c.run = r.id)"
	    " ORDER BY r.id DESC",
};

/* ---- running them ----------------------------------------------------------- */

/* SQLite quotes SQL in its messages, line breaks included. */
static const char *one_line(char text[160], const char *from)
{
	snprintf(text, 160, "%s", from);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return text;
}

/* SQLite often has no errno for these. */
static void explain_io(const struct store *s, const char *text)
{
	const int error = sqlite3_system_errno(s->db);
	struct rlimit most;
	const int limited = !getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur != RLIM_INFINITY;
	complain("%s: cannot be read or written: %s%s; what was committed is kept", s->path,
		 error ? strerror(error) : text,
		 limited ? ", perhaps since files are limited (ulimit -f)" : "");
}

/* SQLite tries to open read-only what it cannot create, and keeps the errno of that. */
static void explain_open(const struct store *s, const char *text)
{
	int error = sqlite3_system_errno(s->db);
	const char *slash = strrchr(s->path, '/');
	char *folder = slash ? strndup(s->path, (size_t)(slash + 1 - s->path)) : strdup(".");
	if (error == ENOENT && folder && access(folder, W_OK))
		error = errno;
	complain("%s: cannot be opened: %s", s->path, error ? strerror(error) : text);
	free(folder);
}

int store_explain(struct store *s)
{
	char line[160];
	const char *text = one_line(line, s->db ? sqlite3_errmsg(s->db) : "out of memory");
	switch (s->db ? sqlite3_errcode(s->db) & 0xff : SQLITE_NOMEM) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		complain("%s: locked by another process for %d s; try again when it is done",
			 s->path, PATIENCE_MS / 1000);
		break;
	case SQLITE_FULL:
		complain("%s: the disk is full; what was committed is kept", s->path);
		break;
	case SQLITE_READONLY:
		complain(s->readonly
			     ? "%s: its last writer was killed, and reading it needs a folder "
			       "that can be written; copy it to one, and the -wal file with it"
			     : "%s: cannot be written: the file or its folder is read-only",
			 s->path);
		break;
	case SQLITE_NOTADB: complain("%s: not an SQLite database", s->path); break;
	case SQLITE_CORRUPT: store_damaged(s, "%s", text); break;
	case SQLITE_CANTOPEN: explain_open(s, text); break;
	case SQLITE_IOERR: explain_io(s, text); break;
	case SQLITE_CONSTRAINT: complain("%s: row refused: %s", s->path, text); break;
	default: complain("%s: %s", s->path, text);
	}
	return 0;
}

static int bind(sqlite3_stmt *st, const char *kinds, va_list ap)
{
	const int places = sqlite3_bind_parameter_count(st);
	int rc = SQLITE_OK;
	for (int i = 1; i <= places && kinds[i - 1] && rc == SQLITE_OK; i++) {
		const char *bytes;
		int n;
		switch (kinds[i - 1]) {
		case 's':
			rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1,
					       SQLITE_TRANSIENT);
			break;
		case 'i': rc = sqlite3_bind_int(st, i, va_arg(ap, int)); break;
		case 'l': rc = sqlite3_bind_int64(st, i, va_arg(ap, long long)); break;
		case 'd': rc = sqlite3_bind_double(st, i, va_arg(ap, double)); break;
		case 'b':
			bytes = va_arg(ap, const char *);
			n = va_arg(ap, int);
			rc = sqlite3_bind_blob(st, i, n ? bytes : NULL, n, SQLITE_TRANSIENT);
			break;
		default: rc = SQLITE_MISUSE;
		}
	}
	return rc == SQLITE_OK;
}

static sqlite3_stmt *prepared(struct store *s, enum query q, const char *kinds, va_list ap)
{
	if (!s->st[q] && sqlite3_prepare_v3(s->db, queries[q], -1, SQLITE_PREPARE_PERSISTENT,
					    &s->st[q], NULL) != SQLITE_OK)
		return NULL;
	sqlite3_reset(s->st[q]);
	return bind(s->st[q], kinds, ap) ? s->st[q] : NULL;
}

sqlite3_stmt *store_rows(struct store *s, enum query q, const char *kinds, ...)
{
	va_list ap;
	va_start(ap, kinds);
	sqlite3_stmt *st = prepared(s, q, kinds, ap);
	va_end(ap);
	if (!st)
		store_explain(s);
	return st;
}

int store_next(struct store *s, sqlite3_stmt *st, int *ok)
{
	*ok = *ok && !s->is_damaged;
	const int rc = *ok ? sqlite3_step(st) : SQLITE_DONE;
	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		*ok = store_explain(s);
	sqlite3_reset(st);
	return 0;
}

static long long number_v(struct store *s, enum query q, const char *kinds, va_list ap)
{
	sqlite3_stmt *st = prepared(s, q, kinds, ap);
	const int rc = st ? sqlite3_step(st) : SQLITE_ERROR;
	long long n = rc == SQLITE_ROW ? store_int(s, st, 0, 0, INT64_MAX) : 0;
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		store_explain(s);
	if ((rc != SQLITE_ROW && rc != SQLITE_DONE) || s->is_damaged)
		n = -1;
	sqlite3_reset(st);
	return n;
}

long long store_number(struct store *s, enum query q, const char *kinds, ...)
{
	va_list ap;
	va_start(ap, kinds);
	const long long n = number_v(s, q, kinds, ap);
	va_end(ap);
	return n;
}

long long store_intern(struct store *s, enum query find, enum query add, const char *kinds, ...)
{
	va_list ap, again;
	va_start(ap, kinds);
	va_copy(again, ap);
	long long id = number_v(s, find, kinds, ap);
	if (!id)
		id = number_v(s, add, kinds, again);
	va_end(again);
	va_end(ap);
	return id;
}

int store_execute(struct store *s, const char *sql)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* ---- transactions ------------------------------------------------------------- */

/* Called at the first write only, so that reading does not change the file. SQLite does not wait
 * for others in this PRAGMA. */
int store_enter_wal(struct store *s)
{
	for (int waited = 0; !s->wal; waited += 20) {
		if (store_execute(s, "PRAGMA journal_mode = WAL"))
			s->wal = 1;
		else if ((sqlite3_errcode(s->db) & 0xff) != SQLITE_BUSY || waited > PATIENCE_MS)
			return store_explain(s);
		else
			usleep(20000);
	}
	return 1;
}

int store_begin(struct store *s)
{
	const int ok = store_enter_wal(s) && store_number(s, BEGIN, "") == 0;
	s->changes = sqlite3_total_changes64(s->db);
	return ok;
}

int store_end(struct store *s, int ok)
{
	if (ok && sqlite3_total_changes64(s->db) != s->changes)
		ok = store_number(s, UNSEAL, "") == 0;
	if (ok && store_number(s, COMMIT, "") == 0)
		return 1;
	if (!sqlite3_get_autocommit(s->db))
		store_number(s, ROLLBACK, "");
	return 0;
}

/* ---- values ------------------------------------------------------------------------ */
/* Reads the columns of a row. A value that attune does not write is damage, which is reported once
 * per handle. */

int store_damaged(struct store *s, const char *format, ...)
{
	char what[320];
	va_list ap;
	va_start(ap, format);
	vsnprintf(what, sizeof what, format, ap);
	va_end(ap);
	if (!s->is_damaged)
		complain("%s: damaged: %s; take the file from the last commit or a copy", s->path,
			 what);
	s->is_damaged = 1;
	return 0;
}

int store_is_damaged(const struct store *s)
{
	return s->is_damaged || s->is_unclear;
}

/* ---- columns ---------------------------------------------------------------------------- */
static void refuse(struct store *s, sqlite3_stmt *st, int column)
{
	store_damaged(s, "column '%.40s' of a row holds a value that attune does not write",
		      sqlite3_column_name(st, column));
}

const char *store_text(struct store *s, sqlite3_stmt *st, int column)
{
	const char *text = sqlite3_column_type(st, column) == SQLITE_TEXT
			       ? (const char *)sqlite3_column_text(st, column)
			       : NULL;
	if (text && strlen(text) == (size_t)sqlite3_column_bytes(st, column))
		return text;
	refuse(s, st, column);
	return "";
}

void store_copy(struct store *s, sqlite3_stmt *st, int column, char *to, size_t size)
{
	if ((size_t)snprintf(to, size, "%s", store_text(s, st, column)) >= size)
		refuse(s, st, column);
}

long long store_int(struct store *s, sqlite3_stmt *st, int column, long long lo, long long hi)
{
	const long long v = sqlite3_column_int64(st, column);
	if (sqlite3_column_type(st, column) == SQLITE_INTEGER && v >= lo && v <= hi)
		return v;
	refuse(s, st, column);
	return lo;
}

double store_real(struct store *s, sqlite3_stmt *st, int column, double lo, double hi)
{
	const int type = sqlite3_column_type(st, column);
	const double v = sqlite3_column_double(st, column);
	if ((type == SQLITE_INTEGER || type == SQLITE_FLOAT) && v >= lo && v <= hi)
		return v;
	refuse(s, st, column);
	return NAN;
}

double store_maybe(struct store *s, sqlite3_stmt *st, int column, double lo, double hi)
{
	return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN
							      : store_real(s, st, column, lo, hi);
}
