-- migrate_2.sql - a database of version 2 to version 3, which knows the layout CLASSIC, too.
-- What a version 2 holds satisfies the wider check, so that its text alone changes; no row
-- moves.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, 'CHECK (layout IN (''NHD'', ''HND''))',
                  'CHECK (layout IN (''NHD'', ''HND'', ''CLASSIC''))')
WHERE type = 'table' AND name = 'scenario';
PRAGMA writable_schema = RESET;
