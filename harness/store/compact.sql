-- SPDX-License-Identifier: Apache-2.0
-- compact.sql - reduces a database to the form that is committed to git:
--
--   newest rows stay, of every pass and outcome       superseded rows go
--   median, least, interval, ratio stay               raw samples go
--   a race's clock and power stay                      a row's own reading stays where its
--                                                      protocol is steady; around a burst no
--                                                      sensor reads one variant
--   runs on committed sources stay, and all runs       runs on modified or unknown sources go
--   of before version 6
--   rows of today's or bridged sources stay            rows of older sources go; table temp.stale
--                                                      has their builds (store_merge.c)
--   the fastest of each kernel stays, and all times    other times of other families go: no rule
--   of families that rules may pick, or that the       picks them. A database of few rows keeps
--   library knows                                      them: table temp.light (store_merge.c)
--
-- Names that no row refers to go too, except scenarios, which keep their labels.

DELETE FROM measurement WHERE race IN (
  SELECT c.id FROM race AS c JOIN run AS r ON r.id = c.run
  WHERE r.sources IN ('modified', 'unknown'));
DELETE FROM control WHERE race IN (
  SELECT c.id FROM race AS c JOIN run AS r ON r.id = c.run
  WHERE r.sources IN ('modified', 'unknown'));
DELETE FROM ceiling WHERE run IN (SELECT id FROM run WHERE sources IN ('modified', 'unknown'));

-- Rows that the deleted rows had superseded are newest again.
DELETE FROM superseded WHERE (race, variant) IN (
  SELECT race, variant FROM aged WHERE age = 1 AND NOT has_newest);

DELETE FROM measurement WHERE (race, variant) IN (SELECT race, variant FROM superseded);

-- Of the older sources the fastest time of pass A in a scenario and phase stays, if none of today's
-- is faster: from it attune induce knows that the fastest kernel has no time by today's sources
-- (tuner/data/lost_kernels.c). CROSS JOIN fixes the order: each row is looked at once.
CREATE TEMP TABLE outdated AS
SELECT race, variant, counts AND median <= best AS stays
FROM (SELECT m.race, m.variant, m.median, b.build IS NOT NULL AS is_old,
             e.outcome = 'ok' AND t.pass = 'A' AND v.decode IS NULL AS counts,
             min(m.median) FILTER (WHERE e.outcome = 'ok' AND t.pass = 'A' AND v.decode IS NULL)
               OVER (PARTITION BY r.device, r.protocol, c.scenario, c.phase) AS best
      FROM measurement AS m CROSS JOIN race AS c ON c.id = m.race
      CROSS JOIN run AS r ON r.id = c.run
      CROSS JOIN ran AS n ON n.id = m.ran
      CROSS JOIN stage AS t ON t.id = c.stage CROSS JOIN ending AS e ON e.id = n.ending
      CROSS JOIN variant AS v ON v.id = m.variant
      LEFT JOIN temp.stale AS b ON (b.device, b.build) = (r.device, n.build))
WHERE is_old;
DELETE FROM measurement WHERE (race, variant) IN (
  SELECT race, variant FROM temp.outdated WHERE NOT stays);

-- A family is a kernel's choices that differ only in the number of segments, which rules compute for
-- each batch. A part is a scenario and phase. Rules may pick a family that came within 5 % of the
-- fastest time of a part, portable rules one that came as near to the fastest of the kernels that are
-- not in temp.specific (store_merge.c), and all rules one that a second pass, a plan or early launches
-- raced. Such a family keeps all its times, the slow ones too: costs fitted to fast times alone would
-- be too low. Of the other families these times stay:
--   a kernel's fastest time of a part
--   times of races with kernels of other projects
--   times of a race's reference, by which several races are compared (tuner/data/race_clock.c)
--   times of the choices in table temp.named (store_merge.c)
CREATE TEMP TABLE timed AS
SELECT m.race, m.variant, v.choice, m.median,
       m.ratio IS 10000 OR max(b.flags GLOB '-DPLUGIN=*') OVER (PARTITION BY m.race) AS is_kept,
       t.pass <> 'A' OR v.decode IS NOT NULL AS is_chosen,
       h.kernel NOT IN (SELECT kernel FROM temp.specific) AS is_portable,
       h.kernel || ' ' || h.text || ' SEGMENTS=' AS first,
       o.kernel || ' ' || o.text || ' SEGMENTS=' AS second,
       min(m.median) FILTER (WHERE t.pass = 'A' AND v.decode IS NULL)
         OVER (PARTITION BY r.device, r.protocol, c.scenario, c.phase) AS best,
       min(m.median) FILTER (WHERE t.pass = 'A' AND v.decode IS NULL
                             AND h.kernel NOT IN (SELECT kernel FROM temp.specific))
         OVER (PARTITION BY r.device, r.protocol, c.scenario, c.phase) AS best_portable,
       min(m.median) FILTER (WHERE t.pass = 'A' AND v.decode IS NULL)
         OVER (PARTITION BY r.device, r.protocol, c.scenario, c.phase, h.kernel) AS best_of_kernel
FROM measurement AS m CROSS JOIN race AS c ON c.id = m.race
CROSS JOIN run AS r ON r.id = c.run CROSS JOIN stage AS t ON t.id = c.stage
CROSS JOIN ran AS n ON n.id = m.ran
CROSS JOIN ending AS e ON e.id = n.ending AND e.outcome = 'ok'
CROSS JOIN variant AS v ON v.id = m.variant CROSS JOIN choices AS h ON h.id = v.choice
CROSS JOIN build AS b ON b.id = n.build LEFT JOIN choices AS o ON o.id = v.decode;
UPDATE temp.timed SET first = substr(first, 1, instr(first, ' SEGMENTS=')),
                      second = substr(second, 1, instr(second, ' SEGMENTS='));
CREATE TEMP TABLE near (family TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT OR IGNORE INTO near
SELECT first FROM temp.timed WHERE is_chosen
UNION SELECT second FROM temp.timed WHERE second IS NOT NULL
UNION SELECT first FROM temp.timed WHERE median <= 1.05 * best
UNION SELECT first FROM temp.timed WHERE is_portable AND median <= 1.05 * best_portable;
CREATE TEMP TABLE outdone AS
SELECT race, variant FROM temp.timed
WHERE NOT is_kept AND NOT is_chosen AND median > best_of_kernel
  AND NOT EXISTS (SELECT 1 FROM temp.light)
  AND first NOT IN (SELECT family FROM temp.near)
  AND choice NOT IN (SELECT h.id FROM choices AS h JOIN temp.named AS n
                     ON h.kernel || ' ' || h.text GLOB n.pattern);
DELETE FROM measurement WHERE (race, variant) IN (SELECT race, variant FROM temp.outdone);

DELETE FROM sample;
DELETE FROM reading WHERE race IN (
  SELECT c.id FROM race AS c JOIN run AS r ON r.id = c.run WHERE r.protocol NOT LIKE '%-steady');
DELETE FROM race WHERE id NOT IN (SELECT race FROM measurement)
                   AND id NOT IN (SELECT race FROM control);

-- SQLite looks up each deleted name in the tables that refer to it.
CREATE INDEX by_variant ON measurement (variant);
CREATE INDEX by_ran ON measurement (ran);
CREATE INDEX by_ending ON ran (ending);
CREATE INDEX by_controlled ON control (variant);
CREATE INDEX by_decode ON variant (decode);
DELETE FROM variant WHERE id NOT IN (SELECT variant FROM measurement)
                      AND id NOT IN (SELECT variant FROM control);
DELETE FROM choice WHERE id NOT IN (SELECT choice FROM variant)
                     AND id NOT IN (SELECT decode FROM variant WHERE decode IS NOT NULL);
DELETE FROM family WHERE id NOT IN (SELECT family FROM choice);
DELETE FROM ran WHERE id NOT IN (SELECT ran FROM measurement);
DELETE FROM ending WHERE id NOT IN (SELECT ending FROM ran);
DELETE FROM build WHERE id NOT IN (SELECT build FROM ran);
DELETE FROM code WHERE id NOT IN (SELECT code FROM build);
DROP INDEX by_variant;
DROP INDEX by_ran;
DROP INDEX by_ending;
DROP INDEX by_controlled;
DROP INDEX by_decode;
DELETE FROM run WHERE id NOT IN (SELECT run FROM race) AND id NOT IN (SELECT run FROM ceiling)
                  AND id NOT IN (SELECT run FROM temp.benched);
DELETE FROM device WHERE id NOT IN (SELECT device FROM run);
