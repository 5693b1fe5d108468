-- SPDX-License-Identifier: Apache-2.0
-- peers.sql - times of other projects' kernels, which raced as plug-ins (harness/plugin) on the same batches in the
-- same rounds. Nothing is learned from them.

-- Rows of a database. peer: the kernel, which ran the part or both parts; NULL: it is ours, two kernels, or without
-- a right result. version: of the plug-in; NULL: of a plan.
-- is_e4m3: over an E4M3 cache it rounds q and weights to E4M3.
CREATE TABLE peer_row(scenario, phase, peer, version, is_e4m3, model, page_size, kv_dtype, batch, us REAL, ci REAL);
-- The rows of the attached database `raced`, in the order of store_each. The flags of a plug-in's build begin with its
-- version; a plan is a peer's if one kernel runs both parts.
CREATE TEMP VIEW raced_row AS
	WITH part AS (SELECT *, kernel = 'plan' AS is_plan, substr(variant, 10) || ' ' AS prefill,
			substr(variant, instr(variant, ' decode: ') + 9) || ' ' AS decode FROM raced.newest
		WHERE device_id = (SELECT id FROM raced.device JOIN attached USING (gpu, name, arch, units, machine) WHERE db = 'raced')),
	kernels AS (SELECT *, substr(prefill, 1, instr(prefill, ' ') - 1) AS first, substr(decode, 1, instr(decode, ' ') - 1) AS second FROM part),
	peered AS (SELECT *, iif(outcome <> 'ok', NULL, iif(is_plan, iif(first = second, first, NULL),
			iif(flags LIKE '-DPLUGIN=%', kernel, NULL))) AS peer FROM kernels)
	SELECT scenario_id, n.phase, peer, iif(is_plan OR peer IS NULL, NULL, substr(flags, 10, instr(flags || ' ', ' ') - 10)),
		instr(flags, '-DE4M3_MATH=1') > 0, n.model, n.page_size, n.kv_dtype, n.batch, median_us, ci_us
	FROM peered n JOIN raced.scenario s ON s.id = scenario_id JOIN raced.phase p ON p.name = n.phase
	ORDER BY s.model, s.page_size, s.batch, s.dtype, s.kv_dtype, s.layout, s."window", s.softcap, s.has_sinks, s.has_alibi, s.seed,
		s.head_size, s.num_query_heads, s.num_kv_heads, s.causal, s.scale, p.id, race_id, variant_id;
-- The kernels, in the order of the database.
CREATE VIEW peer AS
	SELECT row_number() OVER (ORDER BY min(rowid)) - 1 AS id, peer AS name, version, sum(is_e4m3) > 0 AS is_e4m3
	FROM peer_row WHERE version IS NOT NULL GROUP BY peer;
-- The fastest time of each on a batch: one launch, its prefills and its decodes in turn, or both at a time.
-- ci: half of the median's 95 % interval, in us.
CREATE VIEW peer_best AS
	WITH least AS (SELECT scenario, peer, phase, min(us) AS us, ci FROM peer_row
		WHERE peer IN (SELECT name FROM peer) GROUP BY scenario, peer, phase),
	parts AS (SELECT scenario, count(DISTINCT phase) AS n FROM peer_row WHERE phase IN ('prefill', 'decode')
		GROUP BY scenario),
	whole AS (SELECT scenario, peer, us, ci FROM least WHERE phase IN ('all', 'plan')
		UNION ALL SELECT scenario, peer, sum(us), iif(count(ci) = n, sqrt(sum(ci * ci)), NULL)
			FROM least JOIN parts USING (scenario) WHERE phase IN ('prefill', 'decode') GROUP BY scenario, peer HAVING count(*) = n)
	SELECT model, page_size, kv_dtype, batch, peer, min(us) AS us, ci
	FROM whole JOIN (SELECT scenario, min(model) AS model, page_size, kv_dtype, batch FROM peer_row
		WHERE peer IS NOT NULL GROUP BY scenario) USING (scenario)
	GROUP BY model, page_size, kv_dtype, batch, peer;
