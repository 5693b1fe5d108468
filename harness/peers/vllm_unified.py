# SPDX-License-Identifier: Apache-2.0
"""vLLM's Triton unified attention, from the site-packages of an installed vLLM.

Only the kernel's file is loaded; stand-ins replace the other parts of vLLM that it imports. So an unpacked wheel
suffices: vllm/v1/attention/ops and the folder vllm-*.dist-info. SEGMENTS 16, which vLLM uses, splits the keys of
short queries where there are few sequences. 0 never splits.

It raced on an H200, with vLLM 0.33 and Triton 3.6.
"""
import enum
import importlib
import importlib.metadata
import logging
import sys
import types

import torch
import triton
import triton.language

MODES = {"NONE": 0, "FP8_PER_TENSOR": 1, "INT8_PER_TOKEN_HEAD": 2, "FP8_PER_TOKEN_HEAD": 3, "INT4_PER_TOKEN_HEAD": 4}


def unified_attention():
    root = importlib.metadata.distribution("vllm").locate_file("vllm")
    for name in ("", ".v1", ".v1.attention", ".v1.attention.ops"):  # without their __init__
        package = types.ModuleType("vllm" + name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules["vllm" + name] = package
    platform = types.SimpleNamespace(
        fp8_dtype=lambda: torch.float8_e4m3fn,
        is_device_capability_family=lambda c: torch.cuda.get_device_capability()[0] * 10 == c,
    )
    mode = enum.IntEnum("KVQuantMode", MODES)
    for name, members in {
        "envs": {"VLLM_BATCH_INVARIANT": False},
        "logger": {"init_logger": logging.getLogger},
        "platforms": {"current_platform": platform},
        "triton_utils": {"tl": triton.language, "triton": triton},
        "v1.kv_cache_interface": {"KVQuantMode": mode},
    }.items():
        module = types.ModuleType("vllm." + name)
        module.__dict__.update(members)
        sys.modules["vllm." + name] = module
    sys.modules["vllm"].envs = sys.modules["vllm.envs"]
    return importlib.import_module("vllm.v1.attention.ops.triton_unified_attention").unified_attention


class Peer:
    name = "vllm_unified"
    about = "vLLM's Triton unified attention"
    packages = ("vllm", "triton")
    backends = ("cuda",)
    dtypes = ("bf16", "f16")
    features = ("window", "softcap", "sinks")
    axes = {"SEGMENTS": (16, 0)}

    def prepare(self, shape, SEGMENTS):
        self.shape, self.segments, self.attend = shape, SEGMENTS, unified_attention()
        if shape.window and not shape.causal:
            raise ValueError("windows are causal")

    def plan(self, batch, t):
        s, split = self.shape, {}
        starts = torch.tensor(batch.query_start, dtype=torch.int32, device=s.device)
        if self.segments:
            n, heads = self.segments, s.num_query_heads
            size = triton.next_power_of_2(s.head_size)
            new = lambda *sizes: torch.empty(sizes, dtype=torch.float32, device=s.device)
            threshold = 128 // s.num_kv_heads  # vLLM's MIN_LAUNCH_GRID_SIZE_2D
            rows = min(batch.num_tokens, 8 * threshold)
            split = {
                "seq_threshold_3D": threshold, "num_par_softmax_segments": n,
                "softmax_segm_output": new(rows, heads, n, size),
                "softmax_segm_max": new(rows, heads, n), "softmax_segm_expsum": new(rows, heads, n),
            }  # fmt: skip
        return starts, batch.max_query, batch.max_seq, split

    def launch(self, plan, t):
        s, (starts, max_query, max_seq, split) = self.shape, plan
        window = (s.window - 1, 0) if s.window else (-1, -1)
        self.attend(
            q=t.q.torch(), k=t.k_cache.torch(), v=t.v_cache.torch(), out=t.out.torch(),
            cu_seqlens_q=starts, max_seqlen_q=max_query, seqused_k=t.seq_lens.torch(),
            max_seqlen_k=max_seq, softmax_scale=s.scale, causal=True, window_size=window,
            block_table=t.block_table.torch(), softcap=s.softcap, q_descale=None, k_descale=None,
            v_descale=None, sinks=t.sinks.torch() if t.sinks else None, **split,
        )  # fmt: skip
