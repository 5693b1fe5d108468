-- SPDX-License-Identifier: Apache-2.0
-- beyond.sql - the held-out batches on which the settled row takes over 1.20 of the fastest, by what it and the first lose.
SELECT iif(split IN ('heldout_coverage', 'heldout_traces_unseen'), 'new', '') AS "set", model, page_size AS page, batch,
	attune / fastest AS "the first", max(1, settled / fastest) AS "row settled", now.lost_by AS "lost by",
	now.kernels AS settled, best.kernels AS "fastest plan"
FROM scenario s JOIN plan_us p ON p.scenario = id
JOIN run_by now ON now.scenario = id AND now.policy = 'row_settled'
JOIN run_by best ON best.scenario = id AND best.policy = 'oracle'
WHERE side = 1 AND p.settled > 1.2 * fastest ORDER BY "set", "row settled" DESC;
