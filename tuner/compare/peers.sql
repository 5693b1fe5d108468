-- peers.sql - times of other projects' kernels, which raced as plug-ins (harness/plugin) on the same batches in the
-- same rounds. Nothing is learned from them.

-- Rows of a database. peer: the kernel, which ran the part or both parts; NULL: it is ours, two kernels, or without
-- a right result, and then only `scenario` and `phase` are filled in. version: of the plug-in; NULL: of a plan.
-- is_e4m3: over an E4M3 cache it rounds q and weights to E4M3.
CREATE TABLE peer_row(scenario, phase, peer, version, is_e4m3, model, page_size, kv_dtype, batch, us REAL, ci REAL);
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
