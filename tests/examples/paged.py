# SPDX-License-Identifier: Apache-2.0
"""paged.py - a step of attention over a small paged KV cache on the CPU, of numpy arrays: one
prefill, one decode.

Each row of the output is compared with a naive computation. With torch tensors the calls are the
same.
"""

import libattune
import numpy as np

HEADS, KV_HEADS, DIM, PAGE = 8, 2, 64, 16
queries, keys = [20, 1], [50, 101]

rng = np.random.default_rng(1)
k_cache, v_cache = rng.uniform(-1, 1, (2, 12, PAGE, KV_HEADS, DIM)).astype(np.float32)
q = rng.uniform(-1, 1, (sum(queries), HEADS, DIM)).astype(np.float32)
block_table = np.array(
    [[7, 2, 9, 4, 0, 0, 0], [1, 11, 3, 8, 5, 10, 6]], np.int32
)  # row i: the pages of sequence i
query_start = np.cumsum([0] + queries).astype(np.int32)
seq_lens = np.array(keys, np.int32)

ctx = libattune.Context("cpu")
layer = ctx.prepare(
    num_qo_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=DIM, page_size=PAGE, dtype="float32"
)
plan = layer.plan(query_start, seq_lens)  # once a step
out = layer.run(plan, q, k_cache, v_cache, block_table, query_start, seq_lens)  # once a layer

error = 0
for i, (first, n) in enumerate(zip(query_start, keys)):
    k, v = (
        c[block_table[i]].reshape(-1, KV_HEADS, DIM)[:n].repeat(HEADS // KV_HEADS, 1)
        for c in (k_cache, v_cache)
    )
    rows = slice(first, first + queries[i])
    scores = np.einsum("qhd,khd->hqk", q[rows], k) / DIM**0.5
    scores[:, np.arange(n) > np.arange(n - queries[i], n)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)
    error = max(error, np.abs(out[rows] - want).max())
print(
    f"{sum(queries)} tokens by {plan}: largest error {error:.1e}:",
    "right" if error < 1e-5 else "WRONG",
)
raise SystemExit(not error < 1e-5)
