-- SPDX-License-Identifier: Apache-2.0
-- prefill.sql - prompts by the tuned choice and by the kernels' defaults. Blocks 0 and 1: batches of whole prompts
-- and of chunks, rows "new tokens, defaults / tuned, its ci"; block 2: single prompts of the model, rows "tokens,
-- defaults, tuned, ci of both".
-- size: 1100 480
-- needs: prompts with times of the tuned choice and of the defaults
CREATE TEMP TABLE dot AS
	SELECT id, has_chunk AS block, tokens, base.us / tuned.us AS gain,
		sqrt(base.ci * base.ci + tuned.ci * tuned.ci) AS ci, base.ci AS untuned_ci, tuned.ci AS tuned_ci,
		base.us AS untuned, tuned.us AS tuned,
		iif(is_model AND seqs = 1 AND NOT has_chunk, tokens, NULL) AS length
	FROM scenario JOIN plan tuned ON tuned.scenario = id AND tuned.policy = 'tree'
	JOIN plan base ON base.scenario = id AND base.policy = 'default'
	JOIN (SELECT scenario AS id, sum(n * query) AS tokens, max(query < length) AS has_chunk
		FROM sequence GROUP BY scenario) USING (id)
	WHERE NOT has_decode AND tuned.us IS NOT NULL AND base.us IS NOT NULL;

SELECT block, tokens, gain, ifnull(ci, 0) FROM dot ORDER BY block, id;
SELECT 2 AS block, length, untuned, tuned, ifnull(untuned_ci, 0), ifnull(tuned_ci, 0)
FROM dot WHERE length IS NOT NULL ORDER BY length;

SELECT 1 AS "set", count(ci) AS with_ci, count(*) AS num_points,
	ifnull(min(length), 1) AS length_lo, ifnull(max(length), 10) AS length_hi, min(tokens) AS tokens_lo, max(tokens) AS tokens_hi, min(gain) AS gain_lo,
	max(gain) AS gain_hi,
	ifnull(min(iif(length IS NULL, NULL, min(untuned, tuned))), 1) AS us_lo,
	ifnull(max(iif(length IS NULL, NULL, max(untuned, tuned))), 10) AS us_hi
FROM dot;
