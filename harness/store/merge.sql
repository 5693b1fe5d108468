-- SPDX-License-Identifier: Apache-2.0
-- merge.sql - adds the rows of database `src` to the main one. Rows are matched by content, never
-- by id; a row that exists already is unchanged. Runs of `src` keep their order and come after
-- the existing ones, so that for a cell measured in both the row of `src` is newer.

INSERT INTO device (gpu, name, arch, units, memory_gib, machine, lanes, smem_per_block,
                    smem_per_unit, l2_bytes)
SELECT gpu, name, arch, units, memory_gib, machine, lanes, smem_per_block, smem_per_unit, l2_bytes
FROM src.device WHERE true ORDER BY id
ON CONFLICT DO NOTHING;

INSERT INTO run (uid, device, card, driver, memory_bytes, clock_mhz, memory_clock_mhz,
                 power_limit_w, built, compiled, commit_id, sources, toolkit, protocol, command, dram_gbps,
                 fma_tflops, started)
SELECT r.uid, d.id, r.card, r.driver, r.memory_bytes, r.clock_mhz, r.memory_clock_mhz,
       r.power_limit_w, r.built, r.compiled, r.commit_id, r.sources, r.toolkit, r.protocol,
       r.command, r.dram_gbps, r.fma_tflops, r.started
FROM src.run AS r JOIN src.device AS o ON o.id = r.device
JOIN main.device AS d ON (d.gpu, d.name, d.arch, d.units, d.memory_gib, d.machine)
                       = (o.gpu, o.name, o.arch, o.units, o.memory_gib, o.machine)
WHERE true ORDER BY r.id
ON CONFLICT DO NOTHING;

INSERT INTO family (kernel, text, digest)
SELECT kernel, text, digest FROM src.family WHERE true ORDER BY id
ON CONFLICT DO NOTHING;
INSERT INTO choice (family, segments)
SELECT f.id, c.segments FROM src.choice AS c JOIN src.family AS o ON o.id = c.family
JOIN main.family AS f ON f.digest = o.digest
WHERE true ORDER BY c.id
ON CONFLICT DO NOTHING;
INSERT INTO code (sources) SELECT sources FROM src.code WHERE true ORDER BY id
ON CONFLICT DO NOTHING;
INSERT INTO ending (outcome, stopped, samples)
SELECT outcome, stopped, samples FROM src.ending WHERE true ORDER BY id
ON CONFLICT DO NOTHING;

CREATE TEMP VIEW pair_of_scenarios AS
SELECT so.id AS theirs, s.id AS ours
FROM src.scenario AS so JOIN main.scenario AS s
  ON (s.kv_tokens, s.query_tokens, s.max_seq, s.num_seqs)
   = (so.kv_tokens, so.query_tokens, so.max_seq, so.num_seqs)
 AND (s.model, s.batch, s.page_size, s.dtype, s.kv_dtype, s.layout, s.seed, s.num_query_heads,
      s.num_kv_heads, s.head_size, s.causal, s."window", s.scale, s.softcap, s.has_sinks,
      s.has_alibi)
   = (so.model, so.batch, so.page_size, so.dtype, so.kv_dtype, so.layout, so.seed,
      so.num_query_heads, so.num_kv_heads, so.head_size, so.causal, so."window", so.scale,
      so.softcap, so.has_sinks, so.has_alibi);

UPDATE main.scenario AS s SET (set_name, split, weight, steps) =
  (SELECT set_name, split, weight, steps FROM src.scenario WHERE id = p.theirs)
FROM pair_of_scenarios AS p WHERE p.ours = s.id;
INSERT INTO scenario (model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads,
                      num_kv_heads, head_size, causal, "window", scale, softcap, has_sinks,
                      has_alibi, set_name, split, weight, steps, num_seqs, query_tokens,
                      max_query, kv_tokens, max_seq)
SELECT model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads, num_kv_heads,
       head_size, causal, "window", scale, softcap, has_sinks, has_alibi, set_name, split, weight,
       steps, num_seqs, query_tokens, max_query, kv_tokens, max_seq
FROM src.scenario WHERE id NOT IN (SELECT theirs FROM pair_of_scenarios) ORDER BY id;

CREATE TEMP TABLE same_scenario AS SELECT theirs, ours FROM pair_of_scenarios;
CREATE UNIQUE INDEX temp.scenario_ours ON same_scenario (theirs, ours);

INSERT OR IGNORE INTO work
SELECT s.ours, w.phase, w.bytes, w.flops
FROM src.work AS w JOIN same_scenario AS s ON s.theirs = w.scenario;

CREATE TEMP TABLE same_choice AS
SELECT o.id AS theirs, c.id AS ours
FROM src.choice AS o JOIN src.family AS p ON p.id = o.family
JOIN main.family AS f ON f.digest = p.digest
JOIN main.choice AS c ON (c.family, c.segments) = (f.id, o.segments);
CREATE UNIQUE INDEX temp.choice_ours ON same_choice (theirs, ours);

INSERT INTO variant (choice, decode, how)
SELECT c.ours, (SELECT ours FROM same_choice WHERE theirs = v.decode), v.how
FROM src.variant AS v JOIN same_choice AS c ON c.theirs = v.choice
WHERE true ORDER BY v.id
ON CONFLICT DO NOTHING;

CREATE TEMP TABLE same_variant AS
SELECT o.id AS theirs, v.id AS ours
FROM src.variant AS o JOIN same_choice AS c ON c.theirs = o.choice
JOIN main.variant AS v ON v.choice = c.ours AND v.how = o.how
 AND ifnull(v.decode, 0) = ifnull((SELECT ours FROM same_choice WHERE theirs = o.decode), 0);
CREATE UNIQUE INDEX temp.variant_ours ON same_variant (theirs, ours);

CREATE TEMP TABLE coded AS
SELECT b.id AS theirs, b.arch, b.flags, c.id AS code, b.registers, b.spill_bytes
FROM src.build AS b JOIN src.code AS o ON o.id = b.code
JOIN main.code AS c ON c.sources = o.sources;

CREATE TEMP VIEW pair_of_builds AS
SELECT o.theirs, b.id AS ours FROM coded AS o JOIN main.build AS b
  ON (b.code, b.registers, b.spill_bytes, b.flags, b.arch)
   = (o.code, o.registers, o.spill_bytes, o.flags, o.arch);
INSERT INTO build (arch, flags, code, registers, spill_bytes)
SELECT arch, flags, code, registers, spill_bytes
FROM coded WHERE theirs NOT IN (SELECT theirs FROM pair_of_builds) ORDER BY theirs;

CREATE TEMP TABLE same_build AS SELECT theirs, ours FROM pair_of_builds;
CREATE UNIQUE INDEX temp.build_ours ON same_build (theirs, ours);

CREATE TEMP TABLE same_ending AS
SELECT o.id AS theirs, e.id AS ours FROM src.ending AS o JOIN main.ending AS e
  ON (e.outcome, e.stopped, e.samples) = (o.outcome, o.stopped, o.samples);

INSERT INTO ran (build, ending)
SELECT b.ours, e.ours FROM src.ran AS n JOIN same_build AS b ON b.theirs = n.build
JOIN same_ending AS e ON e.theirs = n.ending
WHERE true ORDER BY n.id
ON CONFLICT DO NOTHING;
CREATE TEMP TABLE same_ran AS
SELECT o.id AS theirs, n.id AS ours FROM src.ran AS o JOIN same_build AS b ON b.theirs = o.build
JOIN same_ending AS e ON e.theirs = o.ending
JOIN main.ran AS n ON (n.build, n.ending) = (b.ours, e.ours);
CREATE UNIQUE INDEX temp.ran_ours ON same_ran (theirs, ours);

CREATE TEMP TABLE raced AS
SELECT c.id AS theirs, s.ours AS scenario, c.phase, r.id AS run, c.stage, c.mhz_before,
       c.mhz_after, c.power_mw
FROM src.race AS c JOIN src.run AS ro ON ro.id = c.run JOIN main.run AS r ON r.uid = ro.uid
JOIN same_scenario AS s ON s.theirs = c.scenario;

CREATE TEMP VIEW pair_of_races AS
SELECT o.theirs, c.id AS ours FROM raced AS o JOIN main.race AS c
  ON (c.scenario, c.phase, c.run, c.stage) = (o.scenario, o.phase, o.run, o.stage);
INSERT INTO race (scenario, phase, run, stage, mhz_before, mhz_after, power_mw)
SELECT scenario, phase, run, stage, mhz_before, mhz_after, power_mw
FROM raced WHERE theirs NOT IN (SELECT theirs FROM pair_of_races) ORDER BY theirs;

CREATE TEMP TABLE same_race AS SELECT theirs, ours FROM pair_of_races;
CREATE UNIQUE INDEX temp.race_ours ON same_race (theirs, ours);

CREATE TEMP TABLE added AS
SELECT c.ours AS race, v.ours AS variant, m.race AS their_race, m.variant AS their_variant
FROM src.measurement AS m JOIN same_race AS c ON c.theirs = m.race
JOIN same_variant AS v ON v.theirs = m.variant
WHERE NOT EXISTS (SELECT 1 FROM main.measurement AS o
                  WHERE (o.race, o.variant) = (c.ours, v.ours));

INSERT INTO measurement
SELECT a.race, a.variant, n.ours, m.median, m.below, m.ci, m.ratio
FROM added AS a JOIN src.measurement AS m ON (m.race, m.variant) = (a.their_race, a.their_variant)
JOIN same_ran AS n ON n.theirs = m.ran
ORDER BY 1, 2;

INSERT INTO reading
SELECT a.race, a.variant, g.mhz_before, g.mhz_after, g.power_mw
FROM added AS a JOIN src.reading AS g ON (g.race, g.variant) = (a.their_race, a.their_variant);
INSERT INTO failure
SELECT a.race, a.variant, f.detail
FROM added AS a JOIN src.failure AS f ON (f.race, f.variant) = (a.their_race, a.their_variant);
INSERT INTO sample
SELECT a.race, a.variant, s.calls, s.rejected, s.us
FROM added AS a JOIN src.sample AS s ON (s.race, s.variant) = (a.their_race, a.their_variant);

INSERT OR IGNORE INTO control
SELECT c.ours, v.ours, o.median, o.ratio FROM src.control AS o
JOIN same_race AS c ON c.theirs = o.race JOIN same_variant AS v ON v.theirs = o.variant;

CREATE TEMP TABLE aging AS
SELECT race, variant, age = 1 AS newest FROM main.aged
WHERE EXISTS (SELECT 1 FROM added) AND newest <> (age = 1);
INSERT INTO superseded SELECT race, variant FROM aging WHERE NOT newest;
DELETE FROM superseded WHERE (race, variant) IN (SELECT race, variant FROM aging WHERE newest);

INSERT INTO ceiling (run, name, detail, value, unit)
SELECT r.id, c.name, c.detail, c.value, c.unit
FROM src.ceiling AS c JOIN src.run AS ro ON ro.id = c.run JOIN main.run AS r ON r.uid = ro.uid
WHERE true ORDER BY c.id
ON CONFLICT DO NOTHING;

INSERT OR IGNORE INTO bridge (kernel, old, new, arch, flags, how, gpu, batches, mean, p95, toolkit,
                              commit_id)
SELECT kernel, old, new, arch, flags, how, gpu, batches, mean, p95, toolkit, commit_id
FROM src.bridge;
INSERT OR IGNORE INTO bridge_race
SELECT b.id, x.model, x.batch, x.phase, x.choice, x.old, x.ratio
FROM src.bridge_race AS x JOIN src.bridge AS o ON o.id = x.bridge JOIN main.bridge AS b
  ON (b.kernel, b.old, b.new, b.arch, b.flags, b.how, b.gpu)
   = (o.kernel, o.old, o.new, o.arch, o.flags, o.how, o.gpu);

DROP VIEW temp.pair_of_scenarios;
DROP VIEW temp.pair_of_builds;
DROP VIEW temp.pair_of_races;
DROP TABLE temp.same_scenario;
DROP TABLE temp.same_choice;
DROP TABLE temp.same_variant;
DROP TABLE temp.coded;
DROP TABLE temp.same_build;
DROP TABLE temp.same_ending;
DROP TABLE temp.same_ran;
DROP TABLE temp.raced;
DROP TABLE temp.same_race;
DROP TABLE temp.added;
DROP TABLE temp.aging;
