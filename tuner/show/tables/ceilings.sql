-- SPDX-License-Identifier: Apache-2.0
-- ceilings.sql - what the device can do at best, as measured by attune bench --roofline.
SELECT dram_gbps AS "reads, GB/s", fma_tflops AS "products, TFLOP/s", step AS "by" FROM ceiling WHERE dram_gbps > 0;
