-- SPDX-License-Identifier: Apache-2.0
-- basis.sql - the rules that a device's header started from, by attune tune. Not a part of
-- schema.sql: the table is created with its first row.

CREATE TABLE IF NOT EXISTS basis (
  device    INTEGER NOT NULL REFERENCES device ON DELETE CASCADE,
  header    TEXT NOT NULL CHECK (header <> ''), -- the header's name: "h100", "h100_e4m3"
  incumbent TEXT NOT NULL,   -- name of the header that was in use: "h200"; '': kernels' defaults
  rules     TEXT NOT NULL,   -- its text as attune induce wrote it; '': kernels' defaults
  prior     TEXT NOT NULL,   -- a GPU; its times are also learned from; '': none
  PRIMARY KEY (device, header)
) STRICT, WITHOUT ROWID;
