-- SPDX-License-Identifier: Apache-2.0
-- schema.sql - version 9 of a results database.
--
--   device <- run <- race -> scenario
--                     ^
--                     '- measurement -> variant -> choice -> family
--                     |       '-------> ran -> build -> code
--                     '- control             one variant twice in one race
--
-- The variants of a race were timed in the same rounds: one scenario and phase, in one stage of
-- one run. A cell is a variant in a (device, protocol, scenario, phase, pass). All its rows but the
-- newest are in table superseded, which writers maintain; they are history, and `attune merge
-- --compact` drops them. Heuristics learn from pass A (view timings) and are evaluated by pass B
-- (view confirmed); pass E compares early launches.
--
-- Databases are committed to git, so a row takes few bytes: times are integers in nanoseconds, and
-- other numbers have no more digits than a measurement has. Views have microseconds, watts and
-- plain ratios. NULL means not known. Values that follow from other columns (bandwidth, shares,
-- joules) are columns of views.
--
-- These statements also run in a database of version 8, before migrate.sql. It keeps its tables that
-- did not change, hence IF NOT EXISTS.

CREATE TABLE IF NOT EXISTS device (
  id             INTEGER PRIMARY KEY,
  gpu            TEXT NOT NULL CHECK (gpu <> ''),      -- short name: h200, cpu
  name           TEXT NOT NULL CHECK (name <> ''),
  arch           TEXT NOT NULL,                        -- sm_90, avx512
  units          INTEGER NOT NULL CHECK (units > 0),   -- SMs, or threads
  memory_gib     INTEGER NOT NULL CHECK (memory_gib >= 0),  -- of a GPU; a CPU: 0
  machine        TEXT NOT NULL,                        -- of a CPU: anonymous id; of a GPU: ''
  lanes          INTEGER NOT NULL,                     -- threads of a warp, or floats of a vector
  smem_per_block INTEGER NOT NULL,                     -- bytes
  smem_per_unit  INTEGER NOT NULL,
  l2_bytes       INTEGER NOT NULL,                     -- a CPU: of all L3 caches
  UNIQUE (gpu, name, arch, units, memory_gib, machine)
) STRICT;

-- One invocation, with all that may change between invocations on the same device.
CREATE TABLE IF NOT EXISTS run (
  id               INTEGER PRIMARY KEY,
  uid              TEXT NOT NULL UNIQUE,   -- random: identifies the run across databases
  device           INTEGER NOT NULL REFERENCES device,
  card             TEXT,                   -- anonymous id of the card; NULL: not known
  driver           TEXT NOT NULL,          -- its version; a CPU: that of the operating system
  memory_bytes     INTEGER NOT NULL,
  clock_mhz        INTEGER CHECK (clock_mhz > 0),          -- nominal, as the next
  memory_clock_mhz INTEGER CHECK (memory_clock_mhz > 0),
  power_limit_w    REAL CHECK (power_limit_w > 0 AND power_limit_w < 1e6),
  -- Hashes (harness/base/sources_hash.c) of the sources that the tool was built from, and of the
  -- kernels that it compiled during the run. '': not known, as of all runs before version 7.
  built            TEXT NOT NULL,
  compiled         TEXT NOT NULL,
  -- The commit of these sources; '': not known. sources says where it is from:
  --   unknown            attune merge has not looked for it yet
  --   committed          attune merge found it by the hashes; before version 7: git named it
  --   modified           no commit has these hashes; before version 7: git reported changes
  --   set by hand        before version 7: git could not read the checkout, and the commit was
  --                      entered later
  --   modified before 6  before version 6: git reported changes, yet the rows count
  commit_id        TEXT NOT NULL,
  sources          TEXT NOT NULL CHECK (sources IN ('committed', 'modified', 'unknown',
                                                    'modified before 6', 'set by hand')),
  toolkit          TEXT NOT NULL,          -- compiler and its version: "nvrtc 13.0"
  protocol         TEXT NOT NULL,          -- how times are taken: "graph-rotating"
  command          TEXT NOT NULL,
  dram_gbps        REAL CHECK (dram_gbps > 0 AND dram_gbps < 1e9),   -- measured, as the next
  fma_tflops       REAL CHECK (fma_tflops > 0 AND fma_tflops < 1e9),
  started          TEXT
) STRICT;

-- One batch for one model shape. set_name, split, weight and steps are labels: the newest values
-- apply, and they do not identify a scenario. steps: the number of engine steps that it represents,
-- 0: not known. A model name that ends with +lse means that the LSE is returned, too; one that ends
-- with +packed, +lbhnc ..., that the cache has that layout (scenario.h), and column layout is NHD.
CREATE TABLE IF NOT EXISTS scenario (
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
  num_seqs        INTEGER NOT NULL CHECK (num_seqs > 0),   -- from here on: by batch
  query_tokens    INTEGER NOT NULL,
  max_query       INTEGER NOT NULL,
  kv_tokens       INTEGER NOT NULL,
  max_seq         INTEGER NOT NULL
) STRICT;
-- The table has no UNIQUE constraint: an index of all columns that identify a scenario would take
-- more space than the table. Writers look for a scenario and add it in one transaction, so none is
-- there twice. This index makes the search fast.
CREATE INDEX IF NOT EXISTS scenario_size ON scenario (kv_tokens, query_tokens, max_seq, num_seqs);

CREATE TABLE IF NOT EXISTS phase (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
INSERT OR IGNORE INTO phase VALUES (0, 'all'), (1, 'prefill'), (2, 'decode'), (3, 'plan');

-- The least that a call of a phase moves and computes: KV read once, both products.
CREATE TABLE IF NOT EXISTS work (
  scenario INTEGER NOT NULL REFERENCES scenario,
  phase    INTEGER NOT NULL REFERENCES phase,
  bytes    REAL NOT NULL CHECK (bytes >= 0),
  flops    REAL NOT NULL CHECK (flops >= 0),
  PRIMARY KEY (scenario, phase)
) STRICT, WITHOUT ROWID;

-- The choices of a kernel that differ only in the number of segments. digest: XXH3-64 of "kernel
-- text"; as a key it takes a tenth of the text's space.
CREATE TABLE family (
  id     INTEGER PRIMARY KEY,
  kernel TEXT NOT NULL CHECK (kernel <> ''),
  text   TEXT NOT NULL,                    -- "BLOCK_M=16 SEGMENTS= EARLY=1": without the number
  digest INTEGER NOT NULL UNIQUE
) STRICT;
CREATE TABLE choice (
  id       INTEGER PRIMARY KEY,
  family   INTEGER NOT NULL REFERENCES family,
  segments INTEGER NOT NULL CHECK (segments >= -1),  -- -1: the family's text is the choice's
  UNIQUE (family, segments)
) STRICT;
CREATE VIEW choices AS
SELECT c.id, f.kernel, iif(c.segments < 0, f.text, replace(f.text, 'SEGMENTS=', 'SEGMENTS=' ||
       c.segments)) AS text
FROM choice AS c JOIN family AS f ON f.id = c.family;

-- One choice; or a plan: a prefill choice and, in `decode`, the decode choice, one after the
-- other ('|') or side by side ('||').
CREATE TABLE IF NOT EXISTS variant (
  id     INTEGER PRIMARY KEY,
  choice INTEGER NOT NULL REFERENCES choice,
  decode INTEGER REFERENCES choice,
  how    TEXT NOT NULL CHECK (how IN ('', '|', '||')),
  CHECK ((how = '') = (decode IS NULL))
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS variant_parts ON variant (choice, how, ifnull(decode, 0));

-- The sources of all binaries of a variant, in the order of their names: "reduce:HASH ring:HASH".
-- HASH identifies the tokens of one binary's source and of all our files that it includes.
-- "text:HASH" is a source from before version 6 that is in no commit.
CREATE TABLE IF NOT EXISTS code (
  id      INTEGER PRIMARY KEY,
  sources TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE IF NOT EXISTS build (
  id          INTEGER PRIMARY KEY,
  arch        TEXT NOT NULL,
  flags       TEXT NOT NULL,               -- "-DHEAD_SIZE=128 ..."
  code        INTEGER NOT NULL REFERENCES code,
  registers   INTEGER NOT NULL CHECK (registers >= -1),   -- -1: not known
  spill_bytes INTEGER NOT NULL CHECK (spill_bytes >= -1)
) STRICT;
-- In place of a UNIQUE constraint, like index scenario_size.
CREATE INDEX IF NOT EXISTS build_code ON build (code, registers, spill_bytes);

-- Why something was measured, and the pass that it belongs to.
CREATE TABLE IF NOT EXISTS stage (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  pass TEXT NOT NULL CHECK (pass IN ('A', 'B', 'E'))
) STRICT;
INSERT OR IGNORE INTO stage VALUES (1, 'race', 'A'), (2, 'complete', 'A'), (3, 'cold', 'A'),
                         (4, 'refine', 'A'), (5, 'audit', 'A'), (6, 'b', 'B'), (7, 'early', 'E');

-- Clock and power are readings around the race. A steady race also reads the power of each variant
-- while it runs alone (table reading).
CREATE TABLE race (
  id         INTEGER PRIMARY KEY,
  run        INTEGER NOT NULL REFERENCES run,
  scenario   INTEGER NOT NULL REFERENCES scenario,
  phase      INTEGER NOT NULL REFERENCES phase,
  stage      INTEGER NOT NULL REFERENCES stage,
  mhz_before INTEGER CHECK (mhz_before > 0 AND mhz_before < 1e6),
  mhz_after  INTEGER CHECK (mhz_after > 0 AND mhz_after < 1e6),
  power_mw   INTEGER CHECK (power_mw > 0 AND power_mw < 1e9)
) STRICT;
-- In place of UNIQUE (scenario, phase, run, stage), like index scenario_size.
CREATE INDEX race_scenario ON race (scenario);

-- How a contender's race ended. outcome 'ok': a right result; 'noisy': a right result, but too few
-- clean samples for a reliable time. stopped: why it ran no more rounds; '': not known. samples:
-- how many were kept; 0: there is no time.
CREATE TABLE IF NOT EXISTS ending (
  id      INTEGER PRIMARY KEY,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'noisy', 'wrong', 'nan', 'resources', 'compile',
                                           'timeout', 'crash', 'illegal')),
  stopped TEXT NOT NULL,
  samples INTEGER NOT NULL CHECK (samples >= 0),
  UNIQUE (outcome, stopped, samples)
) STRICT;

-- The binary that ran, and how it ended. One number for both makes a measurement shorter.
CREATE TABLE ran (
  id     INTEGER PRIMARY KEY,
  build  INTEGER NOT NULL REFERENCES build,
  ending INTEGER NOT NULL REFERENCES ending,
  UNIQUE (build, ending)
) STRICT;

-- ratio: to the race's reference, paired by rounds. 10000 is the reference itself. r > 10000 stands
-- for r / 10000, slower than it; r < -10000 for 10000 / -r, faster. So all ratios are equally precise.
CREATE TABLE measurement (
  race    INTEGER NOT NULL REFERENCES race,
  variant INTEGER NOT NULL REFERENCES variant,
  ran     INTEGER NOT NULL REFERENCES ran,
  median  INTEGER CHECK (median > 0),
  below   INTEGER CHECK (below >= 0 AND below < 1000),  -- least sample: so many thousandths below
  ci      INTEGER CHECK (ci >= 0),       -- half-width of the median's 95 % interval
  ratio   INTEGER CHECK (ratio >= 10000 OR ratio < -10000),
  PRIMARY KEY (race, variant),
  CHECK ((median IS NULL) = (below IS NULL))
) STRICT, WITHOUT ROWID;

-- The rows that newer ones of their cell replace.
CREATE TABLE superseded (
  race    INTEGER NOT NULL,
  variant INTEGER NOT NULL,
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Rows with a clock or power other than their race's.
CREATE TABLE reading (
  race       INTEGER NOT NULL,
  variant    INTEGER NOT NULL,
  mhz_before INTEGER CHECK (mhz_before > 0 AND mhz_before < 1e6),
  mhz_after  INTEGER CHECK (mhz_after > 0 AND mhz_after < 1e6),
  power_mw   INTEGER CHECK (power_mw > 0 AND power_mw < 1e9),
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS failure (
  race    INTEGER NOT NULL,
  variant INTEGER NOT NULL,
  detail  TEXT NOT NULL,                 -- "sequence 1, token 3 ...", the compiler's line
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Raw samples; merge --compact drops them.
CREATE TABLE IF NOT EXISTS sample (
  race     INTEGER NOT NULL,
  variant  INTEGER NOT NULL,
  calls    INTEGER NOT NULL CHECK (calls > 0),             -- in one sample
  rejected INTEGER NOT NULL CHECK (rejected >= 0),         -- preempted or throttled
  us       BLOB NOT NULL CHECK (length(us) > 0 AND length(us) % 4 = 0),  -- float32 LE, a call
  PRIMARY KEY (race, variant),
  FOREIGN KEY (race, variant) REFERENCES measurement ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- A/A controls: a variant that ran twice in a race. ratio: of the second to the first, median over
-- rounds, in millionths.
CREATE TABLE control (
  race    INTEGER NOT NULL REFERENCES race,
  variant INTEGER NOT NULL REFERENCES variant,
  median  INTEGER NOT NULL CHECK (median > 0),
  ratio   INTEGER NOT NULL CHECK (ratio > 0 AND ratio < 1e18),
  PRIMARY KEY (race, variant)
) STRICT, WITHOUT ROWID;

-- The best speed of a device for one access pattern, by attune bench --roofline. detail names the
-- pattern, as name=value separated by blanks.
CREATE TABLE IF NOT EXISTS ceiling (
  id     INTEGER PRIMARY KEY,
  run    INTEGER NOT NULL REFERENCES run,
  name   TEXT NOT NULL CHECK (name <> ''),   -- read, cold, cached; a launch of some kind
  detail TEXT NOT NULL,                      -- "path=async kib=64 blocks=132"
  value  REAL NOT NULL CHECK (value > 0 AND value < 1e12),
  unit   TEXT NOT NULL CHECK (unit IN ('GB/s', 'us')),
  UNIQUE (run, name, detail, unit)
) STRICT;

-- By attune merge --bridge: rows of source `old` of a kernel count as rows of source `new`, for
-- binaries of this arch and these flags ('': all flags). how says why:
--   code   both sources compile to the same machine code
--   race   both were equally fast in the races of table bridge_race, on `gpu`; none are made today
-- gpu, batches, mean and p95 describe the races; where how is 'code' they are '', 0 and NULL.
CREATE TABLE IF NOT EXISTS bridge (
  id      INTEGER PRIMARY KEY,
  kernel  TEXT NOT NULL CHECK (kernel <> ''),
  old     TEXT NOT NULL CHECK (old <> ''),
  new     TEXT NOT NULL CHECK (new <> old),
  arch    TEXT NOT NULL,
  flags   TEXT NOT NULL,
  how     TEXT NOT NULL CHECK (how IN ('code', 'race')),
  gpu     TEXT NOT NULL,
  batches INTEGER NOT NULL CHECK (batches >= 0),  -- rows of bridge_race
  mean    REAL CHECK (mean > 0),         -- new / old, geometric mean over batches
  p95     REAL CHECK (p95 >= 0),         -- 95th percentile of |new / old - 1|
  toolkit TEXT NOT NULL,                 -- the compiler of both
  commit_id TEXT NOT NULL,               -- of the checkout that made the bridge
  UNIQUE (kernel, old, new, arch, flags, how, gpu)
) STRICT;
CREATE TABLE IF NOT EXISTS bridge_race (
  bridge INTEGER NOT NULL REFERENCES bridge ON DELETE CASCADE,
  model  TEXT NOT NULL,
  batch  TEXT NOT NULL,
  phase  INTEGER NOT NULL REFERENCES phase,
  choice TEXT NOT NULL,
  old    INTEGER NOT NULL CHECK (old > 0),        -- time of the old source
  ratio  REAL NOT NULL CHECK (ratio > 0),         -- new / old
  PRIMARY KEY (bridge, model, batch, phase, choice)
) STRICT, WITHOUT ROWID;

-- The hash of a device's rows, by attune merge --compact. The next write by attune removes it. If
-- the rows have another hash, the database is damaged. After an intended edit by another program:
-- DELETE FROM seal.
CREATE TABLE IF NOT EXISTS seal (
  device INTEGER PRIMARY KEY REFERENCES device ON DELETE CASCADE,
  hash   TEXT NOT NULL CHECK (length(hash) = 32)
) STRICT;

-- All rows, with names for ids.
CREATE VIEW history AS
SELECT d.gpu, s.model, s.batch, s.page_size, s.dtype, p.name AS phase,
       CASE WHEN v.decode IS NOT NULL
            THEN rtrim('prefill: ' || h.kernel || ' ' || h.text) || ' ' || v.how || ' decode: ' ||
                 rtrim(q.kernel || ' ' || q.text)
            ELSE iif(c.phase = 0, '', p.name || ': ') || rtrim(h.kernel || ' ' || h.text)
       END AS plan,
       iif(v.decode IS NULL, h.kernel, 'plan') AS kernel,
       CASE WHEN v.decode IS NOT NULL
            THEN rtrim('prefill: ' || h.kernel || ' ' || h.text) || ' ' || v.how || ' decode: ' ||
                 rtrim(q.kernel || ' ' || q.text)
            ELSE h.text END AS variant,
       e.outcome, m.median / 1e3 AS median_us, m.median * (1000 - m.below) / 1e6 AS min_us,
       m.ci / 1e3 AS ci_us, iif(m.ratio > 0, m.ratio / 1e4, -1e4 / m.ratio) AS ratio,
       w.bytes / m.median AS gbps, w.flops / m.median / 1e3 AS tflops,
       w.bytes / m.median / r.dram_gbps AS share_of_dram,
       w.flops / m.median / 1e3 / r.fma_tflops AS share_of_fma,
       iif(g.race IS NULL, c.power_mw, g.power_mw) * m.median / 1e12 AS joules,
       iif(g.race IS NULL, c.power_mw, g.power_mw) / 1e3 AS power_w,
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
        AND x.flags IN ('', b.flags)) AS bridged, b.registers, b.spill_bytes,
       o.race IS NULL AS newest,
       r.device AS device_id, c.run AS run_id, c.scenario AS scenario_id, m.race AS race_id,
       m.variant AS variant_id
FROM scenario AS s
JOIN race AS c ON c.scenario = s.id
JOIN measurement AS m ON m.race = c.id
JOIN run AS r ON r.id = c.run
JOIN device AS d ON d.id = r.device
JOIN phase AS p ON p.id = c.phase
JOIN stage AS t ON t.id = c.stage
JOIN ran AS n ON n.id = m.ran
JOIN ending AS e ON e.id = n.ending
JOIN variant AS v ON v.id = m.variant
JOIN choices AS h ON h.id = v.choice
JOIN build AS b ON b.id = n.build
JOIN code AS k ON k.id = b.code
LEFT JOIN choices AS q ON q.id = v.decode
LEFT JOIN work AS w ON w.scenario = c.scenario AND w.phase = c.phase
LEFT JOIN reading AS g ON g.race = m.race AND g.variant = m.variant
LEFT JOIN failure AS f ON f.race = m.race AND f.variant = m.variant
LEFT JOIN superseded AS o ON o.race = m.race AND o.variant = m.variant;

CREATE VIEW newest AS SELECT * FROM history WHERE newest = 1;
CREATE VIEW timings AS SELECT * FROM newest WHERE pass = 'A';
CREATE VIEW confirmed AS SELECT * FROM newest WHERE pass = 'B';

-- The fastest right variant of each device, protocol, scenario and phase.
CREATE VIEW fastest AS
SELECT r.device AS device_id, r.protocol, c.scenario AS scenario_id, c.phase AS phase_id,
       min(q.median) AS median, q.race AS race_id, q.variant AS variant_id
FROM (SELECT race, variant, min(median) AS median FROM measurement AS m
      WHERE ran IN (SELECT n.id FROM ran AS n JOIN ending AS e ON e.id = n.ending
                    WHERE e.outcome = 'ok')
      AND NOT EXISTS (SELECT 1 FROM superseded AS o
                      WHERE o.race = m.race AND o.variant = m.variant)
      GROUP BY race) AS q
JOIN race AS c ON c.id = q.race
JOIN stage AS t ON t.id = c.stage AND t.pass = 'A'
JOIN run AS r ON r.id = c.run
GROUP BY r.device, r.protocol, c.scenario, c.phase;

CREATE VIEW best AS
SELECT h.* FROM fastest AS f
CROSS JOIN history AS h ON h.race_id = f.race_id AND h.variant_id = f.variant_id;

-- Right results relative to the fastest of their device, protocol, scenario and phase.
CREATE VIEW regret AS
SELECT h.gpu, h.model, h.batch, h.page_size, h.dtype, h.phase, h.plan, h.kernel, h.variant,
       h.median_us, f.median / 1e3 AS best_us, h.median_us * 1e3 / f.median AS slowdown,
       h.median_us * 1e3 / f.median - 1 AS regret, h.set_name, h.split, h.weight, h.kv_dtype,
       h.layout, h.seed, h.protocol, h.device_id, h.scenario_id, h.race_id, h.variant_id
FROM timings AS h
JOIN fastest AS f ON f.device_id = h.device_id AND f.protocol = h.protocol
                 AND f.scenario_id = h.scenario_id
                 AND f.phase_id = (SELECT id FROM phase WHERE name = h.phase)
WHERE h.outcome = 'ok';

CREATE VIEW failures AS
SELECT * FROM newest WHERE outcome NOT IN ('ok', 'noisy');

-- How many newer rows each row's cell has: age 1 has none. Of a cell the last run's row is the
-- newest; a noisy row only if the cell has no other.
CREATE VIEW aged AS
SELECT m.race, m.variant, o.race IS NULL AS newest,
       max(o.race IS NULL) OVER cell AS has_newest,
       row_number() OVER (cell ORDER BY n.ending IN (SELECT id FROM ending WHERE outcome = 'noisy'),
                          c.run DESC, c.id DESC) AS age
FROM measurement AS m JOIN race AS c ON c.id = m.race JOIN run AS r ON r.id = c.run
JOIN stage AS t ON t.id = c.stage JOIN ran AS n ON n.id = m.ran
LEFT JOIN superseded AS o ON o.race = m.race AND o.variant = m.variant
WINDOW cell AS (PARTITION BY r.device, r.protocol, c.scenario, c.phase, t.pass, m.variant);

-- The noise by A/A controls, in bands of the time. floor is a share: the 95th percentile of
-- |ratio - 1| (nearest rank), at least 0.5 %.
CREATE VIEW noise AS
WITH pair AS (
  SELECT r.device AS device_id, r.protocol,
         CASE WHEN a.median < 20000 THEN '< 20 us' WHEN a.median < 200000 THEN '< 200 us'
         ELSE '>= 200 us' END AS band, abs(a.ratio - 1000000) / 1e6 AS off
  FROM control AS a JOIN race AS c ON c.id = a.race JOIN run AS r ON r.id = c.run),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY device_id, protocol, band ORDER BY off) AS place,
         count(*) OVER (PARTITION BY device_id, protocol, band) AS pairs
  FROM pair)
SELECT d.gpu, n.protocol, n.band, n.pairs, max(0.005, min(n.off)) AS floor, n.device_id
FROM ranked AS n JOIN device AS d ON d.id = n.device_id
WHERE 100 * n.place >= 95 * n.pairs
GROUP BY n.device_id, n.protocol, n.band;
