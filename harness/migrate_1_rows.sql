-- migrate_1_rows.sql - rows of version 1 into today's tables, once schema.sql has made
-- them. All that version 1 measured was raced; what joules held follows from the power.

INSERT INTO device SELECT * FROM old_device;
INSERT INTO run SELECT * FROM old_run;
INSERT INTO scenario (id, model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads,
                      num_kv_heads, head_size, causal, "window", scale, softcap, has_sinks,
                      has_alibi, set_name, split, weight, steps, num_seqs, query_tokens, max_query,
                      kv_tokens, max_seq)
SELECT id, model, batch, page_size, dtype, kv_dtype, layout, seed, num_query_heads, num_kv_heads,
       head_size, causal, "window", scale, softcap, has_sinks, has_alibi, set_name, split, weight,
       0, num_seqs, query_tokens, max_query, kv_tokens, max_seq
FROM old_scenario;
INSERT INTO variant SELECT * FROM old_variant;
INSERT INTO build SELECT * FROM old_build;
INSERT INTO measurement (id, run, scenario, phase, variant, build, stage, outcome, samples, calls,
                         median_us, min_us, q25_us, q75_us, ci_us, ratio, gbps, tflops,
                         sm_mhz_before, sm_mhz_after, power_w, rejected, stopped, detail)
SELECT id, run, scenario, phase, variant, build, 'race', outcome, samples, calls, median_us,
       min_us, iif(length(samples) < 12, NULL, q25_us), iif(length(samples) < 12, NULL, q75_us),
       ci_us, ratio, gbps, tflops, sm_mhz_before, sm_mhz_after, power_w, rejected, stopped, detail
FROM old_measurement;
DROP TABLE old_measurement;
DROP TABLE old_build;
DROP TABLE old_variant;
DROP TABLE old_scenario;
DROP TABLE old_run;
DROP TABLE old_device;
