# SPDX-License-Identifier: Apache-2.0
"""FlashAttention-3, by the operator in vLLM's wheel. It needs torch and no other part of vLLM.

An unpacked wheel suffices: vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so and the folder vllm-*.dist-info.

It raced on an H200, with vLLM 0.33 and torch 2.11.
"""
import importlib.metadata

import torch


class Peer:
    name = "fa3"
    about = "FlashAttention-3, vLLM's build"
    packages = ("vllm",)
    backends = ("cuda",)
    dtypes = ("bf16", "f16")
    head_sizes = (64, 96, 128, 192, 256)
    features = ("window", "softcap", "noncausal")
    needs = ("finite_slots",)
    axes = {"SPLITS": (0, 1), "PACK": (-1, 0, 1)}  # 0 and -1: its own heuristic

    def prepare(self, shape, SPLITS, PACK):
        if torch.cuda.get_device_capability() != (9, 0):
            raise NotImplementedError("FlashAttention-3 is for sm_90 only")
        path = importlib.metadata.distribution("vllm").locate_file("vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so")
        torch.ops.load_library(str(path))
        self.shape, self.splits = shape, SPLITS
        self.pack = None if PACK < 0 else bool(PACK)
        self.window = (shape.window - 1 if shape.window else -1, 0 if shape.window and shape.causal else -1)
        self.ops = torch.ops._vllm_fa3_C

    def plan(self, batch, t):
        s = self.shape
        starts = torch.tensor(batch.query_start, dtype=torch.int32, device=s.device)
        schedule = self.ops.get_scheduler_metadata(
            batch.num_seqs, batch.max_query, batch.max_seq, s.num_query_heads, s.num_kv_heads,
            s.head_size, s.head_size, torch.bfloat16 if s.dtype == "bf16" else torch.float16,
            t.seq_lens.torch(), starts, None, None, None, None, s.page_size, 0, bool(s.causal),
            *self.window, s.softcap > 0, self.splits, self.pack, 0,
        )  # fmt: skip
        return starts, batch.max_query, batch.max_seq, schedule

    def launch(self, plan, t):
        s, (starts, max_query, max_seq, schedule) = self.shape, plan
        self.ops.fwd(
            t.q.torch(), t.k_cache.torch(), t.v_cache.torch(), None, None, None, t.out.torch(),
            starts, None, None, None, t.seq_lens.torch(), max_query, max_seq, t.block_table.torch(),
            None, None, None, None, None, None, None, None, s.scale, bool(s.causal), *self.window,
            s.softcap, True, schedule, self.splits, self.pack, 0, None, 1, 0, None,
        )  # fmt: skip
