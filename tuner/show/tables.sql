-- SPDX-License-Identifier: Apache-2.0
-- tables.sql - what the queries in tables/ ask, beside the tables of plot/facts.sql.

-- The kernels that a plan of "tree", "row_settled" or "oracle" runs: with | between parts in turn, with || between parts
-- side by side. words: the whole plan; lost_by: what most of its time over the fastest comes from.
CREATE TABLE run_by(scenario, policy, kernels, words, lost_by);
-- Parts that raced as launches that begin before their predecessor has finished: the time with each value of the axis
-- EARLY over the time in turn, and with the value that the header picks.
CREATE TABLE early(scenario, phase, one REAL, two REAL, picked REAL);
-- The times of a scenario's plans in one row, in us: of the fastest measured plan, of attune's pick, of the baselines.
CREATE VIEW plan_us AS
	SELECT scenario, max(iif(policy = 'oracle', us, NULL)) AS fastest, max(iif(policy = 'tree', us, NULL)) AS attune,
		max(iif(policy = 'best_fixed', us, NULL)) AS fixed, max(iif(policy = 'vllm_triton', us, NULL)) AS vllm,
		max(iif(policy = 'default', us, NULL)) AS defaults, max(iif(policy = 'row_settled', us, NULL)) AS settled
	FROM plan GROUP BY scenario HAVING fastest IS NOT NULL;
-- The held-out batches, by kind and then by split; published batches are a kind of their own.
CREATE VIEW held_out AS
	WITH kind(place, name, split, prefill, decode) AS (VALUES (0, 'all held out', NULL, NULL, NULL),
		(1, 'decodes', NULL, 0, 1), (2, 'prefills', NULL, 1, 0), (3, 'mixed', NULL, 1, 1),
		(4, 'published', 'peers', NULL, NULL),
		(10, 'one batch of ten, drawn', 'heldout_random', NULL, NULL), (11, 'odd sizes', 'heldout_offgrid', NULL, NULL),
		(12, 'batch sizes and lengths that nothing learned has', 'heldout_blocked', NULL, NULL),
		(13, 'larger batches, longer sequences', 'heldout_extrapolated', NULL, NULL),
		(14, 'other request traces', 'heldout_traces', NULL, NULL),
		(15, 'model shapes that nothing learned has', 'heldout_shape', NULL, NULL),
		(16, 'what users bring', 'heldout_coverage', NULL, NULL),
		(17, 'two more request traces', 'heldout_traces_unseen', NULL, NULL))
	SELECT place, name, id FROM scenario s JOIN kind k ON iif(k.split IS NULL, side = 1 AND s.split <> 'peers', s.split = k.split)
		AND has_prefill = ifnull(prefill, has_prefill) AND has_decode = ifnull(decode, has_decode);
-- Times over that of the fastest measured plan, by the second pass, as geometric means. low, high: the 95 % interval of
-- attune's, over blocks of one model and batch size. The best fixed choice has a mean over the batches on which it was
-- timed, and "attune there" is over the same batches. Another baseline has a mean only if it was timed on all batches.
CREATE VIEW slowdown AS
	SELECT place, name AS batches, count(*) AS n, exp(avg(ln(tree))) AS attune, blocked_low(tree, block) AS low,
		blocked_high(tree, block) AS high, percentile95(tree, 0) AS p95, max(tree) AS worst,
		100.0 * sum(tree <= 1.05) / count(*) AS "within 5 %", count(*) - count(tree) AS "no time",
		exp(avg(ln(fixed))) AS "best fixed", count(fixed) AS "timed on",
		exp(avg(ln(iif(fixed, tree, NULL)))) AS "attune there",
		iif(count(vllm) = count(*), exp(avg(ln(vllm))), NULL) AS "vLLM's Triton rule",
		iif(count(defaults) = count(*), exp(avg(ln(defaults))), NULL) AS defaults
	FROM held_out JOIN (SELECT scenario AS id, max(1, attune / fastest) AS tree, max(1, fixed / fastest) AS fixed,
			max(1, vllm / fastest) AS vllm, max(1, defaults / fastest) AS defaults FROM plan_us) USING (id)
		JOIN blocked USING (id)
	GROUP BY place;

-- What `attune show --best` and `--peers` list. asked: the model; NULL: all.
CREATE TABLE asked(model);
CREATE VIEW listed AS
	SELECT id, model, page_size, batch, split, fastest AS best_us, attune AS header_us FROM scenario JOIN plan_us ON scenario = id
	WHERE model = ifnull((SELECT model FROM asked), model);
CREATE VIEW best_plans AS
	SELECT model, page_size, batch, split, best_us, header_us, header_us / best_us AS ratio, words AS best
	FROM listed JOIN run_by ON scenario = id AND policy = 'oracle' ORDER BY id;
CREATE VIEW peer_plans AS
	SELECT model, page_size, batch, best_us, header_us, us AS peer_us, name AS peer, us / best_us AS ratio
	FROM listed JOIN rival ON scenario = id ORDER BY id;
-- How the fastest of all and each kernel stand to ours.
CREATE VIEW standing AS
	WITH one AS (SELECT -1 AS place, 'the fastest' AS name, '' AS about, us / best_us AS ratio FROM listed JOIN rival ON scenario = id
		UNION ALL SELECT peer, t.name, iif(version = '', '', '; ' || version), us / best_us
		FROM listed JOIN peer_time t ON scenario = listed.id JOIN peer p ON p.id = t.peer)
	SELECT printf('%-26s %.3f x ours, geometric mean of %d; ours is ahead on %d%s', name, exp(avg(ln(ratio))),
		count(*), sum(ratio > 1), about) AS note
	FROM one GROUP BY place
	UNION ALL SELECT printf('a choice among all kernels would take %.4f x ours alone', exp(avg(min(0, ln(ratio)))))
	FROM one WHERE place = -1 HAVING count(*);
