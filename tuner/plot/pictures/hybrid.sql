-- hybrid.sql - one chunk beside many decodes: gains over the best serial plan. Blocks 0 to 4, a way each:
-- rows "gain, percent of the batches with at least that gain". Block 5: rows "percent that the chunk takes,
-- gain of the best way (1 if that is serial), gain of the tuned choice, its ci".
-- size: 1100 520
-- needs: overlapped plans for one prompt chunk with many decodes
CREATE TEMP TABLE gain AS
	SELECT scenario, way, serial / us AS gain, sqrt(serial_ci * serial_ci + ci * ci) AS ci
	FROM hybrid JOIN way_time USING (scenario, pass);
CREATE TEMP TABLE dot AS
	SELECT scenario, prefill_share AS share,
		max(1, ifnull(max(iif(way < 4, gain, NULL)), 1)) AS best,
		max(iif(way = 4, gain, NULL)) AS tuned, max(iif(way = 4, ci, NULL)) AS ci
	FROM hybrid JOIN gain USING (scenario) WHERE prefill_share IS NOT NULL
	GROUP BY scenario;

SELECT block, gain, share FROM (
	SELECT way AS block, gain, 100.0 * (count(*) OVER w + 1 - row_number() OVER (PARTITION BY way
		ORDER BY gain, scenario)) / count(*) OVER w AS share, 0 AS is_end
	FROM gain WINDOW w AS (PARTITION BY way)
	UNION ALL
	SELECT way, max(gain), 0, 1 FROM gain GROUP BY way)
ORDER BY block, gain, is_end, share DESC;
SELECT 5 AS block, share, best, tuned, ifnull(ci, 0) FROM dot ORDER BY scenario;

SELECT 1 AS "set", group_concat('"' || name || '"', ' ') AS ways,
	' ' || group_concat(printf('%.3f', ifnull(mean, 0)), ' ') AS means,
	' ' || group_concat(printf('%.3f', ifnull(most, 0)), ' ') AS mosts
FROM (SELECT name, mean, most FROM way LEFT JOIN (
	SELECT way AS id, exp(avg(ln(gain))) AS mean, max(gain) AS most FROM gain GROUP BY way) USING (id)
	ORDER BY id);
SELECT 1 AS "set", min(gain) AS gain_lo, max(gain) AS gain_hi,
	(SELECT count(*) FROM hybrid) AS num_hybrid FROM gain;
SELECT 1 AS "set", count(ci) AS with_ci, count(tuned) AS num_points, min(min(best, ifnull(tuned, best))) AS found_lo,
	max(max(best, ifnull(tuned, best))) AS found_hi FROM dot;
