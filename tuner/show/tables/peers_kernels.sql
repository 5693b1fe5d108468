-- SPDX-License-Identifier: Apache-2.0
-- peers_kernels.sql - the time of other projects' kernels over that of our fastest plan, in one race on the same cold
-- pages; each kernel by its fastest setting. Geometric means; low, high: 95 % intervals over blocks of one model and
-- batch size.
-- database: peers
SELECT name AS kernel, count(*) AS n, exp(avg(ln(us / fastest))) AS "time / ours", blocked_low(us / fastest, block) AS low,
	blocked_high(us / fastest, block) AS high, sum(us > fastest) AS "ours ahead on"
FROM peer_time JOIN plan_us USING (scenario) JOIN blocked ON blocked.id = scenario
GROUP BY name ORDER BY "time / ours";
