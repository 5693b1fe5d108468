-- decode.sql - one call on published batches of decodes, in us; GB/s of keys and values read once, by attune's plan.
SELECT batch, t.us AS attune, o.us AS "fastest plan", ideal_bytes / t.us / 1e3 AS "GB/s",
	100 * ideal_bytes / t.us / 1e3 / dram_gbps AS "% of reads"
FROM ceiling, scenario s JOIN plan o ON o.scenario = s.id AND o.policy = 'oracle'
JOIN plan t ON t.scenario = s.id AND t.policy = 'tree'
WHERE is_model AND split = 'peers' AND NOT has_prefill AND t.us IS NOT NULL
	AND batch IN ('q1s128', 'q1s1k', 'q1s4k', 'q1s16k', 'q1s64k', '8q1s4k', '32q1s1k', '32q1s4k', '128q1s1k', '256q1s16k', '32q4s8k') ORDER BY seqs, ideal_bytes;
