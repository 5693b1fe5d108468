-- SPDX-License-Identifier: Apache-2.0
-- settled.sql - what the rows of a header bring on held-out batches: the pick, and the member that times of the first pass
-- choose, both judged by the second pass.
SELECT name AS batches, count(*) AS n, exp(avg(ln(tree))) AS "the first", exp(avg(ln(row))) AS "row settled",
	percentile95(tree, 0) AS "p95 of the first", percentile95(row, 0) AS p95, max(row) AS worst, sum(row > 1.2) AS "over 20 %",
	count(*) - count(row) AS "no time"
FROM held_out JOIN (SELECT scenario AS id, max(1, attune / fastest) AS tree, max(1, settled / fastest) AS row FROM plan_us)
	USING (id)
GROUP BY place ORDER BY place;
