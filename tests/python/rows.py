# SPDX-License-Identifier: Apache-2.0
"""rows.py - sequences of tensors, as rows and laid into pages."""

import os

import attention
import torch

DEVICE = os.environ.get("ATTUNE_TEST_DEVICE", "cpu")
DTYPE = torch.float32 if DEVICE == "cpu" else torch.bfloat16
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def attend(q, k, v, slopes=None, sinks=None, **mask):
    """(out, lse [heads, queries]) of one sequence's tensors, by attention.attend."""
    q64, k, v, slopes, sinks = (
        None if x is None else x.double().cpu().numpy() for x in (q, k, v, slopes, sinks)
    )
    done = attention.attend(q64, k, v, slopes=slopes, sinks=sinks, **mask)
    return tuple(torch.from_numpy(x).float().to(q.device) for x in done)


class Batch:
    """Sequences of (queries, keys) tokens: random q, k, v as rows, and pages in random order."""

    def __init__(self, lengths, heads=8, kv_heads=2, dim=64, page=16, dtype=DTYPE):
        torch.manual_seed(1)
        self.queries, self.keys = [n for n, _ in lengths], [n for _, n in lengths]
        self.starts, self.key_starts = (
            torch.tensor([0] + n).cumsum(0).int().to(DEVICE) for n in (self.queries, self.keys)
        )
        self.lens = torch.tensor(self.keys).int().to(DEVICE)
        self.q = torch.randn(sum(self.queries), heads, dim, device=DEVICE).to(dtype)
        self.k, self.v = torch.randn(2, sum(self.keys), kv_heads, dim, device=DEVICE).to(dtype)
        need = [-(-n // page) for n in self.keys]
        self.table = torch.full((len(need), max(need) + 1), -1, dtype=torch.int32)
        order = torch.randperm(sum(need) + 3).int()
        self.kv = torch.randn(sum(need) + 3, 2, page, kv_heads, dim).to(dtype)
        for i, pages in enumerate(order[: sum(need)].split(need)):
            self.table[i, : len(pages)] = pages
            for c, x in enumerate((self.k, self.v)):
                x = self.of(x, i).cpu()
                x = torch.cat([x, x.new_zeros(len(pages) * page - len(x), kv_heads, dim)])
                self.kv[pages.long(), c] = x.view(len(pages), page, kv_heads, dim)
        self.kv, self.table = self.kv.to(DEVICE), self.table.to(DEVICE)
        self.k_cache, self.v_cache = self.kv.unbind(1)
        self.pages = [pages.to(DEVICE) for pages in order[: sum(need)].split(need)]

    def of(self, rows, i):
        """Sequence i's rows of q, k or v."""
        return rows.split(self.queries if rows is self.q else self.keys)[i]

    def slots(self):
        """[keys] int64: where each row of k lies in the cache."""
        page = self.kv.shape[2]
        at = [torch.arange(n, device=DEVICE) for n in self.keys]
        return torch.cat([p.long()[n // page] * page + n % page for p, n in zip(self.pages, at)])

    def cached(self):
        """What a run takes behind the plan and q."""
        return self.k_cache, self.v_cache, self.table, self.starts, self.lens

    def want(self, **mask):
        """(out, lse [tokens, heads])"""
        of = [
            attend(self.of(self.q, i), self.of(self.k, i), self.of(self.v, i), **mask)
            for i in range(len(self.keys))
        ]
        return torch.cat([out for out, _ in of]), torch.cat([lse.t() for _, lse in of])


def error(out, want):
    """The largest error over the type's tolerance, which grows with what is right."""
    want = want.float()
    room = TOLERANCE[out.dtype] * (1 + want.abs())
    return ((out.float() - want).abs() / room).max().item()
