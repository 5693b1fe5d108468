-- SPDX-License-Identifier: Apache-2.0
-- diff.sql - what `attune show --diff` asks of two databases, attached as a and b. Noisy rows and those of launches that
-- begin early are left out; of others the second pass counts before the first.

CREATE TEMP TABLE scenarios(a INTEGER PRIMARY KEY, b);
INSERT INTO scenarios
	SELECT x.id AS a, y.id AS b
	FROM a.scenario x JOIN b.scenario y USING (model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads,
		num_kv_heads, head_size, causal, "window", scale, softcap, has_sinks, has_alibi);
CREATE TEMP VIEW device_a AS
	SELECT id FROM a.device JOIN attached USING (gpu, name, arch, units, machine) WHERE db = 'a';
CREATE TEMP VIEW device_b AS
	SELECT id FROM b.device JOIN attached USING (gpu, name, arch, units, machine) WHERE db = 'b';
-- us: NULL unless the outcome is ok.
CREATE TEMP TABLE cell_a AS
	SELECT scenario_id AS scenario, phase, variant_id AS variant, outcome, iif(outcome = 'ok', median_us, NULL) AS us,
		ci_us AS ci, kernel, variant AS words, max(pass) AS pass FROM a.newest
	WHERE pass <> 'E' AND outcome <> 'noisy' AND device_id = (SELECT id FROM device_a) GROUP BY 1, 2, 3;
CREATE TEMP TABLE cell_b AS
	SELECT scenario_id AS scenario, phase, variant_id AS variant, outcome, iif(outcome = 'ok', median_us, NULL) AS us,
		ci_us AS ci, kernel, variant AS words, max(pass) AS pass FROM b.newest
	WHERE pass <> 'E' AND outcome <> 'noisy' AND device_id = (SELECT id FROM device_b) GROUP BY 1, 2, 3;
CREATE TEMP TABLE variants(a INTEGER PRIMARY KEY, b);
INSERT INTO variants
	SELECT x.variant, y.variant FROM (SELECT variant, kernel, max(words) AS words FROM cell_a GROUP BY variant) x
	JOIN (SELECT variant, kernel, max(words) AS words FROM cell_b GROUP BY variant) y USING (kernel, words);
CREATE INDEX temp.of_b ON cell_b (scenario, variant, phase);
-- The A/A noise floors, as shares, by band of the time; the larger of both databases.
CREATE TEMP TABLE floors AS
	SELECT max(iif(band = '< 20 us', floor, 0.005)) AS short, max(iif(band = '< 200 us', floor, 0.005)) AS medium,
		max(iif(band = '>= 200 us', floor, 0.005)) AS long
	FROM (SELECT band, floor FROM a.noise WHERE device_id = (SELECT id FROM device_a)
		UNION ALL SELECT band, floor FROM b.noise WHERE device_id = (SELECT id FROM device_b)
		UNION ALL SELECT '', 0.005);
-- The cells of both. A time changed if it differs by more than its intervals and the noise explain.
CREATE TEMP TABLE pair AS
	SELECT a.scenario, a.phase, a.kernel, a.words, a.outcome AS was, b.outcome AS now, a.us AS was_us, b.us AS is_us,
		b.us / a.us AS ratio, iif(a.us + b.us IS NULL, a.outcome <> b.outcome, abs(a.us - b.us)
			> max(a.us * iif(a.us < 20, short, iif(a.us < 200, medium, long)),
				sqrt(ifnull(a.ci * a.ci, 0) + ifnull(b.ci * b.ci, 0)))) AS is_changed
	FROM floors, cell_a a JOIN scenarios s ON s.a = a.scenario JOIN variants v ON v.a = a.variant
	JOIN cell_b b ON b.scenario = s.b AND b.variant = v.b AND b.phase = a.phase;

SELECT printf('%d cells in both, %d changed beyond noise (floors %.1f, %.1f, %.1f %%), geomean ratio %.4f; only in A %d, '
	|| 'only in B %d', n, changed, 100 * short, 100 * medium, 100 * long, geomean, (SELECT count(*) FROM cell_a) - n,
	(SELECT count(*) FROM cell_b) - n) AS note
FROM floors, (SELECT count(*) AS n, total(is_changed) AS changed, ifnull(exp(avg(ln(ratio))), 1) AS geomean FROM pair);
-- Changed outcomes first, then the largest change.
SELECT model, page_size, batch, phase, iif(kernel = 'plan', words, rtrim(kernel || ' ' || words)) AS choice, was, now AS "is", was_us,
	is_us, ratio
FROM pair JOIN a.scenario s ON s.id = scenario
WHERE is_changed
ORDER BY ratio IS NULL DESC, max(ratio, 1 / ratio) DESC, model, page_size, batch, phase, choice;
