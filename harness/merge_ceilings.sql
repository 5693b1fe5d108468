-- merge_ceilings.sql - after merge.sql: what `src` knows of ceilings. A src older than version 4
-- has no such table, and this is left out.

INSERT INTO ceiling (run, name, detail, value, unit)
SELECT r.id, c.name, c.detail, c.value, c.unit
FROM src.ceiling AS c
JOIN src.run AS ro ON ro.id = c.run
JOIN main.run AS r ON r.uid = ro.uid
WHERE true ORDER BY c.id
ON CONFLICT DO NOTHING;
