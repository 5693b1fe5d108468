-- merge.sql - adds what database `src` knows to the main one, once. Rows are
-- matched by content, never by id; a row that is there already is left alone.
-- Runs keep their order and come after those that are there, so that of a cell
-- measured in both, the row of `src` is the newer one.

INSERT INTO device (gpu, name, arch, units, lanes, smem_per_block, smem_per_unit, l2_bytes)
SELECT gpu, name, arch, units, lanes, smem_per_block, smem_per_unit, l2_bytes
FROM src.device WHERE true ORDER BY id
ON CONFLICT DO NOTHING;

INSERT INTO run (uid, device, driver, memory_bytes, clock_mhz, memory_clock_mhz, power_limit_w,
                 commit_id, toolkit, protocol, command, dram_gbps, fma_tflops, started)
SELECT r.uid, d.id, r.driver, r.memory_bytes, r.clock_mhz, r.memory_clock_mhz, r.power_limit_w,
       r.commit_id, r.toolkit, r.protocol, r.command, r.dram_gbps, r.fma_tflops, r.started
FROM src.run AS r JOIN src.device AS o ON o.id = r.device
JOIN main.device AS d ON (d.gpu, d.name, d.arch, d.units) = (o.gpu, o.name, o.arch, o.units)
WHERE true ORDER BY r.id
ON CONFLICT DO NOTHING;

INSERT INTO scenario (model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads,
                      num_kv_heads, head_size, causal, "window", scale, softcap, has_sinks,
                      has_alibi, set_name, split, weight, steps, num_seqs, query_tokens,
                      max_query, kv_tokens, max_seq)
SELECT model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads, num_kv_heads,
       head_size, causal, "window", scale, softcap, has_sinks, has_alibi, set_name, split, weight,
       steps, num_seqs, query_tokens, max_query, kv_tokens, max_seq
FROM src.scenario WHERE true ORDER BY id
ON CONFLICT DO UPDATE SET set_name = excluded.set_name, split = excluded.split,
                          weight = excluded.weight, steps = excluded.steps;

INSERT INTO variant (kernel, choice)
SELECT kernel, choice FROM src.variant WHERE true ORDER BY id
ON CONFLICT DO NOTHING;

INSERT INTO build (arch, flags, source, registers, spill_bytes)
SELECT arch, flags, source, registers, spill_bytes FROM src.build WHERE true ORDER BY id
ON CONFLICT DO NOTHING;

CREATE TEMP VIEW same_scenario AS
SELECT so.id AS theirs, s.id AS ours
FROM src.scenario AS so JOIN main.scenario AS s
  ON (s.model, s.batch, s.page_size, s.dtype, s.kv_dtype, s.layout, s.seed, s.num_query_heads,
      s.num_kv_heads, s.head_size, s.causal, s."window", s.scale, s.softcap, s.has_sinks,
      s.has_alibi)
   = (so.model, so.batch, so.page_size, so.dtype, so.kv_dtype, so.layout, so.seed,
      so.num_query_heads, so.num_kv_heads, so.head_size, so.causal, so."window", so.scale,
      so.softcap, so.has_sinks, so.has_alibi);

CREATE TEMP VIEW same_variant AS
SELECT vo.id AS theirs, v.id AS ours
FROM src.variant AS vo JOIN main.variant AS v ON (v.kernel, v.choice) = (vo.kernel, vo.choice);

CREATE TEMP VIEW same_run AS
SELECT ro.id AS theirs, r.id AS ours FROM src.run AS ro JOIN main.run AS r ON r.uid = ro.uid;

INSERT INTO control (run, scenario, phase, variant, stage, median_us, ratio)
SELECT r.ours, s.ours, c.phase, v.ours, c.stage, c.median_us, c.ratio
FROM src.control AS c
JOIN same_run AS r ON r.theirs = c.run
JOIN same_scenario AS s ON s.theirs = c.scenario
JOIN same_variant AS v ON v.theirs = c.variant
WHERE NOT EXISTS (
  SELECT 1 FROM main.control AS o
  WHERE (o.run, o.scenario, o.phase, o.variant, o.stage, o.median_us, o.ratio)
      = (r.ours, s.ours, c.phase, v.ours, c.stage, c.median_us, c.ratio))
ORDER BY c.id;

-- Last: its number of rows is what the user is told.
INSERT INTO measurement (run, scenario, phase, variant, build, stage, outcome, samples, calls,
                         median_us, min_us, q25_us, q75_us, ci_us, ratio, gbps, tflops,
                         sm_mhz_before, sm_mhz_after, power_w, rejected, stopped, detail)
SELECT r.ours, s.ours, m.phase, v.ours, b.id, m.stage, m.outcome, m.samples, m.calls, m.median_us,
       m.min_us, m.q25_us, m.q75_us, m.ci_us, m.ratio, m.gbps, m.tflops, m.sm_mhz_before,
       m.sm_mhz_after, m.power_w, m.rejected, m.stopped, m.detail
FROM src.measurement AS m
JOIN same_run AS r ON r.theirs = m.run
JOIN same_scenario AS s ON s.theirs = m.scenario
JOIN same_variant AS v ON v.theirs = m.variant
JOIN src.build AS bo ON bo.id = m.build
JOIN main.build AS b
  ON (b.arch, b.flags, b.source, b.registers, b.spill_bytes)
   = (bo.arch, bo.flags, bo.source, bo.registers, bo.spill_bytes)
WHERE NOT EXISTS (
  SELECT 1 FROM main.measurement AS o
  WHERE o.scenario = s.ours AND o.variant = v.ours AND o.phase = m.phase AND o.run = r.ours
    AND o.build = b.id AND o.stage = m.stage AND o.outcome = m.outcome AND o.samples IS m.samples
    AND o.median_us IS m.median_us AND o.detail IS m.detail)
ORDER BY m.id;

DROP VIEW same_scenario;
DROP VIEW same_variant;
DROP VIEW same_run;
