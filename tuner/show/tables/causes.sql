-- SPDX-License-Identifier: Apache-2.0
-- causes.sql - the held-out batches on which the pick takes over 1.05 of the fastest, by what most of the loss comes from.
SELECT lost_by AS "lost by", count(*) AS n, sum(NOT has_prefill) AS decodes, sum(NOT has_decode) AS prefills,
	sum(has_prefill AND has_decode) AS mixed, exp(avg(ln(attune / fastest))) AS "the first", max(attune / fastest) AS worst,
	exp(avg(ln(max(1, settled / fastest)))) AS "row settled"
FROM scenario s JOIN plan_us p ON p.scenario = id JOIN run_by r ON r.scenario = id AND policy = 'tree'
WHERE side = 1 AND split <> 'peers' AND attune > 1.05 * fastest GROUP BY lost_by ORDER BY n DESC;
