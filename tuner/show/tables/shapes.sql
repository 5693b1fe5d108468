-- SPDX-License-Identifier: Apache-2.0
-- shapes.sql - the held-out batches by head size, query heads a KV head and page size: the pick, and the member of its
-- row that times of the first pass choose, both judged by the second pass.
WITH judged AS (SELECT s.*, max(1, attune / fastest) AS tree, max(1, settled / fastest) AS row
		FROM scenario s JOIN plan_us ON scenario = s.id WHERE side = 1 AND split <> 'peers'),
	property(place, name, value, tree, row) AS (
		SELECT 1, 'heads of', head_size, tree, row FROM judged
		UNION ALL SELECT 2, 'query heads a KV head', query_group, tree, row FROM judged
		UNION ALL SELECT 3, 'pages of', page_size, tree, row FROM judged)
SELECT name AS property, value, count(*) AS n, exp(avg(ln(tree))) AS "the first", exp(avg(ln(row))) AS "row settled",
	percentile95(tree, 0) AS "p95 of the first", max(tree) AS "worst first", max(row) AS "worst settled",
	count(*) - count(tree) AS "no time"
FROM property GROUP BY place, value HAVING count(*) >= 3 ORDER BY place, value;
