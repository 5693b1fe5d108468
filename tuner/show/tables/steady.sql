-- SPDX-License-Identifier: Apache-2.0
-- steady.sql - the fastest measured plan on decodes and prompts of one model under unbroken load, in us.
SELECT batch, us, ideal_bytes / us / 1e3 AS "GB/s", ideal_flops / us / 1e6 AS "TFLOP/s", watts
FROM scenario s JOIN plan p ON p.scenario = s.id AND p.policy = 'oracle'
LEFT JOIN launch l ON l.scenario = s.id AND l.policy = 'oracle'
WHERE is_model AND us IS NOT NULL AND NOT (has_prefill AND has_decode) ORDER BY has_prefill, seqs, ideal_bytes;
