-- SPDX-License-Identifier: Apache-2.0
-- mixed.sql - ways to run the published mixed batches, in us: each way's fastest plan in one race, and the fastest
-- kernel of others there.
-- database: peers
SELECT s.batch, max(iif(way = 1, w.us, NULL)) AS "one fused launch", serial AS "one after the other",
	max(iif(way = 2, w.us, NULL)) AS "two streams", max(iif(way = 3, w.us, NULL)) AS "SMs split in two",
	rival.us AS "fastest of others", rival.name AS kernel
FROM scenario s JOIN mixed m ON m.scenario = s.id AND pass = last_pass LEFT JOIN way_time w USING (scenario, pass)
LEFT JOIN rival USING (scenario)
WHERE is_model AND split = 'peers' AND s.batch IN ('q512s4k_32q1s4k', 'q512s8k_64q1s8k', 'q512s16k_128q1s16k', 'q1ks12k_80q1s12k',
	'q12k_220q1s12k', 'q16k_250q1s16k') GROUP BY s.id ORDER BY ideal_flops;
