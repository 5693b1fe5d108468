-- migrate_3.sql - a database of version 3 to version 4, which has one table more, as in
-- schema.sql; no row moves.

-- What a device gives whoever asks in the best way: attune bench --roofline. detail says how
-- it was asked, name=value and a blank between two.
CREATE TABLE ceiling (
  id     INTEGER PRIMARY KEY,
  run    INTEGER NOT NULL REFERENCES run,
  name   TEXT NOT NULL CHECK (name <> ''),   -- read, cold, cached; a launch of some kind
  detail TEXT NOT NULL,                      -- "path=async kib=64 blocks=132"
  value  REAL NOT NULL CHECK (value > 0 AND value < 1e12),
  unit   TEXT NOT NULL CHECK (unit IN ('GB/s', 'us')),
  UNIQUE (run, name, detail, unit)
) STRICT;
