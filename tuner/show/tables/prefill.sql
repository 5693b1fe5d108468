-- prefill.sql - one call on published batches of prompts, in us; TFLOP/s without masked products, by attune's plan.
SELECT batch, t.us AS attune, o.us AS "fastest plan", ideal_flops / t.us / 1e6 AS "TFLOP/s",
	100 * ideal_flops / t.us / 1e6 / fma_tflops AS "% of products", d.us AS defaults
FROM ceiling, scenario s JOIN plan o ON o.scenario = s.id AND o.policy = 'oracle'
JOIN plan t ON t.scenario = s.id AND t.policy = 'tree'
LEFT JOIN plan d ON d.scenario = s.id AND d.policy = 'default'
WHERE is_model AND split = 'peers' AND NOT has_decode AND t.us IS NOT NULL ORDER BY ideal_flops;
