-- migrate_aside.sql - renames the tables of a database before version 6. Then schema.sql creates
-- today's tables, and migrate_rows.sql copies the rows.

DROP VIEW IF EXISTS noise;
DROP VIEW IF EXISTS failures;
DROP VIEW IF EXISTS best;
DROP VIEW IF EXISTS regret;
DROP VIEW IF EXISTS confirmed;
DROP VIEW IF EXISTS timings;
DROP VIEW IF EXISTS newest;
DROP VIEW IF EXISTS history;
DROP INDEX cell;
ALTER TABLE measurement RENAME TO old_measurement;
ALTER TABLE control RENAME TO old_control;
ALTER TABLE ceiling RENAME TO old_ceiling;
ALTER TABLE build RENAME TO old_build;
ALTER TABLE variant RENAME TO old_variant;
ALTER TABLE scenario RENAME TO old_scenario;
ALTER TABLE run RENAME TO old_run;
ALTER TABLE device RENAME TO old_device;
