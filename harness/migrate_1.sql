-- migrate_1.sql - a database of version 1 to today's: its tables step aside, schema.sql
-- runs in between (see store.c), and migrate_1_rows.sql carries their rows over.

DROP VIEW failures;
DROP VIEW best;
DROP VIEW regret;
DROP VIEW timings;
DROP VIEW history;
DROP INDEX cell;
ALTER TABLE measurement RENAME TO old_measurement;
ALTER TABLE build RENAME TO old_build;
ALTER TABLE variant RENAME TO old_variant;
ALTER TABLE scenario RENAME TO old_scenario;
ALTER TABLE run RENAME TO old_run;
ALTER TABLE device RENAME TO old_device;
