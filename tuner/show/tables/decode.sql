-- SPDX-License-Identifier: Apache-2.0
-- decode.sql - one call on published batches of decodes, in us; GB/s of keys and values read once, by attune's plan.
SELECT batch, attune, fastest AS "fastest plan", ideal_bytes / attune / 1e3 AS "GB/s",
	100 * ideal_bytes / attune / 1e3 / dram_gbps AS "% of reads"
FROM ceiling, scenario JOIN plan_us ON scenario = id
WHERE is_model AND split = 'peers' AND NOT has_prefill AND attune IS NOT NULL
	AND batch IN ('q1s128', 'q1s1k', 'q1s4k', 'q1s16k', 'q1s64k', '8q1s4k', '32q1s1k', '32q1s4k', '128q1s1k', '256q1s16k', '32q4s8k')
ORDER BY seqs, ideal_bytes;
