-- SPDX-License-Identifier: Apache-2.0
-- roofline.sql - shares of the device's ceilings. Blocks: decodes with default parameters, with the tuned
-- choice, prefills with both; rows "bytes or FLOP, percent, its ci".
-- size: 1100 480
-- needs: measured ceilings
CREATE TEMP TABLE dot AS
	SELECT 2 * has_prefill + (policy = 'tree') AS block, has_prefill,
		iif(has_prefill, ideal_flops, ideal_bytes) AS work,
		100 * iif(has_prefill, tflops / fma_tflops, gbps / dram_gbps) AS share, ci, id
	FROM launch JOIN scenario ON id = scenario, ceiling
	WHERE policy IN ('tree', 'default') AND dram_gbps > 0 AND fma_tflops > 0;
DELETE FROM dot WHERE NOT (work > 0 AND share > 0) OR work IS NULL OR share IS NULL;

SELECT block, work, share, ifnull(ci, 0) FROM dot ORDER BY block, id;

-- One panel may be empty: its range is then any.
SELECT 1 AS "set", count(ci) AS with_ci, count(*) AS num_points,
	ifnull(min(iif(has_prefill, NULL, work)), 1) AS bytes_lo,
	ifnull(max(iif(has_prefill, NULL, work)), 10) AS bytes_hi,
	max(100, ifnull(max(iif(has_prefill, 0, share)), 0)) AS bytes_share_hi,
	ifnull(min(iif(has_prefill, work, NULL)), 1) AS flops_lo,
	ifnull(max(iif(has_prefill, work, NULL)), 10) AS flops_hi,
	max(100, ifnull(max(iif(has_prefill, share, 0)), 0)) AS flops_share_hi
FROM dot;
SELECT 1 AS "set", dram_gbps, fma_tflops, step FROM ceiling;
