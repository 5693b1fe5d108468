-- SPDX-License-Identifier: Apache-2.0
-- worst.sql - the held-out batches on which the pick loses most, in us. | separates parts in turn; || parts side by side.
SELECT model, page_size AS page, batch, fastest, attune, attune / fastest AS ratio, mine.kernels AS picked,
	best.kernels AS "fastest plan"
FROM scenario s JOIN plan_us p ON p.scenario = id
JOIN run_by mine ON mine.scenario = id AND mine.policy = 'tree'
JOIN run_by best ON best.scenario = id AND best.policy = 'oracle'
WHERE side = 1 AND attune IS NOT NULL ORDER BY ratio DESC LIMIT 5;
