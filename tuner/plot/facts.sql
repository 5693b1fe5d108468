-- SPDX-License-Identifier: Apache-2.0
-- facts.sql - the tables that the pictures' queries ask. Times are medians in µs; NULL: not measured.
-- ci: half of the 95 % interval of that median, as a share of it; NULL: fewer than six samples, or an estimate.

-- The scenarios of the database, in its order. side: 0 learned from, 1 held out, else -1. is_model: of
-- the model whose curves are drawn. last_pass: 1 if its plans were measured in the second session. ideal_bytes,
-- ideal_flops: keys and values read once, masked products left out. size: the logarithm of seqs to base 2, less its
-- fraction; intervals resample whole blocks of one model and size. query_group: query heads a KV head.
CREATE TABLE scenario(id INTEGER PRIMARY KEY, is_model, side, model, split, page_size, kv_dtype, batch, seqs, size, decode_seqs,
	last_pass, has_prefill, has_decode, ideal_bytes REAL, ideal_flops REAL, head_size, query_group);
CREATE VIEW blocked AS
	SELECT id, dense_rank() OVER (ORDER BY model, size) AS block FROM scenario;
-- Its sequences in order, equal neighbours as one row: n of them with `query` new tokens, `length` in all.
CREATE TABLE sequence(scenario, query, length, n);
-- The plan that a policy of `attune eval` picks; of "oracle" the fastest measured plan, of "row_settled" the one that
-- settles among the members of the header's row.
CREATE TABLE plan(scenario, policy, us REAL, ci REAL);
-- The same if the plan is one launch: what it reaches, and watts where the reading is of this launch's race.
CREATE TABLE launch(scenario, policy, gbps REAL, tflops REAL, watts REAL, ci REAL);
-- Kernels in the order of kernels.def, and the fastest choice of each for a whole batch in one launch.
CREATE TABLE kernel(id INTEGER PRIMARY KEY, name);
CREATE TABLE kernel_time(scenario, kernel, us REAL, ci REAL);
-- Ways to run a mixed batch, by one pass of measuring (0: the sweep, 1: the second session). serial: the
-- best plan of one part after the other; prefill_share: percent of both parts' best times. way_each: every
-- time of a way; way_time: the best.
CREATE TABLE way(id INTEGER PRIMARY KEY, name);
CREATE TABLE mixed(scenario, pass, serial REAL, serial_ci REAL, prefill_share REAL);
CREATE TABLE way_each(scenario, pass, way, us REAL, ci REAL);
CREATE VIEW way_time AS
	SELECT scenario, pass, way, min(us) AS us, ci FROM way_each GROUP BY scenario, pass, way;
-- What plug-ins of other projects are called in pictures and tables. look: of their points in all pictures; that
-- of a plug-in without a row is 10 and more.
CREATE TABLE called(plugin PRIMARY KEY, words, look);
INSERT INTO called VALUES ('fa3', 'FlashAttention-3', 1), ('fa4', 'FlashAttention-4', 2),
	('fi_decode', 'FlashInfer decode', 3), ('fi_fa2', 'FlashInfer fa2', 4),
	('fi_fa3', 'FlashInfer fa3', 5), ('fi_xqa', 'FlashInfer XQA', 6),
	('fi_batch', 'FlashInfer BatchAttention', 7), ('fi_pod', 'FlashInfer POD', 8),
	('vllm_triton', 'vLLM Triton', 9), ('fi_xqa_fp8', 'FlashInfer XQA FP8', 10),
	('vllm_cpu', 'vLLM''s CPU attention', 11), ('llama_cpp', 'llama.cpp', 12);
-- Kernels of other projects (table peer of peers.sql), each by its fastest setting.
CREATE VIEW peer_time AS
	SELECT s.id AS scenario, peer.id AS peer, us, ci / us AS ci,
		ifnull(words, peer.name) || iif(is_e4m3, ', q and weights in E4M3', '') AS name
	FROM peer_best JOIN peer ON name = peer_best.peer JOIN scenario s USING (model, page_size, kv_dtype, batch)
	LEFT JOIN called ON plugin = peer.name;
-- The fastest of them on each batch.
CREATE VIEW rival AS
	SELECT scenario, name, min(us) AS us, ci FROM peer_time GROUP BY scenario;
-- One row: the device's measured ceilings. step: what was timed for the second.
CREATE TABLE ceiling(dram_gbps REAL, fma_tflops REAL, step);
-- One row: of the times, those that count, and those that do not since their sources are older or their samples
-- too few; of the header its leaves, the choices that they name and these choices' kernels.
CREATE TABLE counted(scenarios, times, stale, noisy, leaves, choices, kernels);
-- One row: the device, the protocol, and the model whose curves are drawn; with_stale: times of older sources count.
CREATE TABLE shown(device, model, dtype, protocol, page_size, with_stale);
-- How far two runs of one choice in one race differ, below that many us (NULL: any): a share, and of how many pairs.
CREATE TABLE noise(below, floor REAL, pairs);
