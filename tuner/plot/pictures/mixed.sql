-- SPDX-License-Identifier: Apache-2.0
-- mixed.sql - a prompt or a chunk of it beside decodes of one length: time over the ideal, which reads each
-- byte of keys and values once, skips masked products, and fully overlaps memory and arithmetic at the
-- device's ceilings. By the second session; a way that only the sweep has keeps its gain from there.
-- Of other projects' kernels the fastest on each batch: the peers' picture has all of them.
-- Block i: series i of `names`, rows "place of the batch, time over the ideal, ci".
-- size: 1200 560
-- needs: ceilings, or no batches in split peers with one prompt and decodes
-- database: peers
CREATE TEMP TABLE batch AS
	SELECT s.id, max(iif(query > 8, query, 0)) AS query, max(iif(query > 8, length, 0)) AS seq,
		sum(iif(query > 8, 0, n)) AS decodes, max(iif(query > 8, 0, length)) AS length,
		max(ideal_bytes / dram_gbps / 1e3, ideal_flops / fma_tflops / 1e6) AS ideal
	FROM scenario s JOIN sequence ON scenario = s.id, ceiling
	WHERE split = 'peers' AND dram_gbps > 0 AND fma_tflops > 0
	GROUP BY s.id
	HAVING sum(iif(query > 8, n, 0)) = 1 AND decodes > 0 AND min(iif(query > 8, 1, query)) = 1
		AND max(iif(query > 8, 1, query)) = 1
		AND min(iif(query > 8, NULL, length)) = max(iif(query > 8, NULL, length));
-- Ways by the second session, else scaled from the sweep's; the tuned choice by the second session alone.
CREATE TEMP TABLE found AS
	SELECT batch.id, way.id AS way,
		ifnull(b.us, iif(way.id = 4, NULL, m.serial * a.us / first.serial)) AS us,
		iif(b.us IS NULL, a.ci, b.ci) AS ci, m.serial, m.serial_ci
	FROM batch, way JOIN mixed m ON m.scenario = batch.id AND m.pass = 1
	JOIN mixed first ON first.scenario = batch.id AND first.pass = 0
	LEFT JOIN way_time b ON b.scenario = batch.id AND b.pass = 1 AND b.way = way.id
	LEFT JOIN way_time a ON a.scenario = batch.id AND a.pass = 0 AND a.way = way.id;
-- The first 24 batches that have any time, by size.
CREATE TEMP TABLE column_ AS
	SELECT row_number() OVER (ORDER BY query, seq, decodes, id) - 1 AS place, *
	FROM batch JOIN (SELECT DISTINCT id, serial, serial_ci FROM found) USING (id)
	WHERE id IN (SELECT id FROM batch JOIN found USING (id)
		WHERE us IS NOT NULL OR serial IS NOT NULL GROUP BY id ORDER BY id LIMIT 24);
CREATE TEMP TABLE dot(kind, name, place, over, ci);
INSERT INTO dot
	SELECT 1, 'tuned choice', place, us / ideal, ci FROM column_ JOIN found USING (id) WHERE way = 4
	UNION ALL SELECT CASE way WHEN 1 THEN 2 WHEN 2 THEN 4 ELSE 5 END, way.name, place, us / ideal, ci
		FROM column_ JOIN found USING (id) JOIN way ON way.id = way WHERE way IN (1, 2, 3)
	UNION ALL SELECT 3, 'one after the other', place, serial / ideal, serial_ci FROM column_
	UNION ALL SELECT 6, 'fastest kernel of others', place, us / ideal, ci
		FROM column_ JOIN rival ON scenario = column_.id;
DELETE FROM dot WHERE over IS NULL;
CREATE TEMP TABLE series AS
	SELECT row_number() OVER (ORDER BY kind) - 1 AS block, kind, name FROM (SELECT DISTINCT kind, name FROM dot);

SELECT block, place, over, ifnull(ci, 0) FROM series JOIN dot USING (kind) ORDER BY block, place;

SELECT 1 AS "set", group_concat('"' || name || '"', ' ') AS names, ' ' || group_concat(kind, ' ') AS seen,
	count(*) AS num_seen
FROM (SELECT * FROM series ORDER BY block);
SELECT 1 AS "set", ifnull((SELECT group_concat(name, ', ') FROM (SELECT DISTINCT rival.name FROM rival
	JOIN column_ ON id = scenario)), '') AS rivals;
SELECT 1 AS "set", '(' || group_concat('"' || iif(query % 1024, query, (query / 1024) || 'k')
	|| iif(query < seq, ' of ' || iif(seq % 1024, seq, (seq / 1024) || 'k'), '') || '\n+ ' || decodes || ' x '
	|| iif(length % 1024, length, (length / 1024) || 'k') || '" ' || place, ', ') || ')' AS tics,
	count(*) AS num_mixed
FROM (SELECT * FROM column_ ORDER BY place);
SELECT 1 AS "set", count(ci) AS with_ci, count(*) AS num_points, min(1, min(over)) AS over_lo, max(1, max(over)) AS over_hi FROM dot;
SELECT 1 AS "set", dram_gbps, fma_tflops FROM ceiling;
