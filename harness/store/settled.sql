-- settled.sql - what the library settled by timing, from its files (attune merge --settled). Not a part
-- of schema.sql: the tables are created with their first row. Times of one row were taken in the same
-- rounds and are compared with each other alone, never with those of another row or of table measurement.

CREATE TABLE IF NOT EXISTS settled (
  id         INTEGER PRIMARY KEY,  -- a hash of the row and its members, the same in any database
  device     INTEGER NOT NULL REFERENCES device ON DELETE CASCADE,
  protocol   TEXT NOT NULL CHECK (protocol <> ''),   -- how times are taken: "settled"
  version    TEXT NOT NULL,        -- of the library that wrote the file, and a hash of its rules
  rules      TEXT NOT NULL,
  conditions TEXT NOT NULL,        -- "driver=580.159.04 sm_clock_mhz=1980": recorded only
  op         TEXT NOT NULL CHECK (op <> ''),         -- the shape: "heads=32/8 head_size=128 ..."
  kind       TEXT NOT NULL CHECK (kind IN ('prefill', 'decode', 'mixed')),
  batch      TEXT NOT NULL CHECK (batch <> ''),
  first      TEXT NOT NULL CHECK (first <> ''),      -- what the rules named, as settled_member.choice
  winner     INTEGER NOT NULL CHECK (winner >= 0),   -- nr of the member that stayed
  again      INTEGER CHECK (again > 0),              -- nanoseconds of the first member, a second time
  rounds     INTEGER NOT NULL CHECK (rounds > 0),
  settles    INTEGER NOT NULL CHECK (settles > 0)    -- how often it was settled
) STRICT;

-- Member 0 is what ran before the batch was settled.
CREATE TABLE IF NOT EXISTS settled_member (
  settled INTEGER NOT NULL REFERENCES settled ON DELETE CASCADE,
  nr      INTEGER NOT NULL CHECK (nr >= 0),
  way     TEXT NOT NULL,           -- of a mixed batch: "series", "streams", "sparing16" ...; else ''
  choice  TEXT NOT NULL CHECK (choice <> ''), -- "ring BLOCK_M=8 ..."; mixed: "prefill: A | decode: B"; "-":
                                   -- whatever the library picked
  code    TEXT NOT NULL CHECK (code <> ''),    -- kernel_hash() of each kernel of the choice
  median  INTEGER NOT NULL CHECK (median > 0), -- nanoseconds
  PRIMARY KEY (settled, nr)
) STRICT, WITHOUT ROWID;
