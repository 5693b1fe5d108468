-- SPDX-License-Identifier: Apache-2.0
-- version_8.sql - a database of version 8, for t_store_versions.c: its tables, and rows of every kind.

PRAGMA application_id = 1635021934;
PRAGMA user_version = 8;
CREATE TABLE device (
  id             INTEGER PRIMARY KEY,
  gpu            TEXT NOT NULL CHECK (gpu <> ''),
  name           TEXT NOT NULL CHECK (name <> ''),
  arch           TEXT NOT NULL,
  units          INTEGER NOT NULL CHECK (units > 0),
  memory_gib     INTEGER NOT NULL CHECK (memory_gib >= 0),
  machine        TEXT NOT NULL,
  lanes          INTEGER NOT NULL,
  smem_per_block INTEGER NOT NULL,
  smem_per_unit  INTEGER NOT NULL,
  l2_bytes       INTEGER NOT NULL,
  UNIQUE (gpu, name, arch, units, memory_gib, machine)
) STRICT;
CREATE TABLE run (
  id               INTEGER PRIMARY KEY,
  uid              TEXT NOT NULL UNIQUE,
  device           INTEGER NOT NULL REFERENCES device,
  card             TEXT,
  driver           TEXT NOT NULL,
  memory_bytes     INTEGER NOT NULL,
  clock_mhz        INTEGER CHECK (clock_mhz > 0),
  memory_clock_mhz INTEGER CHECK (memory_clock_mhz > 0),
  power_limit_w    REAL CHECK (power_limit_w > 0 AND power_limit_w < 1e6),
  built            TEXT NOT NULL,
  compiled         TEXT NOT NULL,
  commit_id        TEXT NOT NULL,
  sources          TEXT NOT NULL CHECK (sources IN ('committed', 'modified', 'unknown',
                                                    'modified before 6', 'set by hand')),
  toolkit          TEXT NOT NULL,
  protocol         TEXT NOT NULL,
  command          TEXT NOT NULL,
  dram_gbps        REAL CHECK (dram_gbps > 0 AND dram_gbps < 1e9),
  fma_tflops       REAL CHECK (fma_tflops > 0 AND fma_tflops < 1e9),
  started          TEXT
) STRICT;
CREATE TABLE scenario (
  id              INTEGER PRIMARY KEY,
  model           TEXT NOT NULL CHECK (model <> ''),
  batch           TEXT NOT NULL CHECK (batch <> ''),
  page_size       INTEGER NOT NULL CHECK (page_size > 0),
  dtype           TEXT NOT NULL CHECK (dtype IN ('F32', 'F16', 'BF16')),
  kv_dtype        TEXT NOT NULL CHECK (kv_dtype IN ('F32', 'F16', 'BF16', 'E4M3')),
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
  num_seqs        INTEGER NOT NULL CHECK (num_seqs > 0),
  query_tokens    INTEGER NOT NULL,
  max_query       INTEGER NOT NULL,
  kv_tokens       INTEGER NOT NULL,
  max_seq         INTEGER NOT NULL
) STRICT;
CREATE INDEX scenario_size ON scenario (kv_tokens, query_tokens, max_seq, num_seqs);
CREATE TABLE phase (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO phase VALUES (0, 'all'), (1, 'prefill'), (2, 'decode'), (3, 'plan');
CREATE TABLE work (
  scenario INTEGER NOT NULL REFERENCES scenario,
  phase    INTEGER NOT NULL REFERENCES phase,
  bytes    REAL NOT NULL CHECK (bytes >= 0),
  flops    REAL NOT NULL CHECK (flops >= 0),
  PRIMARY KEY (scenario, phase)
) STRICT, WITHOUT ROWID;
CREATE TABLE choice (
  id     INTEGER PRIMARY KEY,
  kernel TEXT NOT NULL CHECK (kernel <> ''),
  text   TEXT NOT NULL,
  digest INTEGER NOT NULL UNIQUE
) STRICT;
CREATE TABLE variant (
  id     INTEGER PRIMARY KEY,
  choice INTEGER NOT NULL REFERENCES choice,
  decode INTEGER REFERENCES choice,
  how    TEXT NOT NULL CHECK (how IN ('', '|', '||')),
  CHECK ((how = '') = (decode IS NULL))
) STRICT;
CREATE UNIQUE INDEX variant_parts ON variant (choice, how, ifnull(decode, 0));
CREATE TABLE code (
  id      INTEGER PRIMARY KEY,
  sources TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE build (
  id          INTEGER PRIMARY KEY,
  arch        TEXT NOT NULL,
  flags       TEXT NOT NULL,
  code        INTEGER NOT NULL REFERENCES code,
  registers   INTEGER NOT NULL CHECK (registers >= -1),
  spill_bytes INTEGER NOT NULL CHECK (spill_bytes >= -1)
) STRICT;
CREATE INDEX build_code ON build (code, registers, spill_bytes);
CREATE TABLE stage (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  pass TEXT NOT NULL CHECK (pass IN ('A', 'B', 'E'))
) STRICT;
INSERT INTO stage VALUES (1, 'race', 'A'), (2, 'complete', 'A'), (3, 'cold', 'A'),
                         (4, 'refine', 'A'), (5, 'audit', 'A'), (6, 'b', 'B'), (7, 'early', 'E');
CREATE TABLE race (
  id         INTEGER PRIMARY KEY,
  run        INTEGER NOT NULL REFERENCES run,
  scenario   INTEGER NOT NULL REFERENCES scenario,
  phase      INTEGER NOT NULL REFERENCES phase,
  stage      INTEGER NOT NULL REFERENCES stage,
  mhz_before REAL CHECK (mhz_before > 0 AND mhz_before < 1e6),
  mhz_after  REAL CHECK (mhz_after > 0 AND mhz_after < 1e6),
  power_w    REAL CHECK (power_w > 0 AND power_w < 1e6),
  UNIQUE (scenario, phase, run, stage)
) STRICT;
CREATE TABLE ending (
  id      INTEGER PRIMARY KEY,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'noisy', 'wrong', 'nan', 'resources', 'compile',
                                           'timeout', 'crash', 'illegal')),
  stopped TEXT NOT NULL,
  samples INTEGER NOT NULL CHECK (samples >= 0),
  UNIQUE (outcome, stopped, samples)
) STRICT;
CREATE TABLE measurement (
  race    INTEGER NOT NULL REFERENCES race,
  variant INTEGER NOT NULL REFERENCES variant,
  newest  INTEGER NOT NULL CHECK (newest IN (0, 1)),
  build   INTEGER NOT NULL REFERENCES build,
  ending  INTEGER NOT NULL REFERENCES ending,
  median  INTEGER CHECK (median > 0),
  below   INTEGER CHECK (below >= 0),
  ci      INTEGER CHECK (ci >= 0),
  ratio   INTEGER CHECK (ratio > 0),
  PRIMARY KEY (race, variant),
  CHECK ((median IS NULL) = (below IS NULL) AND below < median)
) STRICT, WITHOUT ROWID;
CREATE TABLE reading (
  race       INTEGER NOT NULL,
  variant    INTEGER NOT NULL,
  mhz_before REAL CHECK (mhz_before > 0 AND mhz_before < 1e6),
  mhz_after  REAL CHECK (mhz_after > 0 AND mhz_after < 1e6),
  power_w    REAL CHECK (power_w > 0 AND power_w < 1e6),
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE failure (
  race    INTEGER NOT NULL,
  variant INTEGER NOT NULL,
  detail  TEXT NOT NULL,
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE sample (
  race     INTEGER NOT NULL,
  variant  INTEGER NOT NULL,
  calls    INTEGER NOT NULL CHECK (calls > 0),
  rejected INTEGER NOT NULL CHECK (rejected >= 0),
  us       BLOB NOT NULL CHECK (length(us) > 0 AND length(us) % 4 = 0),
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE control (
  race    INTEGER NOT NULL REFERENCES race,
  variant INTEGER NOT NULL REFERENCES variant,
  median  INTEGER NOT NULL CHECK (median > 0),
  ratio   REAL NOT NULL CHECK (ratio > 0 AND ratio < 1e12),
  PRIMARY KEY (race, variant)
) STRICT, WITHOUT ROWID;
CREATE TABLE ceiling (
  id     INTEGER PRIMARY KEY,
  run    INTEGER NOT NULL REFERENCES run,
  name   TEXT NOT NULL CHECK (name <> ''),
  detail TEXT NOT NULL,
  value  REAL NOT NULL CHECK (value > 0 AND value < 1e12),
  unit   TEXT NOT NULL CHECK (unit IN ('GB/s', 'us')),
  UNIQUE (run, name, detail, unit)
) STRICT;
CREATE TABLE bridge (
  id      INTEGER PRIMARY KEY,
  kernel  TEXT NOT NULL CHECK (kernel <> ''),
  old     TEXT NOT NULL CHECK (old <> ''),
  new     TEXT NOT NULL CHECK (new <> old),
  arch    TEXT NOT NULL,
  flags   TEXT NOT NULL,
  how     TEXT NOT NULL CHECK (how IN ('code', 'race')),
  gpu     TEXT NOT NULL,
  batches INTEGER NOT NULL CHECK (batches >= 0),
  mean    REAL CHECK (mean > 0),
  p95     REAL CHECK (p95 >= 0),
  toolkit TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  UNIQUE (kernel, old, new, arch, flags, how, gpu)
) STRICT;
CREATE TABLE bridge_race (
  bridge INTEGER NOT NULL REFERENCES bridge ON DELETE CASCADE,
  model  TEXT NOT NULL,
  batch  TEXT NOT NULL,
  phase  INTEGER NOT NULL REFERENCES phase,
  choice TEXT NOT NULL,
  old    INTEGER NOT NULL CHECK (old > 0),
  ratio  REAL NOT NULL CHECK (ratio > 0),
  PRIMARY KEY (bridge, model, batch, phase, choice)
) STRICT, WITHOUT ROWID;
CREATE TABLE seal (
  device INTEGER PRIMARY KEY REFERENCES device ON DELETE CASCADE,
  hash   TEXT NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE VIEW history AS
SELECT d.gpu, s.model, s.batch, s.page_size, s.dtype, p.name AS phase,
       CASE WHEN v.decode IS NOT NULL
            THEN rtrim('prefill: ' || h.kernel || ' ' || h.text) || ' ' || v.how || ' decode: ' ||
                 rtrim(o.kernel || ' ' || o.text)
            ELSE iif(c.phase = 0, '', p.name || ': ') || rtrim(h.kernel || ' ' || h.text)
       END AS plan,
       iif(v.decode IS NULL, h.kernel, 'plan') AS kernel,
       CASE WHEN v.decode IS NOT NULL
            THEN rtrim('prefill: ' || h.kernel || ' ' || h.text) || ' ' || v.how || ' decode: ' ||
                 rtrim(o.kernel || ' ' || o.text)
            ELSE h.text END AS variant,
       e.outcome, m.median / 1e6 AS median_us, (m.median - m.below) / 1e6 AS min_us,
       m.ci / 1e6 AS ci_us, m.ratio / 1e8 AS ratio, w.bytes * 1e3 / m.median AS gbps,
       w.flops / m.median AS tflops, w.bytes * 1e3 / m.median / r.dram_gbps AS share_of_dram,
       w.flops / m.median / r.fma_tflops AS share_of_fma,
       iif(g.race IS NULL, c.power_w, g.power_w) * m.median / 1e12 AS joules,
       iif(g.race IS NULL, c.power_w, g.power_w) AS power_w,
       iif(g.race IS NULL, c.mhz_before, g.mhz_before) AS sm_mhz_before,
       iif(g.race IS NULL, c.mhz_after, g.mhz_after) AS sm_mhz_after,
       nullif(e.samples, 0) AS samples, nullif(e.stopped, '') AS stopped, f.detail,
       t.name AS stage, t.pass,
       s.set_name, s.split, s.weight, s.steps, s.kv_dtype, s.layout, s.seed, s.num_query_heads,
       s.num_kv_heads, s.head_size, s.causal, s."window", s.scale, s.softcap, s.has_sinks,
       s.has_alibi, s.num_seqs, s.query_tokens, s.max_query, s.kv_tokens, s.max_seq, r.protocol,
       d.name AS device_name, d.arch, d.units, r.card, r.driver, r.toolkit, r.commit_id,
       r.sources AS commit_state, r.started, b.flags, k.sources AS source,
       (SELECT group_concat(DISTINCT x.how || iif(x.gpu IN ('', d.gpu), '', ' on ' || x.gpu))
        FROM bridge AS x WHERE instr(k.sources, x.kernel || ':' || x.old) AND x.arch = b.arch
        AND x.flags IN ('', b.flags)) AS bridged, b.registers, b.spill_bytes, m.newest,
       r.device AS device_id, c.run AS run_id, c.scenario AS scenario_id, m.race AS race_id,
       m.variant AS variant_id
FROM scenario AS s
JOIN race AS c ON c.scenario = s.id
JOIN measurement AS m ON m.race = c.id
JOIN run AS r ON r.id = c.run
JOIN device AS d ON d.id = r.device
JOIN phase AS p ON p.id = c.phase
JOIN stage AS t ON t.id = c.stage
JOIN ending AS e ON e.id = m.ending
JOIN variant AS v ON v.id = m.variant
JOIN choice AS h ON h.id = v.choice
JOIN build AS b ON b.id = m.build
JOIN code AS k ON k.id = b.code
LEFT JOIN choice AS o ON o.id = v.decode
LEFT JOIN work AS w ON w.scenario = c.scenario AND w.phase = c.phase
LEFT JOIN reading AS g ON g.race = m.race AND g.variant = m.variant
LEFT JOIN failure AS f ON f.race = m.race AND f.variant = m.variant;
CREATE VIEW newest AS SELECT * FROM history WHERE newest = 1;
CREATE VIEW timings AS SELECT * FROM newest WHERE pass = 'A';
CREATE VIEW confirmed AS SELECT * FROM newest WHERE pass = 'B';
CREATE VIEW fastest AS
SELECT r.device AS device_id, r.protocol, c.scenario AS scenario_id, c.phase AS phase_id,
       min(q.median) AS median, q.race AS race_id, q.variant AS variant_id
FROM (SELECT race, variant, min(median) AS median FROM measurement
      WHERE newest = 1 AND ending IN (SELECT id FROM ending WHERE outcome = 'ok')
      GROUP BY race) AS q
JOIN race AS c ON c.id = q.race
JOIN stage AS t ON t.id = c.stage AND t.pass = 'A'
JOIN run AS r ON r.id = c.run
GROUP BY r.device, r.protocol, c.scenario, c.phase;
CREATE VIEW best AS
SELECT h.* FROM fastest AS f
CROSS JOIN history AS h ON h.race_id = f.race_id AND h.variant_id = f.variant_id;
CREATE VIEW regret AS
SELECT h.gpu, h.model, h.batch, h.page_size, h.dtype, h.phase, h.plan, h.kernel, h.variant,
       h.median_us, f.median / 1e6 AS best_us, h.median_us * 1e6 / f.median AS slowdown,
       h.median_us * 1e6 / f.median - 1 AS regret, h.set_name, h.split, h.weight, h.kv_dtype,
       h.layout, h.seed, h.protocol, h.device_id, h.scenario_id, h.race_id, h.variant_id
FROM timings AS h
JOIN fastest AS f ON f.device_id = h.device_id AND f.protocol = h.protocol
                 AND f.scenario_id = h.scenario_id
                 AND f.phase_id = (SELECT id FROM phase WHERE name = h.phase)
WHERE h.outcome = 'ok';
CREATE VIEW failures AS
SELECT * FROM newest WHERE outcome NOT IN ('ok', 'noisy');
CREATE VIEW noise AS
WITH pair AS (
  SELECT r.device AS device_id, r.protocol,
         CASE WHEN a.median < 20000000 THEN '< 20 us' WHEN a.median < 200000000 THEN '< 200 us'
         ELSE '>= 200 us' END AS band, abs(a.ratio - 1) AS off
  FROM control AS a JOIN race AS c ON c.id = a.race JOIN run AS r ON r.id = c.run),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY device_id, protocol, band ORDER BY off) AS place,
         count(*) OVER (PARTITION BY device_id, protocol, band) AS pairs
  FROM pair)
SELECT d.gpu, n.protocol, n.band, n.pairs, max(0.005, min(n.off)) AS floor, n.device_id
FROM ranked AS n JOIN device AS d ON d.id = n.device_id
WHERE 100 * n.place >= 95 * n.pairs
GROUP BY n.device_id, n.protocol, n.band;
CREATE TABLE IF NOT EXISTS bench (
  id       INTEGER PRIMARY KEY,
  run      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  scenario INTEGER NOT NULL REFERENCES scenario,
  policy   TEXT NOT NULL CHECK (policy <> ''),
  plan     TEXT NOT NULL,
  sources  TEXT NOT NULL,
  outcome  TEXT NOT NULL,
  samples  INTEGER CHECK (samples > 0),
  median   INTEGER CHECK (median > 0),
  ci       INTEGER CHECK (ci >= 0),
  UNIQUE (run, scenario, policy),
  CHECK ((median IS NULL) = (samples IS NULL))
) STRICT;

INSERT INTO device VALUES (1, 'h200', 'NVIDIA H200', 'sm_90', 132, 140, '', 32, 232448, 233472, 62914560);
INSERT INTO run VALUES
	(1, 'aa', 1, NULL, '580.1', 150000000000, 1980, 3201, 700, '', '', 'abcd', 'committed', 'nvrtc 13.0',
		'graph-rotating', 'attune sweep', 4000, 60, '2026-11-01T00:00:00Z'),
	(2, 'bb', 1, NULL, '580.1', 150000000000, 1980, 3201, 700, '', '', 'abcd', 'committed', 'nvrtc 13.0',
		'graph-rotating', 'attune sweep', 4000, 60, '2026-11-02T00:00:00Z');
INSERT INTO scenario VALUES (1, 'llama3.1-8b@1', '8q1s2k', 16, 'BF16', 'BF16', 'NHD', 1, 32, 8, 128, 1, 0, 0.088,
	0, 0, 0, 'steps', 'train', 1, 0, 8, 8, 1, 16384, 2048);
INSERT INTO work VALUES (1, 0, 6.6e7, 2.6e8), (1, 2, 6.6e7, 2.6e8), (1, 3, 6.6e7, 2.6e8);
INSERT INTO choice VALUES (1, 'segmented', 'BLOCK_M=16 SEGMENTS=4 EARLY=1', 11),
	(2, 'segmented', 'BLOCK_M=16 SEGMENTS=32 EARLY=1', 12), (3, 'qblock', 'BLOCK_M=192', 13),
	(4, 'mine', 'PREFILL_SEGMENTS=2 DECODE_SEGMENTS=3', 14), (5, 'mine', 'SEGMENTS=08', 15), (6, 'mine', '', 16);
INSERT INTO variant VALUES (1, 1, NULL, ''), (2, 2, NULL, ''), (3, 3, NULL, ''), (4, 4, NULL, ''), (5, 5, NULL, ''),
	(6, 6, NULL, ''), (7, 3, 1, '||');
INSERT INTO code VALUES (1, 'segmented:0');
INSERT INTO build VALUES (1, 'sm_90', '-DHEAD_SIZE=128', 1, 128, 0), (2, 'sm_90', '', 1, -1, -1);
INSERT INTO ending VALUES (1, 'ok', 'rounds', 9), (2, 'wrong', '', 0), (3, 'noisy', 'budget', 3);
INSERT INTO race VALUES (1, 1, 1, 2, 1, 1980.0, 1965.0, 285.233), (2, 2, 1, 2, 2, 1980.0, NULL, NULL),
	(3, 2, 1, 3, 1, NULL, NULL, 300.5);
INSERT INTO measurement VALUES
	(1, 1, 0, 1, 1, 11000000, 1000000, 250499, 100000000),
	(1, 2, 1, 1, 1, 12345678, 12345, NULL, 112233445),
	(1, 3, 1, 1, 1, 5500400, 0, NULL, 667700),
	(1, 4, 1, 1, 2, NULL, NULL, NULL, NULL),
	(2, 1, 1, 1, 1, 147676483154, 500000000, NULL, 100000000),
	(2, 5, 1, 1, 1, 400, 399, NULL, 100000400),
	(2, 6, 1, 1, 3, 10500000, 500, NULL, 99999700),
	(3, 7, 1, 2, 1, 40000000, 100000, NULL, 24251403213);
INSERT INTO reading VALUES (3, 7, 1900.0, 1905.0, 250.25);
INSERT INTO failure VALUES (1, 4, 'sequence 1, token 3');
INSERT INTO sample VALUES (1, 1, 10, 0, x'00002041');
INSERT INTO control VALUES (1, 1, 11000000, 1.0123456);
INSERT INTO ceiling VALUES (1, 1, 'read', 'path=async', 4000, 'GB/s');
INSERT INTO bridge VALUES (1, 'segmented', '0', '1', 'sm_90', '', 'race', 'h200', 1, 1, 0, 'nvrtc', 'abcd');
INSERT INTO bridge_race VALUES (1, 'llama3.1-8b@1', '8q1s2k', 2, 'segmented', 11000000, 1);
INSERT INTO bench VALUES (1, 1, 1, 'attune', 'x', 'x', 'ok', 9, 10500400, 250600), (2, 1, 1, 'other', 'x', 'x', 'crash',
	NULL, NULL, NULL);
INSERT INTO seal VALUES (1, '00000000000000000000000000000000');
