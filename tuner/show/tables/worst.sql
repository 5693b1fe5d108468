-- worst.sql - the held-out batches on which the pick loses most, in us. | parts in turn; || side by side.
SELECT model, page_size AS page, batch, o.us AS fastest, t.us AS attune, t.us / o.us AS ratio, mine.kernels AS picked,
	best.kernels AS "fastest plan"
FROM scenario s JOIN plan o ON o.scenario = s.id AND o.policy = 'oracle'
JOIN plan t ON t.scenario = s.id AND t.policy = 'tree'
JOIN run_by mine ON mine.scenario = s.id AND mine.policy = 'tree'
JOIN run_by best ON best.scenario = s.id AND best.policy = 'oracle'
WHERE side = 1 AND t.us IS NOT NULL ORDER BY t.us / o.us DESC LIMIT 5;
