-- prefill.sql - prompts, tuned and untuned (rungs 4 and 1 of the ladder). Blocks 0 and 1: batches of whole
-- prompts and of chunks, rows "new tokens, untuned / tuned, its ci"; block 2: single prompts of the model, rows
-- "tokens, untuned, tuned, ci of both".
-- size: 1100 480
-- needs: prompts with a tuned and an untuned time
CREATE TEMP TABLE dot AS
	SELECT id, NOT is_prompts AS block, query_tokens AS tokens, tuned.ratio AS gain,
		sqrt(base.ci * base.ci + tuned.ci * tuned.ci) AS ci, base.ci AS untuned_ci, tuned.ci AS tuned_ci,
		base.us AS untuned, tuned.us AS tuned, iif(share IS NOT NULL AND seqs = 1, length, NULL) AS length
	FROM climb JOIN climb_time tuned ON tuned.climb = id AND tuned.rung = 4
	JOIN climb_time base ON base.climb = id AND base.rung = 1
	WHERE NOT has_decode AND tuned.ratio IS NOT NULL;

SELECT block, tokens, gain, ifnull(ci, 0) FROM dot ORDER BY block, id;
SELECT 2 AS block, length, untuned, tuned, ifnull(untuned_ci, 0), ifnull(tuned_ci, 0)
FROM dot WHERE length IS NOT NULL ORDER BY length;

SELECT 1 AS "set", count(ci) AS with_ci, count(*) AS num_points,
	ifnull(min(length), 1) AS length_lo, ifnull(max(length), 10) AS length_hi, min(tokens) AS tokens_lo, max(tokens) AS tokens_hi, min(gain) AS gain_lo,
	max(gain) AS gain_hi,
	ifnull(min(iif(length IS NULL, NULL, min(untuned, tuned))), 1) AS us_lo,
	ifnull(max(iif(length IS NULL, NULL, max(untuned, tuned))), 10) AS us_hi
FROM dot;
