-- kernels.sql - latency by tokens: the tuned choice, and every kernel at its best. Batches are binned by
-- powers of two of their tokens; a kernel has a point where half of a bin's batches have its time.
-- Panels: whole prompts (a chunk's work also depends on its context), mixed batches, decodes.
-- Block 3 k + panel: rows "tokens, us" of kernel k of `kernels`, from 1; k = 0: the tuned choice.
-- size: 1200 480
-- needs: batches of one model
CREATE TEMP TABLE batch AS
	SELECT id, 100 * decode_seqs / seqs AS share, tokens, us,
		CASE 100 * decode_seqs / seqs WHEN 0 THEN 0 WHEN 100 THEN 2 ELSE 1 END AS panel,
		CAST(round(log2(tokens)) AS INTEGER) AS bin
	FROM scenario JOIN plan ON scenario = id AND policy = 'tree'
	JOIN (SELECT scenario AS id, sum(n * length) AS tokens, max(query < length) AS has_chunk
		FROM sequence GROUP BY scenario) USING (id)
	WHERE is_model AND us IS NOT NULL AND NOT (100 * decode_seqs / seqs = 0 AND has_chunk);
CREATE TEMP TABLE bin AS
	SELECT panel, bin, count(*) AS n, exp(avg(ln(tokens))) AS tokens, exp(avg(ln(us))) AS us
	FROM batch GROUP BY panel, bin;
CREATE TEMP TABLE shown AS
	SELECT row_number() OVER (ORDER BY id) AS place, id, name FROM kernel
	WHERE id IN (SELECT kernel FROM kernel_time) ORDER BY id LIMIT 16;
CREATE TEMP TABLE dot AS
	SELECT panel, 0 AS place, tokens, us FROM bin
	UNION ALL
	SELECT b.panel, place, b.tokens, iif(2 * count(t.us) < b.n, NULL,
		exp(ln(b.us) + avg(ln(t.us / batch.us))))
	FROM bin b, shown JOIN batch USING (panel, bin)
	LEFT JOIN kernel_time t ON t.scenario = batch.id AND t.kernel = shown.id
	GROUP BY b.panel, b.bin, place;

SELECT 3 * place + panel AS block, tokens, us FROM dot ORDER BY block, tokens;

SELECT 1 AS "set",
	ifnull(min(iif(panel = 0, tokens, NULL)), 1) AS tokens0_lo,
	ifnull(max(iif(panel = 0, tokens, NULL)), 10) AS tokens0_hi,
	ifnull(min(iif(panel = 1, tokens, NULL)), 1) AS tokens1_lo,
	ifnull(max(iif(panel = 1, tokens, NULL)), 10) AS tokens1_hi,
	ifnull(min(iif(panel = 2, tokens, NULL)), 1) AS tokens2_lo,
	ifnull(max(iif(panel = 2, tokens, NULL)), 10) AS tokens2_hi,
	min(us) AS us_lo, max(us) AS us_hi
FROM dot;
SELECT 1 AS "set", group_concat(name, ' ') AS kernels FROM shown;
SELECT 1 AS "set", ifnull(min(share), 100) AS share_lo, ifnull(max(share), 0) AS share_hi
FROM batch WHERE panel = 1;
