# SPDX-License-Identifier: Apache-2.0
"""kit.py - arrays on the device under test, and batches over a paged cache.

ATTUNE_TEST_DEVICE   cpu, the default, or cuda
ATTUNE_TEST_TORCH    1: torch tensors on the CPU, too; else numpy arrays
"""

import os

import numpy as np
from attention import attend

import libattune

DEVICE = os.environ.get("ATTUNE_TEST_DEVICE", "cpu")
TORCH = DEVICE != "cpu" or os.environ.get("ATTUNE_TEST_TORCH") == "1"
DTYPES = ["float16", "bfloat16"] if DEVICE != "cpu" else ["float32", "float16", "bfloat16"]
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
if TORCH:
    import torch


def put(x, dtype=None):
    """A numpy array on the device, of floats as `dtype`."""
    if TORCH:
        t = torch.from_numpy(np.ascontiguousarray(x))
        return (t.to(getattr(torch, dtype)) if dtype else t).to(DEVICE)
    if dtype == "bfloat16":  # the upper halves, rounded to even
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.ascontiguousarray(x) if dtype is None else np.ascontiguousarray(x).astype(dtype)


def get(x):
    """What an array holds, as fp64."""
    if TORCH:
        return x.double().cpu().numpy()
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


def empty(shape, dtype):
    return put(np.full(shape, 7.5, np.float32), dtype)


class Batch:
    """Sequences over pages in random order, with q of random numbers.

    lengths   [(query length, sequence length), ...]
    k, v      [pages, page_size, heads, head_dim]; `layout` says how they lie in one array"""

    def __init__(
        self, lengths, dtype=DTYPES[0], heads=(8, 2), dim=64, page=16, layout="nhd", seed=1, **more
    ):
        rng = np.random.default_rng(seed)
        self.dtype, self.heads, self.dim, self.page, self.more = dtype, heads, dim, page, more
        self.queries, self.seq_lens = [n for n, _ in lengths], [n for _, n in lengths]
        self.starts = np.concatenate([[0], np.cumsum(self.queries)]).astype(np.int32)
        self.tokens = int(self.starts[-1])
        wide = max([1] + [-(-n // page) for n in self.seq_lens])
        pages = wide * len(lengths) + 3
        self.table = np.full((len(lengths), wide), -1, np.int32)
        order = rng.permutation(pages)
        for i, n in enumerate(self.seq_lens):
            need = -(-n // page)
            self.table[i, :need], order = order[:need], order[need:]
        shape = {
            "nhd": (pages, 2, page, heads[1], dim),
            "hnd": (pages, 2, heads[1], page, dim),
            "vllm": (pages, heads[1], page, 2 * dim),
            "vllm_legacy": (2, pages, page, heads[1], dim),
        }
        self.kv = put(rng.standard_normal(shape[layout], np.float32), dtype)
        self.k, self.v = libattune.kv_views(self.kv, layout)
        self.q = put(rng.standard_normal((self.tokens, heads[0], dim), np.float32), dtype)
        self.table_there, self.starts_there = put(self.table), put(self.starts)
        self.lens_there = put(np.array(self.seq_lens, np.int32))

    def shape(self):
        """Arguments of Context.prepare."""
        return dict(
            num_qo_heads=self.heads[0],
            num_kv_heads=self.heads[1],
            head_dim=self.dim,
            page_size=self.page,
            dtype=self.dtype,
            **self.more
        )

    def run(self, layer, plan=None, **more):
        plan = plan or layer.plan(self.starts, self.seq_lens)
        return layer.run(
            plan,
            more.pop("q", self.q),
            self.k,
            self.v,
            self.table_there,
            self.starts_there,
            self.lens_there,
            **more
        )

    def reference(self, sinks=None, alibi=None):
        """(out, lse) in fp64 from the arrays' own values."""
        q, k, v = get(self.q), get(self.k), get(self.v)
        more, out, lse = self.more, np.zeros(q.shape), np.zeros(q.shape[:2])
        for i, keys in enumerate(self.seq_lens):
            at = np.arange(keys)
            pages, slots = self.table[i, at // self.page], at % self.page
            rows = slice(self.starts[i], self.starts[i + 1])
            out[rows], of_heads = attend(
                q[rows],
                k[pages, slots],
                v[pages, slots],
                causal=more.get("causal", True),
                left=more.get("window_left", -1),
                softcap=more.get("logits_soft_cap", 0),
                scale=more.get("sm_scale"),
                slopes=alibi,
                sinks=sinks,
            )
            lse[rows] = of_heads.T
        return out, lse


def largest_error(out, want, dtype):
    """The largest error over the type's tolerance, which grows with what is right."""
    room = TOLERANCE[dtype] * (1 + np.abs(want))
    return float((np.abs(get(out) - want) / room).max(initial=0))
