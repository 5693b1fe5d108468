-- store_v5.sql - a small results database of version 5, as its schema was, for the tests that bring
-- it and its predecessors up to date.

CREATE TABLE device (
  id             INTEGER PRIMARY KEY,
  gpu            TEXT NOT NULL CHECK (gpu <> ''),      -- short name: h200, cpu
  name           TEXT NOT NULL CHECK (name <> ''),
  arch           TEXT NOT NULL,
  units          INTEGER NOT NULL CHECK (units > 0),   -- SMs, or threads
  lanes          INTEGER NOT NULL,
  smem_per_block INTEGER NOT NULL,
  smem_per_unit  INTEGER NOT NULL,
  l2_bytes       INTEGER NOT NULL,
  UNIQUE (gpu, name, arch, units)
) STRICT;

-- One invocation: what may change from one to the next on the same device.
CREATE TABLE run (
  id               INTEGER PRIMARY KEY,
  uid              TEXT NOT NULL UNIQUE,   -- random: the same run in two databases
  device           INTEGER NOT NULL REFERENCES device,
  driver           TEXT NOT NULL,
  memory_bytes     INTEGER NOT NULL,
  clock_mhz        INTEGER CHECK (clock_mhz > 0),
  memory_clock_mhz INTEGER CHECK (memory_clock_mhz > 0),
  power_limit_w    REAL CHECK (power_limit_w > 0 AND power_limit_w < 1e6),
  commit_id        TEXT NOT NULL,
  toolkit          TEXT NOT NULL,
  protocol         TEXT NOT NULL,          -- cold or warm, graph or stream
  command          TEXT NOT NULL,
  dram_gbps        REAL CHECK (dram_gbps > 0 AND dram_gbps < 1e9),   -- measured ceilings
  fma_tflops       REAL CHECK (fma_tflops > 0 AND fma_tflops < 1e9),
  started          TEXT
) STRICT;

-- One batch for one model shape. set_name, split, weight and steps are labels:
-- the newest ones hold, and they do not make another scenario. steps: of an
-- engine that it stands for; 0 where that is not known. A model whose name ends with
-- +lse gives the LSE, too.
CREATE TABLE scenario (
  id              INTEGER PRIMARY KEY,
  model           TEXT NOT NULL CHECK (model <> ''),
  batch           TEXT NOT NULL CHECK (batch <> ''),
  page_size       INTEGER NOT NULL CHECK (page_size > 0),
  dtype           TEXT NOT NULL CHECK (dtype IN ('F32', 'F16', 'BF16')),
  kv_dtype        TEXT NOT NULL,
  layout          TEXT NOT NULL CHECK (layout IN ('NHD', 'HND', 'CLASSIC')),
  seed            INTEGER NOT NULL,
  num_query_heads INTEGER NOT NULL CHECK (num_query_heads > 0),
  num_kv_heads    INTEGER NOT NULL CHECK (num_kv_heads > 0),
  head_size       INTEGER NOT NULL CHECK (head_size > 0),
  causal          INTEGER NOT NULL CHECK (causal IN (0, 1)),
  "window"        INTEGER NOT NULL CHECK ("window" >= 0),
  scale           REAL NOT NULL,
  softcap         REAL NOT NULL CHECK (softcap >= 0),
  has_sinks       INTEGER NOT NULL CHECK (has_sinks IN (0, 1)),
  has_alibi       INTEGER NOT NULL CHECK (has_alibi IN (0, 1)),
  set_name        TEXT NOT NULL,
  split           TEXT NOT NULL,
  weight          REAL NOT NULL CHECK (weight >= 0 AND weight < 1e12),
  steps           REAL NOT NULL CHECK (steps >= 0 AND steps < 1e12),
  num_seqs        INTEGER NOT NULL CHECK (num_seqs > 0),   -- told by batch, from here on
  query_tokens    INTEGER NOT NULL,
  max_query       INTEGER NOT NULL,
  kv_tokens       INTEGER NOT NULL,
  max_seq         INTEGER NOT NULL,
  UNIQUE (model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads, num_kv_heads,
          head_size, causal, "window", scale, softcap, has_sinks, has_alibi)
) STRICT;

-- Kernel 'plan' stands for a whole composed plan, "prefill: ... | decode: ...".
CREATE TABLE variant (
  id     INTEGER PRIMARY KEY,
  kernel TEXT NOT NULL CHECK (kernel <> ''),
  choice TEXT NOT NULL,                    -- "BLOCK_M=16 TILE_SIZE=64 ..."
  UNIQUE (kernel, choice)
) STRICT;

CREATE TABLE build (
  id          INTEGER PRIMARY KEY,
  arch        TEXT NOT NULL,
  flags       TEXT NOT NULL,               -- "-DHEAD_SIZE=128 ..."
  source      TEXT NOT NULL,               -- hash of the source and all it includes
  registers   INTEGER NOT NULL CHECK (registers >= -1),   -- -1: not known
  spill_bytes INTEGER NOT NULL CHECK (spill_bytes >= -1),
  UNIQUE (arch, flags, source, registers, spill_bytes)
) STRICT;

-- A time belongs to a right result: all of them are NULL unless the outcome is ok.
-- stage says why it was measured, and the pass: 'b' is B; 'early', launches that begin early
-- beside the same in turn, is E; else A. Quartiles are kept of three samples or more.
CREATE TABLE measurement (
  id            INTEGER PRIMARY KEY,
  run           INTEGER NOT NULL REFERENCES run,
  scenario      INTEGER NOT NULL REFERENCES scenario,
  phase         TEXT NOT NULL CHECK (phase IN ('all', 'prefill', 'decode', 'plan')),
  variant       INTEGER NOT NULL REFERENCES variant,
  build         INTEGER NOT NULL REFERENCES build,
  stage         TEXT NOT NULL CHECK (stage IN ('race', 'complete', 'cold', 'refine', 'audit', 'b', 'early')),
  outcome       TEXT NOT NULL CHECK (outcome IN ('ok', 'wrong', 'nan', 'resources', 'compile',
                                                 'timeout', 'crash', 'illegal')),
  samples       BLOB CHECK (length(samples) > 0 AND length(samples) % 4 = 0), -- float32 LE, us
  calls         INTEGER CHECK (calls > 0),  -- in one sample
  median_us     REAL CHECK (median_us > 0 AND median_us < 1e12),
  min_us        REAL CHECK (min_us > 0 AND min_us <= median_us),
  q25_us        REAL CHECK (q25_us > 0 AND q25_us < 1e12),
  q75_us        REAL CHECK (q75_us >= q25_us AND q75_us < 1e12),
  ci_us         REAL CHECK (ci_us >= 0 AND ci_us < 1e12),
  ratio         REAL CHECK (ratio > 0 AND ratio < 1e12),
  gbps          REAL CHECK (gbps >= 0 AND gbps < 1e9),
  tflops        REAL CHECK (tflops >= 0 AND tflops < 1e9),
  sm_mhz_before REAL CHECK (sm_mhz_before > 0 AND sm_mhz_before < 1e6),
  sm_mhz_after  REAL CHECK (sm_mhz_after > 0 AND sm_mhz_after < 1e6),
  power_w       REAL CHECK (power_w > 0 AND power_w < 1e6),
  rejected      INTEGER NOT NULL CHECK (rejected >= 0),
  stopped       TEXT,
  detail        TEXT,
  CHECK ((outcome = 'ok') = (median_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (min_us IS NOT NULL))
) STRICT;

CREATE INDEX cell ON measurement (scenario, variant, phase);

-- A/A pairs: a variant that ran in a race under two ids. ratio: of the second to the
-- first, the median over rounds.
CREATE TABLE control (
  id        INTEGER PRIMARY KEY,
  run       INTEGER NOT NULL REFERENCES run,
  scenario  INTEGER NOT NULL REFERENCES scenario,
  phase     TEXT NOT NULL CHECK (phase IN ('all', 'prefill', 'decode', 'plan')),
  variant   INTEGER NOT NULL REFERENCES variant,
  stage     TEXT NOT NULL CHECK (stage IN ('race', 'complete', 'cold', 'refine', 'audit', 'b', 'early')),
  median_us REAL NOT NULL CHECK (median_us > 0 AND median_us < 1e12),
  ratio     REAL NOT NULL CHECK (ratio > 0 AND ratio < 1e12)
) STRICT;

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

-- Every row ever measured, with its names.
CREATE VIEW history AS
SELECT d.gpu, s.model, s.batch, s.page_size, s.dtype, m.phase,
       CASE m.phase WHEN 'plan' THEN v.choice WHEN 'all' THEN rtrim(v.kernel || ' ' || v.choice)
       ELSE rtrim(m.phase || ': ' || v.kernel || ' ' || v.choice) END AS plan,
       v.kernel, v.choice AS variant, m.outcome, m.median_us, m.min_us, m.q25_us, m.q75_us,
       m.ci_us, m.ratio, m.gbps, m.tflops, m.gbps / r.dram_gbps AS share_of_dram,
       m.tflops / r.fma_tflops AS share_of_fma, m.power_w * m.median_us / 1e6 AS joules,
       m.power_w, m.sm_mhz_before, m.sm_mhz_after, length(m.samples) / 4 AS samples, m.calls,
       m.rejected, m.stopped, m.detail, m.stage, CASE m.stage WHEN 'b' THEN 'B' WHEN 'early' THEN 'E' ELSE 'A' END AS pass,
       s.set_name, s.split, s.weight, s.steps, s.kv_dtype, s.layout, s.seed, s.num_query_heads,
       s.num_kv_heads, s.head_size, s.causal, s."window", s.scale, s.softcap, s.has_sinks,
       s.has_alibi, s.num_seqs, s.query_tokens, s.max_query, s.kv_tokens, s.max_seq, r.protocol,
       d.name AS device_name, d.arch, d.units, r.driver, r.toolkit, r.commit_id, r.started,
       b.flags, b.source, b.registers, b.spill_bytes,
       r.device AS device_id, m.run AS run_id, m.scenario AS scenario_id, m.id AS measurement_id
FROM measurement AS m
JOIN run AS r ON r.id = m.run
JOIN device AS d ON d.id = r.device
JOIN scenario AS s ON s.id = m.scenario
JOIN variant AS v ON v.id = m.variant
JOIN build AS b ON b.id = m.build;

-- The newest row of every cell and pass.
CREATE VIEW newest AS
SELECT * FROM history WHERE measurement_id IN (
  SELECT id FROM (
    SELECT m.id, row_number() OVER (
             PARTITION BY r.device, r.protocol, m.scenario, m.phase, m.variant, m.stage = 'b', m.stage = 'early'
             ORDER BY m.run DESC, m.id DESC) AS age
    FROM measurement AS m JOIN run AS r ON r.id = m.run)
  WHERE age = 1);

CREATE VIEW timings AS SELECT * FROM newest WHERE pass = 'A';
CREATE VIEW confirmed AS SELECT * FROM newest WHERE pass = 'B';

-- What is right, against the fastest of its device, protocol, scenario and phase.
CREATE VIEW regret AS
SELECT gpu, model, batch, page_size, dtype, phase, plan, kernel, variant, median_us, best_us,
       median_us / best_us AS slowdown, median_us / best_us - 1 AS regret, set_name, split, weight,
       kv_dtype, layout, seed, protocol, place, device_id, scenario_id, measurement_id
FROM (SELECT *, min(median_us) OVER cell AS best_us, row_number() OVER cell AS place
      FROM timings WHERE outcome = 'ok'
      WINDOW cell AS (PARTITION BY device_id, protocol, scenario_id, phase
                      ORDER BY median_us, plan));

CREATE VIEW best AS
SELECT gpu, model, batch, page_size, dtype, phase, plan, kernel, variant, median_us, min_us, ci_us,
       gbps, tflops, share_of_dram, share_of_fma, joules, set_name, split, weight, kv_dtype,
       layout, seed, protocol, device_name, device_id, scenario_id, measurement_id
FROM timings WHERE measurement_id IN (SELECT measurement_id FROM regret WHERE place = 1);

CREATE VIEW failures AS
SELECT gpu, model, batch, page_size, dtype, phase, plan, kernel, variant, outcome, detail, flags,
       registers, spill_bytes, set_name, split, protocol, source, run_id, measurement_id
FROM timings WHERE outcome <> 'ok';

-- How much two times of the same differ, by bands of that time. floor is a share:
-- the 95th percentile of |ratio - 1| (nearest rank), and no less than 0.5 %.
CREATE VIEW noise AS
WITH pair AS (
  SELECT r.device AS device_id, r.protocol,
         CASE WHEN c.median_us < 20 THEN '< 20 us' WHEN c.median_us < 200 THEN '< 200 us'
         ELSE '>= 200 us' END AS band, abs(c.ratio - 1) AS off
  FROM control AS c JOIN run AS r ON r.id = c.run),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY device_id, protocol, band ORDER BY off) AS place,
         count(*) OVER (PARTITION BY device_id, protocol, band) AS pairs
  FROM pair)
SELECT d.gpu, n.protocol, n.band, n.pairs, max(0.005, min(n.off)) AS floor, n.device_id
FROM ranked AS n JOIN device AS d ON d.id = n.device_id
WHERE 100 * n.place >= 95 * n.pairs
GROUP BY n.device_id, n.protocol, n.band;

INSERT INTO device VALUES (1, 'h200', 'NVIDIA H200', 'sm_90', 132, 32, 232448, 233472, 62914560);
INSERT INTO run VALUES
  (1, 'first', 1, '580.1 / 13.0', 150109880320, 1980, 3201, 700.0, '0123abcd-dirty', 'nvrtc 13.0',
   'graph-rotating', 'attune sweep', 4000.0, 800.0, '2026-11-01T00:00:00Z'),
  (2, 'second', 1, '580.1 / 13.0', 150109880320, 1980, 3201, 700.0, '0123abcd', 'nvrtc 13.0',
   'graph-rotating', 'attune sweep --gpu h200 --early', NULL, NULL, '2026-11-02T00:00:00Z');
INSERT INTO scenario VALUES
  (3, 'llama3.1-8b@1', 'q1s1k', 16, 'BF16', 'BF16', 'NHD', 1, 32, 8, 128, 1, 0, 0.1, 0.0, 0, 0, 'h200',
   'train', 2.5, 4.0, 1, 1, 1, 1024, 1024),
  (4, 'llama3.1-8b@1', 'q64_q1s1k', 16, 'BF16', 'BF16', 'NHD', 1, 32, 8, 128, 1, 0, 0.1, 0.0, 0, 0,
   'h200', 'heldout', 1.0, 0.0, 2, 65, 64, 1088, 1024);
INSERT INTO variant VALUES
  (5, 'ring', 'BLOCK_M=8 SEGMENTS=4'), (6, 'naive', ''),
  (7, 'plan', 'prefill: qblock BLOCK_M=16 | decode: ring BLOCK_M=8 SEGMENTS=4'),
  (8, 'plan', 'prefill: naive || decode: ring BLOCK_M=8 SEGMENTS=4');
-- source: of ring with its reduction as commit decedb2 had it, of a pair of such, of no commit
INSERT INTO build VALUES
  (1, 'sm_90', '-DHEAD_SIZE=128', 'aca1d7e072ff590394a1ec0c95cbe740', 128, 0), (2, 'sm_90', '', 'd202ed08bfb48f830e8101d79971284c', -1, -1),
  (3, 'sm_90', '-DHEAD_SIZE=128', 'ffffffffffffffffffffffffffffffff', 64, 0);
INSERT INTO measurement VALUES
  (1, 1, 3, 'decode', 5, 1, 'race', 'ok', x'000020410000304100004041', 10, 11.0, 10.0, 10.5, 11.5, NULL,
   1.0, 1200.0, 3.5, 1980.0, 1980.0, 400.0, 1, 'tie', NULL),
  (2, 1, 3, 'decode', 6, 3, 'race', 'wrong', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   1980.0, 1980.0, 400.0, 0, NULL, 'out[3] = 1, want 2'),
  (3, 1, 3, 'decode', 5, 1, 'complete', 'ok', x'0000204100003041', 10, 10.5, 10.0, NULL, NULL, NULL, 0.75,
   1200.0, 3.5, 1980.0, 1965.0, 300.0, 0, 'beaten', NULL),
  (4, 2, 3, 'decode', 5, 1, 'early', 'ok', x'00000041', 10, 8.0, 8.0, NULL, NULL, NULL, 1.0, 1200.0, 3.5,
   1980.0, 1980.0, NULL, 0, 'rounds', NULL),
  (5, 1, 4, 'plan', 7, 2, 'race', 'ok', x'0000C842', 1, 100.0, 100.0, NULL, NULL, NULL, 1.0, 10.0, 3.5, NULL,
   NULL, NULL, 0, 'rounds', NULL),
  (6, 1, 4, 'plan', 8, 2, 'b', 'ok', x'0000C842', 1, 90.0, 90.0, NULL, NULL, NULL, 1.0, 10.0, 3.5, NULL,
   NULL, NULL, 0, 'rounds', NULL);
INSERT INTO control VALUES (1, 1, 3, 'decode', 5, 'race', 11.0, 1.01);
INSERT INTO ceiling VALUES (1, 1, 'read', 'path=async', 4000.0, 'GB/s');
PRAGMA application_id = 1635021934;
PRAGMA user_version = 5;
