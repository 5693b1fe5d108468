-- SPDX-License-Identifier: Apache-2.0
-- regret.sql - how far each policy is from the fastest measured plan. Block 5 (learned from: 0, held
-- out: 1) + policy: rows "percent slower, percent of the batches that are at most so much slower". A
-- plan without a time counts as slower than all, so the last share stays below 100.
-- size: 1100 480
-- needs: measured plans
CREATE TEMP TABLE judged(k, policy);
INSERT INTO judged VALUES (0, 'tree'), (1, 'best_fixed'), (2, 'vllm_triton'), (3, 'aiter_rule'),
	(4, 'default');
CREATE TEMP TABLE regret AS
	SELECT 5 * side + k AS block, side, k, 100 * (p.us / o.us - 1) AS slower
	FROM judged JOIN plan p USING (policy) JOIN scenario ON id = p.scenario
	JOIN plan o ON o.scenario = id AND o.policy = 'oracle'
	WHERE side >= 0 AND o.us IS NOT NULL;
CREATE TEMP TABLE step AS
	SELECT block, slower, 100.0 * row_number() OVER (PARTITION BY block ORDER BY slower) / n AS share,
		lead(slower) OVER (PARTITION BY block ORDER BY slower) AS next, timed, n
	FROM regret JOIN (SELECT block, count(*) AS n, count(slower) AS timed FROM regret GROUP BY block)
		USING (block)
	WHERE slower IS NOT NULL;

SELECT block, slower, share FROM (
	SELECT block, slower, share FROM step WHERE next IS NULL OR next > 0.1
	UNION ALL
	SELECT block, 1000, 100.0 * timed / n FROM step GROUP BY block)
ORDER BY block, slower, share;

SELECT 1 AS "set", ifnull(max(iif(side = 0, timed, 0)), 0) AS num_train,
	ifnull(max(iif(side = 1, timed, 0)), 0) AS num_heldout
FROM (SELECT side, count(slower) AS timed FROM regret GROUP BY block);
