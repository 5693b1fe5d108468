-- ladder.sql - time of each step from the first kernel to the tuned choice. Panels: 3 row + share of decodes
-- (0, 1: half, 2: all); x is the length for one sequence (or one of each kind), the length for 16 sequences,
-- or the number of sequences of 1024 tokens. A rung has a line where it has two points or more.
-- Block 9 rung + panel: rows "x, us, ci".
-- size: 1200 980
-- needs: batches of the ladder: attune sweep --scenarios ladder_h200 --preset full
CREATE TEMP TABLE batch AS
	SELECT id, 3 * row + CAST(share AS INTEGER) / 50 AS panel, x FROM (
		SELECT id, share, 0 AS row, length AS x FROM climb WHERE seqs = iif(share = 50, 2, 1)
		UNION ALL SELECT id, share, 1, length FROM climb WHERE seqs = 16
		UNION ALL SELECT id, share, 2, seqs FROM climb WHERE length = 1024)
	WHERE share IS NOT NULL AND id IN (SELECT climb FROM climb_time WHERE rung IN (1, 4));
DELETE FROM batch WHERE NOT EXISTS (SELECT * FROM batch JOIN climb_time ON climb = id WHERE rung = 1);
CREATE TEMP TABLE dot AS
	SELECT rung, panel, x, id, us, ci FROM batch JOIN climb_time ON climb = id;
DELETE FROM dot WHERE (rung, panel) IN (
	SELECT rung, panel FROM dot GROUP BY rung, panel HAVING count(DISTINCT x) < 2);

SELECT 9 * rung + panel AS block, x, us, ifnull(ci, 0) FROM dot ORDER BY block, x, id;

-- For each panel, where its points lie.
CREATE TEMP TABLE box AS
	WITH RECURSIVE panel(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM panel WHERE n < 8)
	SELECT n, ifnull(min(x), 1) AS x_lo, ifnull(max(x), 10) AS x_hi FROM panel LEFT JOIN dot ON panel = n
	GROUP BY n ORDER BY n;
SELECT 1 AS "set", group_concat(x_lo, ' ') AS x_lo, group_concat(x_hi, ' ') AS x_hi FROM box;
SELECT 1 AS "set", ifnull(min(iif(panel < 3, us, NULL)), 1) AS us0_lo,
	ifnull(max(iif(panel < 3, us, NULL)), 10) AS us0_hi,
	ifnull(min(iif(panel / 3 = 1, us, NULL)), 1) AS us1_lo, ifnull(max(iif(panel / 3 = 1, us, NULL)), 10) AS us1_hi,
	ifnull(min(iif(panel > 5, us, NULL)), 1) AS us2_lo, ifnull(max(iif(panel > 5, us, NULL)), 10) AS us2_hi,
	count(ci) AS with_ci, count(*) AS num_points
FROM dot;
SELECT 1 AS "set", group_concat('"' || name || '"', ' ') AS rungs, sum(is_side) AS num_side
FROM (SELECT * FROM rung ORDER BY id);
SELECT 1 AS "set", group_concat(rung + 1, ' ') AS seen, 16 AS many, 1024 AS length
FROM (SELECT DISTINCT rung FROM dot ORDER BY rung);
