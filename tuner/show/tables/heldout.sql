-- SPDX-License-Identifier: Apache-2.0
-- heldout.sql - how far plans are from the fastest measured plan, on batches that nothing was learned from, by kind.
SELECT batches, n, attune, low, high, p95, worst, "within 5 %", "no time", "best fixed", "timed on", "attune there",
	"vLLM's Triton rule", defaults
FROM slowdown WHERE place IN (0, 4) OR place < 4 AND n < (SELECT n FROM slowdown WHERE place = 0) ORDER BY place;
