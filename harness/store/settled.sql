-- SPDX-License-Identifier: Apache-2.0
-- settled.sql - what the library settled by timing, from its files (attune merge --settled). Not a part
-- of schema.sql: the tables are created with their first row. Times of one row were taken in the same
-- rounds and are compared with each other alone, never with those of another row or of table measurement.
-- Ids are hashes of all that a row says, with its names and members: the same in any database.

-- A choice, or a plan of a mixed batch, with the kernel_hash() of each kernel: "ring BLOCK_M=8 ...",
-- "prefill: A | decode: B"; "-": whatever the library picked. And other texts that many rows share.
CREATE TABLE IF NOT EXISTS settled_name (
  id   INTEGER PRIMARY KEY,
  text TEXT NOT NULL CHECK (text <> ''),
  code TEXT NOT NULL                         -- of other texts ''
) STRICT;

CREATE TABLE IF NOT EXISTS settled (
  id       INTEGER PRIMARY KEY,
  device   INTEGER NOT NULL REFERENCES device ON DELETE CASCADE,
  protocol TEXT NOT NULL CHECK (protocol <> ''),            -- how times are taken: "settled"
  writer   INTEGER NOT NULL REFERENCES settled_name,        -- "version=0.2.0 rules=... driver=..."
  op       INTEGER NOT NULL REFERENCES settled_name,        -- the shape: "heads=32/8 ..."
  kind     TEXT NOT NULL CHECK (kind IN ('prefill', 'decode', 'mixed')),
  batch    TEXT NOT NULL CHECK (batch <> ''),
  first    INTEGER NOT NULL REFERENCES settled_name,        -- what the rules named
  winner   INTEGER NOT NULL CHECK (winner >= 0),            -- nr of the member that stayed
  again    INTEGER CHECK (again > 0),                       -- nanoseconds of member 0, a second time
  rounds   INTEGER NOT NULL CHECK (rounds > 0),
  settles  INTEGER NOT NULL CHECK (settles >= 0)            -- how many batches of the cell agreed
) STRICT;

-- Member 0 is what ran before the batch was settled.
CREATE TABLE IF NOT EXISTS settled_member (
  settled INTEGER NOT NULL REFERENCES settled ON DELETE CASCADE,
  nr      INTEGER NOT NULL CHECK (nr >= 0),
  -- Of a mixed batch "series", "streams" ...; else ''. Behind it steps of the numbers of segments, if any:
  -- "+1", "streams:+1:+0".
  way     TEXT NOT NULL,
  choice  INTEGER NOT NULL REFERENCES settled_name,
  median  INTEGER NOT NULL CHECK (median > 0),              -- nanoseconds
  PRIMARY KEY (settled, nr)
) STRICT, WITHOUT ROWID;
