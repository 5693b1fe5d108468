-- peers.sql - times of other projects' kernels over that of our fastest plan, on every batch on which both
-- raced. Panels: prompts, prompts beside decodes, decodes; in each the shortest call on top. Block
-- 3 peer + panel: rows "place of the batch, ratio".
-- size: 1100 720
-- needs: batches on which plug-ins raced (--peers)
-- database: peers
CREATE TEMP TABLE batch AS
	SELECT *, row_number() OVER (PARTITION BY panel ORDER BY ours, id) - 1 AS place FROM (
		SELECT id, batch, seqs, iif(has_prefill, has_decode, 2) AS panel, us AS ours
		FROM scenario JOIN plan ON scenario = id AND policy = 'oracle'
		WHERE is_model AND us IS NOT NULL AND id IN (SELECT scenario FROM peer_time));
CREATE TEMP TABLE dot AS
	SELECT peer, panel, place, us / ours AS ratio FROM batch JOIN peer_time ON scenario = id;

SELECT 3 * peer + panel AS block, place, ratio FROM dot ORDER BY block, place;

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
SELECT 1 AS "set", group_concat('"' || name || '"', ' ') AS names,
	group_concat(id IN (SELECT peer FROM dot), ' ') AS seen, count(*) AS num_names
FROM (SELECT * FROM peer ORDER BY id);
SELECT 1 AS "set", min(1, min(ratio)) AS ratio_lo, max(1, max(ratio)) AS ratio_hi FROM dot;
