-- SPDX-License-Identifier: Apache-2.0
-- resources.sql - the resources that binaries take of a GPU, by attune sweep --compile-only, which
-- needs no GPU. Not a part of schema.sql: a database of measurements has no such table.
-- NULL means not known.

CREATE TABLE IF NOT EXISTS resources (
  gpu          TEXT NOT NULL CHECK (gpu <> ''),
  arch         TEXT NOT NULL,
  compiler     TEXT NOT NULL,          -- "clang 22.1.8"
  kernel       TEXT NOT NULL,
  flags        TEXT NOT NULL,          -- as of build
  source       TEXT NOT NULL,          -- as of build
  outcome      TEXT NOT NULL CHECK (outcome IN ('ok', 'compile', 'resources')),
  why          TEXT,                   -- why a sweep would not run it
  registers    INTEGER,                -- of a thread: on AMD GPUs VGPRs and AGPRs
  agprs        INTEGER,
  sgprs        INTEGER,                -- of a wave
  spills       INTEGER,                -- registers
  scratch      INTEGER,                -- bytes of a thread's own memory
  smem_static  INTEGER,                -- bytes of a block
  smem_dynamic INTEGER,
  threads      INTEGER,                -- of a block
  blocks       INTEGER,                -- resident on a unit
  waves        INTEGER,                -- on AMD GPUs: resident on a SIMD
  PRIMARY KEY (gpu, compiler, kernel, flags, source)
) STRICT;
