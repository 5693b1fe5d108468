-- migrate_4.sql - a database of version 4 to version 5, where what sweep --early measures has a
-- stage of its own and is no newer row of what a race measured. Rows stay where they are.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''refine'', ''audit'', ''b'')', '''refine'', ''audit'', ''b'', ''early'')')
WHERE type = 'table' AND name IN ('measurement', 'control');
UPDATE sqlite_schema
SET sql = replace(sql, 'iif(m.stage = ''b'', ''B'', ''A'')',
                  'CASE m.stage WHEN ''b'' THEN ''B'' WHEN ''early'' THEN ''E'' ELSE ''A'' END')
WHERE type = 'view' AND name = 'history';
UPDATE sqlite_schema
SET sql = replace(sql, 'm.stage = ''b''', 'm.stage = ''b'', m.stage = ''early''')
WHERE type = 'view' AND name = 'newest';
PRAGMA writable_schema = RESET;

UPDATE measurement SET stage = 'early'
WHERE stage = 'refine' AND run IN (SELECT id FROM run WHERE command GLOB 'attune sweep*--early*');
UPDATE control SET stage = 'early'
WHERE stage = 'refine' AND run IN (SELECT id FROM run WHERE command GLOB 'attune sweep*--early*');
