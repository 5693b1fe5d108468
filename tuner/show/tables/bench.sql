-- SPDX-License-Identifier: Apache-2.0
-- bench.sql - what attune bench timed: the time of each policy, and of kernels of others, over that of the library's
-- own pick in the same rounds. A policy that was timed in several runs counts by the newest. Geometric means with 95 %
-- intervals over blocks of one model and batch size.
-- database: bench
CREATE TEMP TABLE pair AS
	SELECT b.policy, b.us / a.us AS ratio, block, b.max_query > 8 AS has_prefill, max(b.run)
	FROM benched b JOIN benched a ON a.run = b.run AND a.scenario = b.scenario AND a.policy = 'attune'
	JOIN blocked ON blocked.scenario = b.scenario
	WHERE b.policy <> 'attune'
	GROUP BY b.scenario, b.policy;
SELECT policy, count(*) AS n, exp(avg(ln(ratio))) AS "time / attune's", blocked_low(ratio, block) AS low,
	blocked_high(ratio, block) AS high, min(ratio) AS least, max(ratio) AS most, sum(ratio > 1) AS "attune ahead on",
	exp(avg(iif(has_prefill, NULL, ln(ratio)))) AS "decodes alone", exp(avg(iif(has_prefill, ln(ratio), NULL))) AS "with prefills"
FROM pair GROUP BY policy ORDER BY "time / attune's";
