-- migrate_1.sql - gives a database of version 1 the columns and the table that version 2 added.
-- Version 1 only raced, without controls.

ALTER TABLE scenario ADD COLUMN steps REAL NOT NULL DEFAULT 0;
ALTER TABLE measurement ADD COLUMN stage TEXT NOT NULL DEFAULT 'race';
CREATE TABLE control (run INTEGER, scenario INTEGER, phase TEXT, variant INTEGER, stage TEXT,
                      median_us REAL, ratio REAL) STRICT;
