-- migrate_rows.sql - copies the rows of a database before version 6 into today's tables.
-- store_migrate.c defines old_code(source), the sources behind an old hash, and
-- choice_digest(kernel, text). Only the quartiles are lost; their distance and the samples stay.

INSERT INTO device
SELECT d.id, d.gpu, d.name, d.arch, d.units,
       iif(d.gpu = 'cpu', 0, ifnull((SELECT CAST(round(max(memory_bytes) / 1073741824.0) AS INTEGER)
                                     FROM old_run WHERE device = d.id), 0)),
       '', d.lanes, d.smem_per_block, d.smem_per_unit, d.l2_bytes
FROM old_device AS d;

INSERT INTO run
SELECT id, uid, device, NULL, driver, memory_bytes, clock_mhz, memory_clock_mhz, power_limit_w,
       commit_id, CASE WHEN commit_id LIKE '%-dirty' THEN 'modified before 6'
                  WHEN commit_id = '' THEN 'unknown' ELSE 'committed' END,
       toolkit, protocol, command, dram_gbps, fma_tflops, started
FROM old_run;

INSERT INTO scenario (id, model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads,
                      num_kv_heads, head_size, causal, "window", scale, softcap, has_sinks,
                      has_alibi, set_name, split, weight, steps, num_seqs, query_tokens, max_query,
                      kv_tokens, max_seq)
SELECT id, model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads, num_kv_heads,
       head_size, causal, "window", scale, softcap, has_sinks, has_alibi, set_name, split, weight,
       steps, num_seqs, query_tokens, max_query, kv_tokens, max_seq
FROM old_scenario;

-- "prefill: A | decode: B" and "prefill: A || decode: B" are plans; A and B choices.
CREATE TEMP TABLE part AS
SELECT id, 0 AS is_decode, kernel || ' ' || choice AS text, '' AS how
FROM old_variant WHERE kernel <> 'plan'
UNION ALL
SELECT id, 0, substr(choice, 10, instr(choice, ' |') - 10),
       iif(instr(choice, ' || '), '||', '|')
FROM old_variant WHERE kernel = 'plan'
UNION ALL
SELECT id, 1, substr(choice, instr(choice, '| decode: ') + 10), ''
FROM old_variant WHERE kernel = 'plan';

CREATE TEMP TABLE parsed AS
SELECT id, is_decode, how, substr(text, 1, instr(text || ' ', ' ') - 1) AS kernel,
       trim(substr(text, instr(text || ' ', ' ') + 1)) AS text
FROM part;

INSERT INTO choice (kernel, text, digest)
SELECT kernel, text, choice_digest(kernel, text) FROM parsed
GROUP BY kernel, text ORDER BY kernel, text;
CREATE INDEX temp.parsed_by_id ON parsed (id, is_decode);

INSERT INTO variant
SELECT a.id, (SELECT id FROM choice WHERE digest = choice_digest(a.kernel, a.text)),
       (SELECT c.id FROM parsed AS b JOIN choice AS c ON c.digest = choice_digest(b.kernel, b.text)
        WHERE b.id = a.id AND b.is_decode), a.how
FROM parsed AS a WHERE NOT a.is_decode ORDER BY a.id;

CREATE TEMP TABLE old_source AS
SELECT source, old_code(source) AS sources FROM (SELECT DISTINCT source FROM old_build);

INSERT INTO code (sources) SELECT DISTINCT sources FROM old_source ORDER BY sources;

-- Two old builds may become one.
CREATE TEMP TABLE new_build AS
SELECT b.id AS old_id, min(b.id) OVER (PARTITION BY b.arch, b.flags, c.id, b.registers,
                                                    b.spill_bytes) AS id,
       b.arch, b.flags, c.id AS code, b.registers, b.spill_bytes
FROM old_build AS b JOIN old_source AS s ON s.source = b.source
JOIN code AS c ON c.sources = s.sources;
CREATE UNIQUE INDEX temp.new_build_of ON new_build (old_id);

INSERT INTO build
SELECT id, arch, flags, code, registers, spill_bytes FROM new_build WHERE id = old_id ORDER BY id;

-- Times of `sweep --early` had no stage of their own before version 5.
CREATE TEMP TABLE staged AS
SELECT m.id, m.run, m.scenario, p.id AS phase, m.variant, t.id AS stage, t.pass
FROM old_measurement AS m JOIN phase AS p ON p.name = m.phase
JOIN stage AS t ON t.name = iif(m.stage = 'refine' AND m.run IN
     (SELECT id FROM old_run WHERE command GLOB 'attune sweep*--early*'), 'early', m.stage);

INSERT INTO race (run, scenario, phase, stage, mhz_before, mhz_after, power_w)
SELECT run, scenario, phase, stage, sm_mhz_before, sm_mhz_after, power_w
FROM (SELECT s.run, s.scenario, s.phase, s.stage, min(s.id) AS first, m.sm_mhz_before,
             m.sm_mhz_after, m.power_w
      FROM staged AS s JOIN old_measurement AS m ON m.id = s.id GROUP BY 1, 2, 3, 4)
ORDER BY first;

INSERT OR IGNORE INTO ending (outcome, stopped)
SELECT DISTINCT outcome, ifnull(stopped, '') FROM old_measurement ORDER BY 1, 2;

-- If a race has a variant twice, the last row.
CREATE TEMP TABLE placed AS
SELECT max(s.id) AS id, c.id AS race, s.variant, s.pass, r.device, r.protocol, s.scenario, s.phase,
       s.run
FROM staged AS s JOIN race AS c ON (c.scenario, c.phase, c.run, c.stage)
                                 = (s.scenario, s.phase, s.run, s.stage)
JOIN run AS r ON r.id = s.run
GROUP BY c.id, s.variant;

INSERT INTO measurement
SELECT n.race, n.variant, n.age = 1, b.id, e.id, length(m.samples) / 4,
       CAST(round(m.median_us * 1e6) AS INTEGER),
       CAST(round(m.median_us * 1e6) AS INTEGER) - CAST(round(m.min_us * 1e6) AS INTEGER),
       iif(length(m.samples) >= 12, CAST(round((m.q75_us - m.q25_us) * 1e6) AS INTEGER), NULL),
       CAST(round(m.ci_us * 1e6) AS INTEGER), CAST(round(m.ratio * 1e8) AS INTEGER)
FROM (SELECT *, row_number() OVER (PARTITION BY device, protocol, scenario, phase, variant, pass
                                   ORDER BY run DESC, id DESC) AS age FROM placed) AS n
JOIN old_measurement AS m ON m.id = n.id
JOIN new_build AS b ON b.old_id = m.build
JOIN ending AS e ON e.outcome = m.outcome AND e.stopped = ifnull(m.stopped, '')
ORDER BY n.race, n.variant;

INSERT INTO reading
SELECT n.race, n.variant, m.sm_mhz_before, m.sm_mhz_after, m.power_w
FROM placed AS n JOIN old_measurement AS m ON m.id = n.id JOIN race AS c ON c.id = n.race
WHERE m.sm_mhz_before IS NOT c.mhz_before OR m.sm_mhz_after IS NOT c.mhz_after
   OR m.power_w IS NOT c.power_w;

INSERT INTO failure
SELECT n.race, n.variant, m.detail FROM placed AS n JOIN old_measurement AS m ON m.id = n.id
WHERE m.detail IS NOT NULL;

INSERT INTO sample
SELECT n.race, n.variant, m.calls, m.rejected, m.samples
FROM placed AS n JOIN old_measurement AS m ON m.id = n.id
WHERE m.samples IS NOT NULL AND m.calls IS NOT NULL ORDER BY 1, 2;

INSERT OR IGNORE INTO race (run, scenario, phase, stage)
SELECT c.run, c.scenario, p.id, t.id FROM old_control AS c JOIN phase AS p ON p.name = c.phase
JOIN stage AS t ON t.name = c.stage;
INSERT OR REPLACE INTO control
SELECT r.id, c.variant, CAST(round(c.median_us * 1e6) AS INTEGER), c.ratio
FROM (SELECT c.*, p.id AS phase_id, t.id AS stage_id FROM old_control AS c
      JOIN phase AS p ON p.name = c.phase
      JOIN stage AS t ON t.name = iif(c.stage = 'refine' AND c.run IN
           (SELECT id FROM old_run WHERE command GLOB 'attune sweep*--early*'),
           'early', c.stage)) AS c
JOIN race AS r ON (r.scenario, r.phase, r.run, r.stage)
                = (c.scenario, c.phase_id, c.run, c.stage_id);

INSERT INTO ceiling (run, name, detail, value, unit)
SELECT run, name, detail, value, unit FROM old_ceiling;

DROP TABLE temp.part;
DROP TABLE temp.parsed;
DROP TABLE temp.old_source;
DROP TABLE temp.new_build;
DROP TABLE temp.staged;
DROP TABLE temp.placed;
DROP TABLE old_ceiling;
DROP TABLE old_control;
DROP TABLE old_measurement;
DROP TABLE old_build;
DROP TABLE old_variant;
DROP TABLE old_scenario;
DROP TABLE old_run;
DROP TABLE old_device;
