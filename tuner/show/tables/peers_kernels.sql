-- peers_kernels.sql - the time of other projects' kernels over that of our fastest plan, in one race on the same cold pages;
-- each kernel by its fastest setting. Geometric means with 95 % intervals over blocks of one model and batch size.
-- database: peers
CREATE TEMP TABLE ours AS
	SELECT id, block, split, has_prefill, has_decode, us FROM scenario JOIN blocked USING (id)
	JOIN plan ON plan.scenario = id AND policy = 'oracle' WHERE us IS NOT NULL;
CREATE TEMP TABLE raced AS
	SELECT ours.*, p.peer, ifnull(words, name) || iif(is_e4m3, ', q and weights in E4M3', '') AS name, p.us / ours.us AS ratio
	FROM ours JOIN peer_time p ON scenario = ours.id JOIN peer ON peer.id = p.peer LEFT JOIN called ON plugin = name;

SELECT name AS kernel, count(*) AS n, exp(avg(ln(ratio))) AS "time / ours", blocked_low(ratio, block) AS low,
	blocked_high(ratio, block) AS high, sum(ratio > 1) AS "ours ahead on"
FROM raced GROUP BY name ORDER BY "time / ours";
