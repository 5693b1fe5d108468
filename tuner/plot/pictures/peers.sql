-- SPDX-License-Identifier: Apache-2.0
-- peers.sql - times of other projects' kernels over that of our fastest plan, on every batch on which both
-- raced. Panels: prompts, prompts beside decodes, decodes; in each the shortest call on top. Block
-- 3 peer + panel: rows "place of the batch, ratio, ci of the kernel's time, rank among those beyond the axis,
-- 0: on it". After all peers, block 3 * num_names + panel: "place, 1, ci of our time".
-- size: 1100 1000
-- needs: batches on which plug-ins raced (--peers)
-- database: peers
CREATE TEMP TABLE batch AS
	SELECT *, row_number() OVER (PARTITION BY panel ORDER BY ours, id) - 1 AS place FROM (
		SELECT id, batch, seqs, iif(has_prefill, has_decode, 2) AS panel, us AS ours, ci
		FROM scenario JOIN plan ON scenario = id AND policy = 'oracle'
		WHERE is_model AND us IS NOT NULL AND id IN (SELECT scenario FROM peer_time));
CREATE TEMP TABLE axis(panel, beyond);
INSERT INTO axis VALUES (0, 3.2), (1, 3.2), (2, 2.3); -- most decodes lie close to 1
CREATE TEMP TABLE dot AS
	SELECT peer, panel, place, us / ours AS ratio, t.ci, us / ours > beyond AS is_beyond
	FROM batch JOIN axis USING (panel) JOIN peer_time t ON scenario = id;

SELECT 3 * peer + panel AS block, place, ratio, ifnull(ci, 0),
	iif(is_beyond, sum(is_beyond) OVER (PARTITION BY panel, place ORDER BY ratio, peer), 0) AS rank
FROM dot ORDER BY block, place;
SELECT 3 * (SELECT count(*) FROM peer) + panel AS block, place, 1, ifnull(ci, 0) FROM batch ORDER BY block, place;

-- A batch's own text if that is short, else "9 of 1k to 16k".
CREATE TEMP TABLE tic AS
	SELECT panel, '(' || group_concat('''' || name || ''' ' || place, ', ') || ')' AS text, count(*) AS n
	FROM (SELECT panel, place, iif(length(batch) <= 20, batch, seqs || ' of '
			|| iif(least % 1024, least, (least / 1024) || 'k') || ' to '
			|| iif(most % 1024, most, (most / 1024) || 'k')) AS name
		FROM batch JOIN (SELECT scenario, min(length) AS least, max(length) AS most FROM sequence
			GROUP BY scenario) ON scenario = id ORDER BY panel, place)
	GROUP BY panel;
SELECT 1 AS "set", ifnull((SELECT text FROM tic WHERE panel = 0), '()') AS tics1,
	ifnull((SELECT text FROM tic WHERE panel = 1), '()') AS tics2,
	ifnull((SELECT text FROM tic WHERE panel = 2), '()') AS tics3,
	ifnull((SELECT n FROM tic WHERE panel = 0), 0) || ' ' || ifnull((SELECT n FROM tic WHERE panel = 1), 0)
		|| ' ' || ifnull((SELECT n FROM tic WHERE panel = 2), 0) AS batches;
-- names, seen and looks: of a peer each. shown: those with points, by look; each has a lane of a row.
CREATE TEMP TABLE named AS
	SELECT id, ifnull(words, name) AS words, ifnull(look, 10 + id) AS look,
		id IN (SELECT peer FROM dot) AS seen
	FROM peer LEFT JOIN called ON plugin = name;
SELECT 1 AS "set", group_concat('"' || words || '"', ' ') AS names, group_concat(seen, ' ') AS seen,
	group_concat(look, ' ') AS looks, count(*) AS num_names
FROM (SELECT * FROM named ORDER BY id);
SELECT 1 AS "set", group_concat(id + 1, ' ') AS shown, count(*) AS num_shown
FROM (SELECT id FROM named WHERE seen ORDER BY look);
SELECT 1 AS "set", min(1, min(ratio)) AS ratio_lo, count(ci) AS with_ci, count(*) AS num_points FROM dot;
SELECT 1 AS "set", group_concat(beyond, ' ') AS beyond, group_concat(most, ' ') AS most_beyond
FROM (SELECT panel, beyond, ifnull(max(n), 0) AS most FROM axis LEFT JOIN (
		SELECT panel, sum(is_beyond) AS n FROM dot GROUP BY panel, place) USING (panel)
	GROUP BY panel ORDER BY panel);
