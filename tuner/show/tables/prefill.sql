-- SPDX-License-Identifier: Apache-2.0
-- prefill.sql - one call on published batches of prompts, in us; TFLOP/s without masked products, by attune's plan.
SELECT batch, attune, fastest AS "fastest plan", ideal_flops / attune / 1e6 AS "TFLOP/s",
	100 * ideal_flops / attune / 1e6 / fma_tflops AS "% of products", defaults
FROM ceiling, scenario JOIN plan_us ON scenario = id
WHERE is_model AND split = 'peers' AND NOT has_decode AND attune IS NOT NULL ORDER BY ideal_flops;
