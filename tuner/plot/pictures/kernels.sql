-- SPDX-License-Identifier: Apache-2.0
-- kernels.sql - latency by tokens: the tuned choice, and every kernel at its best. Batches are binned by
-- powers of two of their tokens; a kernel has a point where half of a bin's batches have its time.
-- Panels: whole prompts (a chunk's work also depends on its context), mixed batches, decodes.
-- A line joins the points of a kernel that has two or more in the panel. Those of kernels that stop early, or
-- have few points, are grey.
-- Block 3 k + panel: rows "tokens, us, ci" of kernel k of `kernels`, from 1; k = 0: the tuned choice.
-- size: 1200 520
-- needs: batches of one model
CREATE TEMP TABLE batch AS
	SELECT id, 100 * decode_seqs / seqs AS share, tokens, us, ci,
		CASE 100 * decode_seqs / seqs WHEN 0 THEN 0 WHEN 100 THEN 2 ELSE 1 END AS panel,
		CAST(round(log2(tokens)) AS INTEGER) AS bin
	FROM scenario JOIN plan ON scenario = id AND policy = 'tree'
	JOIN (SELECT scenario AS id, sum(n * length) AS tokens, max(query < length) AS has_chunk
		FROM sequence GROUP BY scenario) USING (id)
	WHERE is_model AND us IS NOT NULL AND NOT (100 * decode_seqs / seqs = 0 AND has_chunk);
CREATE TEMP TABLE bin AS
	SELECT panel, bin, count(*) AS n, exp(avg(ln(tokens))) AS tokens, exp(avg(ln(us))) AS us,
		iif(count(ci) = count(*), sqrt(sum(ci * ci)) / count(*), NULL) AS ci
	FROM batch GROUP BY panel, bin;
CREATE TEMP TABLE mean AS
	SELECT b.panel, t.kernel, b.tokens, exp(ln(b.us) + avg(ln(t.us / batch.us))) AS us,
		iif(count(t.ci) = count(*), sqrt(sum(t.ci * t.ci)) / count(*), NULL) AS ci
	FROM bin b JOIN batch USING (panel, bin) JOIN kernel_time t ON t.scenario = batch.id
	GROUP BY b.panel, b.bin, t.kernel HAVING 2 * count(*) >= b.n;
DELETE FROM mean WHERE (panel, kernel) IN (
	SELECT panel, kernel FROM mean GROUP BY panel, kernel HAVING count(*) < 2);
CREATE TEMP TABLE shown AS
	SELECT row_number() OVER (ORDER BY is_rare, id) AS place, id, name, is_rare FROM kernel
	JOIN (SELECT kernel AS id, min(2 * n < bins) AS is_rare
		FROM (SELECT panel, kernel, count(*) AS n FROM mean GROUP BY panel, kernel)
		JOIN (SELECT panel, count(*) AS bins FROM bin GROUP BY panel) USING (panel)
		GROUP BY kernel) USING (id)
	ORDER BY is_rare, id LIMIT 16;
CREATE TEMP TABLE dot AS
	SELECT panel, 0 AS place, tokens, us, ci FROM bin
	UNION ALL SELECT panel, place, tokens, us, ci FROM mean JOIN shown ON shown.id = kernel;

SELECT 3 * place + panel AS block, tokens, us, ifnull(ci, 0) FROM dot ORDER BY block, tokens;

SELECT 1 AS "set",
	ifnull(min(iif(panel = 0, tokens, NULL)), 1) AS tokens0_lo,
	ifnull(max(iif(panel = 0, tokens, NULL)), 10) AS tokens0_hi,
	ifnull(min(iif(panel = 1, tokens, NULL)), 1) AS tokens1_lo,
	ifnull(max(iif(panel = 1, tokens, NULL)), 10) AS tokens1_hi,
	ifnull(min(iif(panel = 2, tokens, NULL)), 1) AS tokens2_lo,
	ifnull(max(iif(panel = 2, tokens, NULL)), 10) AS tokens2_hi,
	min(us) AS us_lo, max(us) AS us_hi, count(ci) AS with_ci, count(*) AS num_points
FROM dot;
SELECT 1 AS "set", ifnull(group_concat(name, ' '), '') AS kernels,
	ifnull(sum(NOT is_rare), 0) AS num_often FROM (SELECT * FROM shown ORDER BY place);
SELECT 1 AS "set", ifnull(min(share), 100) AS share_lo, ifnull(max(share), 0) AS share_hi
FROM batch WHERE panel = 1;
