-- SPDX-License-Identifier: Apache-2.0
-- peers_batches.sql - one call of our fastest plan and of the fastest other kernel, in one race, in us.
-- database: peers
SELECT batch, fastest AS ours, rival.us AS "fastest other", rival.name AS kernel, rival.us / fastest AS "other / ours"
FROM scenario JOIN plan_us p ON p.scenario = id JOIN rival ON rival.scenario = id
WHERE is_model AND batch IN ('q1s1k', '32q1s1k', '32q1s16k', '256q1s16k', '32q4s8k', 'q512', 'q8k', 'q512s8k_64q1s8k', '64q1s8k_q512s8k',
	'q16k_250q1s16k', '250q1s16k_q16k') ORDER BY has_prefill + has_decode, has_prefill, ideal_bytes, ideal_flops;
