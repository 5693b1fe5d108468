-- SPDX-License-Identifier: Apache-2.0
-- decode.sql - latency of uniform decode batches: a curve for each of up to 8 lengths, powers of two
-- before others. Block i: curve i, rows "sequences, tuned choice, one fixed choice,
-- ci of the tuned choice".
-- size: 900 560
-- needs: uniform decode batches of two lengths, each with two sizes or more
CREATE TEMP TABLE point AS
	SELECT q.length, s.seqs, s.id, min(s.id), t.us AS tuned, f.us AS fixed, t.ci
	FROM scenario s JOIN sequence q ON q.scenario = s.id
	JOIN plan t ON t.scenario = s.id AND t.policy = 'tree'
	LEFT JOIN plan f ON f.scenario = s.id AND f.policy = 'best_fixed'
	WHERE s.is_model AND q.query = 1 AND q.n = s.seqs AND t.us IS NOT NULL
	GROUP BY q.length, s.seqs;
CREATE TEMP TABLE curve AS
	SELECT *, row_number() OVER (ORDER BY length) - 1 AS block FROM (
		SELECT length, count(*) AS n, (length & (length - 1)) = 0 AS is_round,
			row_number() OVER (ORDER BY count(*) > 1 DESC,
				(length & (length - 1)) = 0 DESC, count(*) DESC, length) AS place
		FROM point GROUP BY length)
	WHERE place <= 8 AND n > 1 AND (place <= 3 OR is_round);
DELETE FROM curve WHERE (SELECT count(*) FROM curve) < 2; -- one alone shows nothing

SELECT block, seqs, tuned, fixed, ifnull(ci, 0) FROM curve JOIN point USING (length) ORDER BY block, seqs;

SELECT 1 AS "set", count(ci) AS with_ci, count(*) AS num_points, min(seqs) AS batch_lo, max(seqs) AS batch_hi,
	min(min(tuned, ifnull(fixed, tuned))) AS us_lo, max(max(tuned, ifnull(fixed, tuned))) AS us_hi
FROM curve JOIN point USING (length);
SELECT 1 AS "set", group_concat(name, ' ') AS lengths, group_concat(x, ' ') AS ends_x,
	group_concat(y, ' ') AS ends_y
FROM (SELECT iif(length % 1024, length, (length / 1024) || 'k') AS name, max(seqs) AS x,
		printf('%g', tuned) AS y
	FROM curve JOIN point USING (length) GROUP BY block ORDER BY block);
