-- SPDX-License-Identifier: Apache-2.0
-- stale.sql - what `attune show --stale` asks: the newest rows of a database, counted by kernel, scenario
-- set and split.

-- old: the sources that are neither today's nor bridged, " kernel:hash ", of builds with such flags.
CREATE TEMP TABLE old_build(source, arch, flags, PRIMARY KEY (source, arch, flags));
INSERT OR IGNORE INTO old_build
	SELECT c.sources, b.arch, b.flags FROM measured.build b JOIN measured.code c ON c.id = b.code JOIN old o
		ON (o.arch, o.flags) = (b.arch, b.flags) AND instr(' ' || c.sources || ' ', o.source);
-- A row each. us: NULL unless the row is ok. model, batch, variant: NULL unless is_stale: measured with an older kernel
-- source.
CREATE TEMP TABLE cell AS
	SELECT scenario_id AS scenario, n.phase, pass, kernel, set_name AS set_, split, iif(outcome = 'ok', median_us, NULL) AS us,
		o.flags IS NOT NULL AS is_stale, iif(o.flags IS NULL, NULL, model) AS model, page_size,
		iif(o.flags IS NULL, NULL, batch) AS batch, iif(o.flags IS NULL, NULL, variant) AS variant
	FROM measured.newest n LEFT JOIN old_build o USING (source, arch, flags)
	WHERE device_id = (SELECT id FROM measured.device JOIN attached USING (gpu, name, arch, units, machine));

-- The fastest row of each part (a scenario and phase): of the second pass, else of the first.
CREATE TEMP VIEW fastest AS
	SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY scenario, phase
		ORDER BY pass = 'B' DESC, us, rowid) AS place FROM cell WHERE us IS NOT NULL AND pass <> 'E')
	WHERE place = 1;
-- The parts with a stale fastest row: measuring them again may change the pick. rows: their stale rows.
CREATE TEMP VIEW doubtful AS
	SELECT f.*, rows FROM fastest f JOIN (SELECT scenario, phase, sum(is_stale) AS rows FROM cell
		GROUP BY scenario, phase) USING (scenario, phase)
	WHERE f.is_stale;
CREATE TEMP VIEW counts AS
	SELECT c.kernel, c.set_ AS "set", c.split, c.rows, c.stale, ifnull(parts, 0) AS fastest,
		ifnull(again, 0) AS rows_of_these
	FROM (SELECT kernel, set_, split, count(*) AS rows, sum(is_stale) AS stale FROM cell
		GROUP BY kernel, set_, split) c
	LEFT JOIN (SELECT kernel, set_, split, count(*) AS parts, sum(rows) AS again FROM doubtful
		GROUP BY kernel, set_, split) USING (kernel, set_, split)
	ORDER BY fastest DESC, c.stale DESC, c.kernel, c.set_, c.split;
-- counted: the counts as a table, which is made by the one who asks.
CREATE TEMP VIEW totals AS
	SELECT printf('%s: %d of %d rows were measured with older kernel sources', gpu, stale, rows) AS note,
		printf('fastest: parts of batches with a stale fastest time, %d in all; rows_of_these: their stale '
			|| 'rows, %d in all', fastest, again)
	FROM attached, (SELECT total(stale) AS stale, total(rows) AS rows, total(fastest) AS fastest,
		total(rows_of_these) AS again FROM counted);
-- Each stale row, those of doubtful parts first.
CREATE TEMP VIEW listed AS
	SELECT c.model, c.page_size, c.batch, c.phase, c.kernel, c.variant, c.pass, c.us AS median_us,
		iif(c.pass = d.pass AND c.us <= d.us, 'yes', 'no') AS fastest, c.set_ AS "set", c.split,
		sum(1) OVER (PARTITION BY c.scenario, c.phase) AS stale_rows_of_part
	FROM cell c LEFT JOIN doubtful d USING (scenario, phase) WHERE c.is_stale
	ORDER BY d.us IS NULL, stale_rows_of_part DESC, c.scenario, c.phase, fastest DESC, c.us IS NULL, c.us,
		c.kernel, c.variant;
