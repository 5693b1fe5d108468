-- SPDX-License-Identifier: Apache-2.0
-- peers.sql - the time of the fastest other kernel on each batch over that of our fastest plan, in one race on the same
-- cold pages. Last row: attune's pick over our fastest plan, where that race timed the pick. Geometric means; low, high:
-- 95 % intervals over blocks of one model and batch size.
-- database: peers
CREATE TEMP TABLE raced AS
	SELECT split, has_prefill, has_decode, block, rival.us / fastest AS other, attune / fastest AS pick
	FROM scenario JOIN blocked USING (id) JOIN plan_us ON plan_us.scenario = id JOIN rival ON rival.scenario = id;
CREATE TEMP TABLE row AS
	SELECT 0 AS place, 'the fastest other on each batch' AS name, block, other AS ratio FROM raced
	UNION ALL SELECT 1, '- published batches', block, other FROM raced WHERE split = 'peers'
	UNION ALL SELECT 2, '- decodes', block, other FROM raced WHERE NOT has_prefill
	UNION ALL SELECT 3, '- prefills', block, other FROM raced WHERE NOT has_decode
	UNION ALL SELECT 4, '- mixed', block, other FROM raced WHERE has_prefill AND has_decode
	UNION ALL SELECT 5, 'attune''s pick, where that race has it', block, pick FROM raced WHERE pick IS NOT NULL;

SELECT name AS kernel, count(*) AS n, exp(avg(ln(ratio))) AS "time / ours", blocked_low(ratio, block) AS low,
	blocked_high(ratio, block) AS high, iif(place < 5, sum(ratio > 1), NULL) AS "ours ahead on"
FROM row GROUP BY place HAVING place IN (0, 5) OR n < (SELECT count(*) FROM raced) ORDER BY place;
