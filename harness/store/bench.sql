-- SPDX-License-Identifier: Apache-2.0
-- bench.sql - what attune bench timed, one row for each scenario and policy of a run. The table is
-- created with its first row, so it is not in schema.sql. No tree learns from these rows, and no
-- score uses them. The rows of a run and scenario were timed in the same rounds; policies that picked the
-- same plan share one time.

CREATE TABLE IF NOT EXISTS bench (
  id       INTEGER PRIMARY KEY,
  run      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  scenario INTEGER NOT NULL REFERENCES scenario,
  policy   TEXT NOT NULL CHECK (policy <> ''), -- attune: the library, called as users call it
  plan     TEXT NOT NULL,                      -- what ran
  sources  TEXT NOT NULL,                      -- of its binaries, as of table code
  outcome  TEXT NOT NULL,                      -- as of table ending
  samples  INTEGER CHECK (samples > 0),
  median   INTEGER CHECK (median > 0),         -- nanoseconds
  ci       INTEGER CHECK (ci >= 0),            -- half-width of the median's 95 % interval
  UNIQUE (run, scenario, policy),
  CHECK ((median IS NULL) = (samples IS NULL))
) STRICT;
