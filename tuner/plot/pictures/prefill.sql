-- prefill.sql - prompts, tuned and untuned (rungs 4 and 1 of the ladder). Blocks 0 and 1: batches of whole
-- prompts and of chunks, rows "new tokens, untuned / tuned"; block 2: single prompts of the model, rows
-- "tokens, untuned, tuned".
-- size: 1100 480
-- needs: prompts with a tuned and an untuned time
CREATE TEMP TABLE dot AS
	SELECT id, NOT is_prompts AS block, query_tokens AS tokens, tuned.ratio AS gain,
		base.us AS untuned, tuned.us AS tuned, iif(share IS NOT NULL AND seqs = 1, length, NULL) AS length
	FROM climb JOIN climb_time tuned ON tuned.climb = id AND tuned.rung = 4
	JOIN climb_time base ON base.climb = id AND base.rung = 1
	WHERE NOT has_decode AND tuned.ratio IS NOT NULL;

SELECT block, tokens, gain FROM dot ORDER BY block, id;
SELECT 2 AS block, length, untuned, tuned FROM dot WHERE length IS NOT NULL ORDER BY length;

SELECT 1 AS "set", min(tokens) AS tokens_lo, max(tokens) AS tokens_hi, min(gain) AS gain_lo,
	max(gain) AS gain_hi,
	ifnull(min(iif(length IS NULL, NULL, min(untuned, tuned))), 1) AS us_lo,
	ifnull(max(iif(length IS NULL, NULL, max(untuned, tuned))), 10) AS us_hi
FROM dot;
