-- peers.sql - the time of the fastest kernel of others on each batch over that of our fastest plan, in one race on
-- the same cold pages; and of attune's pick over our fastest plan, where that race has the pick. Geometric means with 95 % intervals over blocks of one model and batch size.
-- database: peers
CREATE TEMP TABLE ours AS
	SELECT id, block, split, has_prefill, has_decode, us FROM scenario JOIN blocked USING (id)
	JOIN plan ON plan.scenario = id AND policy = 'oracle' WHERE us IS NOT NULL;
CREATE TEMP TABLE raced AS
	SELECT ours.*, p.peer, ifnull(words, name) || iif(is_e4m3, ', q and weights in E4M3', '') AS name, p.us / ours.us AS ratio
	FROM ours JOIN peer_time p ON scenario = ours.id JOIN peer ON peer.id = p.peer LEFT JOIN called ON plugin = name;
CREATE TEMP TABLE row AS
	SELECT -5 AS place, 'the fastest other on each batch' AS name, * FROM (
		SELECT id, block, split, has_prefill, has_decode, min(ratio) AS ratio FROM raced GROUP BY id);
INSERT INTO row SELECT -4, '- published batches', id, block, split, has_prefill, has_decode, ratio FROM row
	WHERE place = -5 AND split = 'peers';
INSERT INTO row SELECT -3, '- decodes', id, block, split, has_prefill, has_decode, ratio FROM row WHERE place = -5 AND NOT has_prefill;
INSERT INTO row SELECT -2, '- prefills', id, block, split, has_prefill, has_decode, ratio FROM row WHERE place = -5 AND NOT has_decode;
INSERT INTO row SELECT -1, '- mixed', id, block, split, has_prefill, has_decode, ratio FROM row
	WHERE place = -5 AND has_prefill AND has_decode;
INSERT INTO row SELECT 1000, 'attune''s pick, where that race has it', id, block, split, has_prefill, has_decode, t.us / ours.us
	FROM ours JOIN plan t ON t.scenario = id AND t.policy = 'tree' WHERE t.us IS NOT NULL AND id IN (SELECT id FROM raced);

SELECT name AS kernel, count(*) AS n, exp(avg(ln(ratio))) AS "time / ours", blocked_low(ratio, block) AS low,
	blocked_high(ratio, block) AS high, iif(place < 1000, sum(ratio > 1), NULL) AS "ours ahead on"
FROM row GROUP BY place
HAVING place NOT BETWEEN -4 AND -1 OR count(*) < (SELECT count(*) FROM row WHERE place = -5) ORDER BY place;
