-- SPDX-License-Identifier: Apache-2.0
-- migrate.sql - copies the rows of version 8, whose tables store_migrate has renamed to old_*, into the
-- tables of schema.sql. Version 8 had picoseconds, hundred-millionths, watts, the text of each choice
-- and, in each measurement, build, ending and whether it is the newest. Numbers are rounded as
-- store_write.c rounds them.

INSERT OR IGNORE INTO family (kernel, text, digest)
SELECT kernel, family_text(text), family_digest(kernel, family_text(text)) FROM old_choice
ORDER BY id;
INSERT INTO choice
SELECT o.id, f.id, segments(o.text) FROM old_choice AS o
JOIN family AS f ON f.digest = family_digest(o.kernel, family_text(o.text)) ORDER BY o.id;

INSERT INTO race (id, run, scenario, phase, stage, mhz_before, mhz_after, power_mw)
SELECT id, run, scenario, phase, stage, round(mhz_before), round(mhz_after), round(1e3 * power_w)
FROM old_race ORDER BY id;

INSERT INTO ran (build, ending)
SELECT build, ending FROM old_measurement GROUP BY build, ending ORDER BY count(*) DESC, 1, 2;
INSERT INTO measurement
SELECT m.race, m.variant, n.id, max(1, round(m.median / 1e3)),
       min(999, round(1e3 * m.below / m.median)), round(m.ci / 1e3),
       CASE WHEN m.ratio = 100000000 THEN 10000
            WHEN m.ratio > 100000000 THEN max(10001, round(m.ratio / 1e4))
            ELSE min(-10001, -round(1e12 / m.ratio)) END
FROM old_measurement AS m JOIN ran AS n ON (n.build, n.ending) = (m.build, m.ending)
ORDER BY m.race, m.variant;
INSERT INTO superseded SELECT race, variant FROM old_measurement WHERE newest = 0 ORDER BY 1, 2;

INSERT INTO reading
SELECT race, variant, round(mhz_before), round(mhz_after), round(1e3 * power_w)
FROM old_reading ORDER BY race, variant;
INSERT INTO control
SELECT race, variant, max(1, round(median / 1e3)), max(1, round(1e6 * ratio)) FROM old_control
ORDER BY race, variant;
UPDATE bridge_race SET old = max(1, round(old / 1e3));
-- Each hash is of the old form.
DELETE FROM seal;

DROP TABLE old_reading;
DROP TABLE old_control;
DROP TABLE old_measurement;
DROP TABLE old_race;
DROP TABLE old_choice;
