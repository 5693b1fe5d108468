-- peers_batches.sql - one call of our fastest plan and of the fastest other kernel, in one race, in us.
-- database: peers
CREATE TEMP TABLE rival AS
	SELECT scenario, min(us) AS us, ifnull(words, name) AS name
	FROM peer_time t JOIN peer ON peer.id = t.peer LEFT JOIN called ON plugin = name GROUP BY scenario;
SELECT batch, o.us AS ours, rival.us AS "fastest other", rival.name AS kernel, rival.us / o.us AS "other / ours"
FROM scenario s JOIN plan o ON o.scenario = s.id AND o.policy = 'oracle' JOIN rival ON rival.scenario = s.id
WHERE is_model AND batch IN ('q1s1k', '32q1s1k', '32q1s16k', '256q1s16k', '32q4s8k', 'q512', 'q8k', 'q512s8k_64q1s8k', '64q1s8k_q512s8k',
	'q16k_250q1s16k', '250q1s16k_q16k') ORDER BY has_prefill + has_decode, has_prefill, ideal_bytes, ideal_flops;
