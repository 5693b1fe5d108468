# SPDX-License-Identifier: Apache-2.0
"""FlashAttention-4 (package flash-attn-4), which CuTe DSL compiles at the first call.

This peer has never run. Its arguments were compared with the source of flash-attn-4 4.0.0b36.
"""
import torch


class Peer:
    name = "fa4"
    about = "FlashAttention-4 by its own JIT"
    packages = ("flash-attn-4", "nvidia-cutlass-dsl")
    backends = ("cuda",)
    dtypes = ("bf16", "f16")
    head_sizes = (64, 128)
    needs = ("finite_slots",)  # pages of 128 tokens are read whole
    axes = {"PACK": (1, 0)}

    def prepare(self, shape, PACK):
        from flash_attn.cute.interface import _flash_attn_fwd

        self.shape, self.pack, self.forward = shape, bool(PACK), _flash_attn_fwd

    def plan(self, batch, t):
        starts = torch.tensor(batch.query_start, dtype=torch.int32, device=self.shape.device)
        return starts, batch.max_query, batch.max_seq

    def launch(self, plan, t):
        starts, max_query, max_seq = plan
        self.forward(
            t.q.torch(), t.k_cache.torch(), t.v_cache.torch(), cu_seqlens_q=starts,
            seqused_k=t.seq_lens.torch(), max_seqlen_q=max_query, max_seqlen_k=max_seq,
            page_table=t.block_table.torch(), softmax_scale=self.shape.scale, causal=True,
            pack_gqa=self.pack, out=t.out.torch(),
        )  # fmt: skip
