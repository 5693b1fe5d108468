-- SPDX-License-Identifier: Apache-2.0
-- splits.sql - how far plans are from the fastest measured plan, on held-out batches by how they differ from what was
-- learned.
SELECT batches, n, attune, low, high, p95, worst, "within 5 %", "no time", "best fixed", "timed on", "attune there",
	"vLLM's Triton rule", defaults
FROM slowdown WHERE place >= 10 ORDER BY place;
