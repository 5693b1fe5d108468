-- heldout.sql - the time of plans over that of the fastest measured plan, on batches that nothing was learned from,
-- by the second pass. Geometric means; low, high: 95 % interval of attune's over blocks of one model and batch size.
-- The best fixed choice has a mean over the batches on which it was timed, and attune one over the same. Another
-- baseline that has no time on some batch has none.
CREATE TEMP TABLE judged AS
	SELECT s.id, block, split, has_prefill, has_decode, max(1, t.us / o.us) AS tree, max(1, f.us / o.us) AS fixed,
		max(1, v.us / o.us) AS vllm, max(1, d.us / o.us) AS dflt
	FROM scenario s JOIN blocked USING (id) JOIN plan o ON o.scenario = s.id AND o.policy = 'oracle'
	LEFT JOIN plan t ON t.scenario = s.id AND t.policy = 'tree'
	LEFT JOIN plan f ON f.scenario = s.id AND f.policy = 'best_fixed'
	LEFT JOIN plan v ON v.scenario = s.id AND v.policy = 'vllm_triton'
	LEFT JOIN plan d ON d.scenario = s.id AND d.policy = 'default'
	WHERE o.us IS NOT NULL AND (side = 1 OR split = 'peers');
CREATE TEMP TABLE kind(place, name);
INSERT INTO kind VALUES (0, 'all held out'), (1, 'decodes'), (2, 'prefills'), (3, 'mixed'), (4, 'published');

SELECT name AS batches, count(*) AS n, exp(avg(ln(tree))) AS attune, blocked_low(tree, block) AS low,
	blocked_high(tree, block) AS high, percentile95(tree, 0) AS p95, max(tree) AS worst,
	100.0 * sum(tree <= 1.05) / count(*) AS "within 5 %", count(*) - count(tree) AS "no time",
	exp(avg(ln(fixed))) AS "best fixed", count(fixed) AS "timed on", exp(avg(ln(iif(fixed, tree, NULL)))) AS "attune there",
	iif(count(vllm) = count(*), exp(avg(ln(vllm))), NULL) AS "vLLM's Triton rule",
	iif(count(dflt) = count(*), exp(avg(ln(dflt))), NULL) AS defaults
FROM kind JOIN judged ON CASE place WHEN 0 THEN split <> 'peers' WHEN 1 THEN split <> 'peers' AND NOT has_prefill
	WHEN 2 THEN split <> 'peers' AND NOT has_decode WHEN 3 THEN split <> 'peers' AND has_prefill AND has_decode
	ELSE split = 'peers' END
GROUP BY place HAVING place IN (0, 4) OR count(*) < (SELECT sum(split <> 'peers') FROM judged) ORDER BY place;
