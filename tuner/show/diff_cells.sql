-- diff_cells.sql - what `attune show --diff` asks of the cells of two databases; db: 0 the first, 1 the second.
CREATE TABLE scenario(db, id, key, model, page_size, batch);
CREATE TABLE choice(db, id, words);
-- us: NULL unless the outcome is ok. noise: the difference in us that the A/A controls of both databases explain.
CREATE TABLE cell(db, scenario, phase, choice, outcome, us REAL, ci REAL, noise REAL);
-- The A/A noise floors in percent, by band of the time; the larger of both databases.
CREATE TABLE floors(short REAL, medium REAL, long REAL);

-- The cells of both. A time changed if it differs by more than its intervals and the noise explain.
CREATE VIEW paired AS
	SELECT a.scenario, a.phase, a.choice, a.outcome AS was, b.outcome AS now, a.us AS was_us, b.us AS is_us,
		b.us / a.us AS ratio, iif(a.us + b.us IS NULL, a.outcome <> b.outcome, abs(a.us - b.us)
			> max(a.noise, sqrt(ifnull(a.ci * a.ci, 0) + ifnull(b.ci * b.ci, 0)))) AS is_changed
	FROM cell a
	JOIN (SELECT x.id AS a, y.id AS b FROM scenario x JOIN scenario y USING (key) WHERE x.db < y.db) s
		ON s.a = a.scenario
	JOIN (SELECT x.id AS a, y.id AS b FROM choice x JOIN choice y USING (words) WHERE x.db < y.db) c
		ON c.a = a.choice
	JOIN cell b ON b.db = 1 AND b.scenario = s.b AND b.phase = a.phase AND b.choice = c.b
	WHERE a.db = 0;
-- pair: `paired` as a table, which is made by the one who asks.
CREATE VIEW totals AS
	SELECT printf('%d cells in both, %d changed beyond noise (floors %.1f, %.1f, %.1f %%), geomean ratio '
		|| '%.4f; only in A %d, only in B %d', n, changed, short, medium, long, geomean, a - n, b - n) AS note
	FROM floors, (SELECT count(*) AS n, total(is_changed) AS changed, ifnull(exp(avg(ln(ratio))), 1) AS geomean
		FROM pair), (SELECT total(db = 0) AS a, total(db = 1) AS b FROM cell);
-- Changed outcomes first, then the largest change.
CREATE VIEW changes AS
	SELECT model, page_size, batch, phase, words, was, now, was_us, is_us, ratio
	FROM pair JOIN scenario s ON (s.db, s.id) = (0, scenario) JOIN choice c ON (c.db, c.id) = (0, choice)
	WHERE is_changed
	ORDER BY ratio IS NULL DESC, max(ratio, 1 / ratio) DESC, scenario, pair.rowid;
