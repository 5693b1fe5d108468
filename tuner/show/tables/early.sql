-- SPDX-License-Identifier: Apache-2.0
-- early.sql - launches that begin before their predecessor has finished: their time over that in turn, in chains of
-- calls, on parts that were raced so. By the header's rule, always, and by the better way of each part.
CREATE TEMP TABLE raced AS
	SELECT iif(side = 1, 'held out', 'learned from') AS parts, phase, block, picked,
		iif(one IS NULL OR two < one, two, one) AS early
	FROM early JOIN scenario s ON s.id = scenario JOIN blocked ON blocked.id = s.id WHERE side >= 0;
SELECT parts, phase, count(*) AS n, exp(avg(ln(picked))) AS "by rule", blocked_low(picked, block) AS low,
	blocked_high(picked, block) AS high, exp(avg(ln(early))) AS always, exp(avg(ln(min(1, early)))) AS "better of both",
	max(picked) AS "worst by rule", max(early) AS "worst always"
FROM raced GROUP BY parts, phase ORDER BY parts, phase;
