-- ladder.sql - time of each step from the first kernel to the tuned choice. Block 3 row + share of
-- decodes (0, 1: half, 2: all): rows "x, us of each of the 9 rungs". x is the length for one sequence (or
-- one of each kind), the length for 16 sequences, or the number of sequences of 1024 tokens.
-- size: 1200 980
-- needs: batches of the ladder: attune sweep --scenarios ladder_h200 --preset full
CREATE TEMP TABLE panel AS
	SELECT id, panel, share / 50 + 3 * panel AS block, x, us0, us1, us2, us3, us4, us5, us6, us7, us8
	FROM (SELECT climb AS id, max(iif(rung = 0, us, NULL)) AS us0, max(iif(rung = 1, us, NULL)) AS us1,
			max(iif(rung = 2, us, NULL)) AS us2, max(iif(rung = 3, us, NULL)) AS us3,
			max(iif(rung = 4, us, NULL)) AS us4, max(iif(rung = 5, us, NULL)) AS us5,
			max(iif(rung = 6, us, NULL)) AS us6, max(iif(rung = 7, us, NULL)) AS us7,
			max(iif(rung = 8, us, NULL)) AS us8
		FROM climb_time GROUP BY climb)
	JOIN (SELECT id, share, 0 AS panel, length AS x FROM climb
			WHERE seqs = iif(share = 50, 2, 1)
		UNION ALL SELECT id, share, 1, length FROM climb WHERE seqs = 16
		UNION ALL SELECT id, share, 2, seqs FROM climb WHERE length = 1024) USING (id)
	WHERE share IS NOT NULL AND (us1 IS NOT NULL OR us4 IS NOT NULL);
DELETE FROM panel WHERE (SELECT count(us1) FROM panel) = 0;
CREATE TEMP TABLE seen AS
	SELECT rung, min(us) AS us_lo, max(us) AS us_hi, panel FROM climb_time
	JOIN panel ON panel.id = climb_time.climb GROUP BY rung, panel;

SELECT block, x, us0, us1, us2, us3, us4, us5, us6, us7, us8 FROM panel ORDER BY block, x, id;

SELECT 1 AS "set",
	ifnull(min(iif(panel = 0, us_lo, NULL)), 1) AS us0_lo, ifnull(max(iif(panel = 0, us_hi, NULL)), 10) AS us0_hi,
	ifnull(min(iif(panel = 1, us_lo, NULL)), 1) AS us1_lo, ifnull(max(iif(panel = 1, us_hi, NULL)), 10) AS us1_hi,
	ifnull(min(iif(panel = 2, us_lo, NULL)), 1) AS us2_lo, ifnull(max(iif(panel = 2, us_hi, NULL)), 10) AS us2_hi
FROM seen;
SELECT 1 AS "set",
	ifnull(min(iif(panel = 0, x, NULL)), 1) AS x0_lo, ifnull(max(iif(panel = 0, x, NULL)), 10) AS x0_hi,
	ifnull(min(iif(panel = 1, x, NULL)), 1) AS x1_lo, ifnull(max(iif(panel = 1, x, NULL)), 10) AS x1_hi,
	ifnull(min(iif(panel = 2, x, NULL)), 1) AS x2_lo, ifnull(max(iif(panel = 2, x, NULL)), 10) AS x2_hi
FROM panel;
SELECT 1 AS "set", group_concat('"' || name || '"', ' ') AS rungs, sum(is_side) AS num_side FROM rung;
SELECT 1 AS "set", group_concat(rung + 1, ' ') AS seen, 16 AS many, 1024 AS length
FROM (SELECT DISTINCT rung FROM seen ORDER BY rung);
