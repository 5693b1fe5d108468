# SPDX-License-Identifier: Apache-2.0
"""Paged attention in Triton, the example to copy: causal or not, one pass over the keys.

A program of the grid has BLOCK_M rows: query tokens of one sequence times the query heads of one KV head.

Its results were right on an H200.
"""
import triton
import triton.language as tl


@triton.jit
def attend(q, k, v, out, table, lens, work, scale, q_token, q_head, out_token, out_head,
           k_page, k_slot, k_head, v_page, v_slot, v_head, table_seq,
           GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, SIZE: tl.constexpr, SIZE_PAD: tl.constexpr,
           PAGE: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, TILE_SIZE: tl.constexpr):  # fmt: skip
    block, kv = work + 4 * tl.program_id(0), tl.program_id(1)
    seq, first, query, row = tl.load(block), tl.load(block + 1), tl.load(block + 2), tl.load(block + 3)
    keys = tl.load(lens + seq)
    at = tl.arange(0, BLOCK_M)
    token, head = first + at // GROUP_PAD, at % GROUP_PAD
    d = tl.arange(0, SIZE_PAD)
    is_row = (token < query) & (head < GROUP)
    is_in = is_row[:, None] & (d < SIZE)[None, :]
    tokens, heads = (row + token).to(tl.int64), kv * GROUP + head
    rows = tl.load(q + (tokens * q_token + heads * q_head)[:, None] + d[None, :], mask=is_in, other=0.0)
    most = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, SIZE_PAD), tl.float32)
    end = keys
    if CAUSAL:  # the last row of the block sees the most
        end = tl.minimum(keys, keys - query + first + BLOCK_M // GROUP_PAD)
    for start in range(0, end, TILE_SIZE):
        slot = start + tl.arange(0, TILE_SIZE)
        is_key = slot < keys
        page = tl.load(table + seq * table_seq + slot // PAGE, mask=is_key, other=0).to(tl.int64)
        of_k = page * k_page + (slot % PAGE) * k_slot + kv * k_head
        of_v = page * v_page + (slot % PAGE) * v_slot + kv * v_head
        is_slot = is_key[:, None] & (d < SIZE)[None, :]
        tile = tl.load(k + of_k[:, None] + d[None, :], mask=is_slot, other=0.0)
        score = tl.dot(rows, tl.trans(tile)) * (scale * 1.4426950408889634)
        seen = is_key[None, :]
        if CAUSAL:
            seen = seen & (slot[None, :] <= (keys - query + token)[:, None])
        score = tl.where(seen, score, -1e30)
        now = tl.maximum(most, tl.max(score, 1))
        weight = tl.where(seen, tl.exp2(score - now[:, None]), 0.0)
        rescale = tl.exp2(most - now)
        total = total * rescale + tl.sum(weight, 1)
        tile = tl.load(v + of_v[:, None] + d[None, :], mask=is_slot, other=0.0)
        sums = sums * rescale[:, None] + tl.dot(weight.to(tile.dtype), tile)
        most = now
    sums = sums / tl.where(total > 0, total, 1.0)[:, None]
    to = out + (tokens * out_token + heads * out_head)[:, None] + d[None, :]
    tl.store(to, sums.to(out.dtype.element_ty), mask=is_in)


class Peer:
    name = "triton_paged"
    about = "the Triton kernel of harness/peers/triton_paged.py"
    packages = ("triton", "torch")
    backends = ("cuda",)
    dtypes = ("bf16", "f16")
    features = ("noncausal", "no_keys")
    axes = {"BLOCK_M": (16, 64, 128), "TILE_SIZE": (64, 32, 128), "NUM_WARPS": (4, 8)}

    def prepare(self, shape, BLOCK_M, TILE_SIZE, NUM_WARPS):
        self.shape, self.warps = shape, NUM_WARPS
        self.pad = triton.next_power_of_2(shape.group)
        if BLOCK_M < self.pad:
            raise ValueError("a block has fewer rows than a KV head has query heads")
        self.fixed = {
            "GROUP": shape.group, "GROUP_PAD": self.pad, "SIZE": shape.head_size,
            "SIZE_PAD": triton.next_power_of_2(shape.head_size), "PAGE": shape.page_size,
            "CAUSAL": bool(shape.causal), "BLOCK_M": BLOCK_M, "TILE_SIZE": TILE_SIZE,
        }  # fmt: skip

    def plan(self, batch, t):
        """For each block of rows: sequence, first query token, query length, first row of the sequence in q."""
        import torch

        step = self.fixed["BLOCK_M"] // self.pad
        work = [[i, first, m, batch.query_start[i]]
                for i, m in enumerate(batch.query_lens) for first in range(0, m, step)]  # fmt: skip
        return torch.tensor(work, dtype=torch.int32, device=self.shape.device)

    def launch(self, work, t):
        attend[(len(work), self.shape.num_kv_heads)](
            t.q.torch(), t.k_cache.torch(), t.v_cache.torch(), t.out.torch(), t.block_table.torch(),
            t.seq_lens.torch(), work, self.shape.scale, *t.q.strides[:2], *t.out.strides[:2],
            *t.k_cache.strides[:3], *t.v_cache.strides[:3], t.block_table.strides[0],
            **self.fixed, num_warps=self.warps,
        )  # fmt: skip
