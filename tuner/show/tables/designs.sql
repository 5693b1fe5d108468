-- SPDX-License-Identifier: Apache-2.0
-- designs.sql - kernels of ours that run some whole batch faster than all others in one launch: how often, and the
-- time over that of the fastest other kernel of ours. Batches of one phase, all models.
CREATE TEMP TABLE timed AS
	SELECT k.name, t.scenario, t.us, iif(has_prefill, 'prefills', 'decodes') AS phase
	FROM kernel_time t JOIN kernel k ON k.id = kernel JOIN scenario s ON s.id = t.scenario
	WHERE NOT (has_prefill AND has_decode);
CREATE TEMP TABLE best AS
	SELECT scenario, name, min(us) AS us FROM timed GROUP BY scenario;
CREATE TEMP TABLE second AS
	SELECT t.scenario, min(t.us) AS us FROM timed t JOIN best b USING (scenario) WHERE t.name <> b.name GROUP BY scenario;
SELECT phase, t.name AS kernel, count(*) AS batches, sum(t.name = b.name) AS "fastest on",
	exp(avg(ln(t.us / iif(t.name = b.name, x.us, b.us)))) AS "time / fastest other",
	min(t.us / iif(t.name = b.name, x.us, b.us)) AS least, max(t.us / iif(t.name = b.name, x.us, b.us)) AS most
FROM timed t JOIN best b USING (scenario) JOIN second x USING (scenario)
GROUP BY phase, t.name HAVING "fastest on" > 0 ORDER BY phase, "fastest on" DESC, "time / fastest other";
