-- basis.sql - the rules that a device's header began from, by attune tune. Not a part of schema.sql: a
-- database has such a table from its first row on.

CREATE TABLE IF NOT EXISTS basis (
  device    INTEGER NOT NULL REFERENCES device ON DELETE CASCADE,
  header    TEXT NOT NULL CHECK (header <> ''), -- whose: "h100", "h100_e4m3"
  incumbent TEXT NOT NULL,   -- name of the header that was in use: "h200"; '': kernels' defaults
  rules     TEXT NOT NULL,   -- its text as attune induce wrote it; '': kernels' defaults
  prior     TEXT NOT NULL,   -- GPU whose times are learned from, too; '': none
  PRIMARY KEY (device, header)
) STRICT, WITHOUT ROWID;
