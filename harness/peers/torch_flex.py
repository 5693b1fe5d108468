# SPDX-License-Identifier: Apache-2.0
"""torch's FlexAttention under torch.compile. Each launch gathers the pages and pads all sequences to the
longest query and the longest sequence.

On an H200, with torch 2.11, the results of four batches were right, and one batch of decodes was timed. The check before
a prefill failed: torch found no kernel for queries of 63 to 65 tokens. The kernel options were added for these; they have
not run on a GPU.
"""
import torch
import torch._dynamo
import torch._inductor.config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Peer:
    name = "torch_flex"
    about = "torch's FlexAttention, after a gather of the pages"
    packages = ("torch",)
    backends = ("cuda",)
    dtypes = ("f32", "f16", "bf16")
    features = ("noncausal", "window", "softcap")
    needs = ("finite_slots",)  # masked values are multiplied by 0

    def prepare(self, shape):
        self.shape = shape
        # Each batch has sizes and a mask of its own. Past the limit of its cache torch.compile would run without compiling.
        torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 100000
        torch._inductor.config.compile_threads = 1  # no processes that outlive the worker
        self.attend = torch.compile(flex_attention, dynamic=False, fullgraph=True)
        cap = shape.softcap
        self.score = (lambda score, b, h, q, kv: cap * torch.tanh(score / cap)) if cap else None

    def plan(self, batch, t):
        s = self.shape
        new = lambda values: torch.tensor(values, device=s.device)
        table, lens, queries = t.block_table.torch(), new(batch.seq_lens), new(batch.query_lens)
        used = (lens + s.page_size - 1) // s.page_size
        at = torch.arange(table.shape[1], device=s.device)
        pages = torch.where(at < used[:, None], table, table[:, :1])
        place = torch.arange(batch.max_query, device=s.device)
        is_row = place < queries[:, None]
        rows = torch.where(is_row, new(batch.query_start)[:-1, None] + place, 0)

        causal, window = bool(s.causal), s.window

        def seen(b, h, q, kv):
            at = lens[b] - queries[b] + q
            mask = (kv <= at) & (kv < lens[b]) if causal else kv < lens[b]
            return mask & (kv > at - window) if window else mask

        size = batch.num_seqs, None, batch.max_query, pages.shape[1] * s.page_size
        is_row = is_row.flatten().nonzero().flatten()  # indexing by a mask would synchronise in launch
        # The kernel for short queries has at most 128 rows a block, and torch fails where it needs more.
        options = {"FORCE_USE_FLEX_ATTENTION": batch.max_query * s.group > 128}
        return pages, rows, is_row, create_block_mask(seen, *size, device=s.device), options

    def launch(self, plan, t):
        s, (pages, rows, is_row, mask, options) = self.shape, plan
        q = t.q.torch()[rows].transpose(1, 2)
        k, v = (c.torch()[pages].flatten(1, 2).transpose(1, 2) for c in (t.k_cache, t.v_cache))
        how = {"score_mod": self.score, "block_mask": mask, "scale": s.scale, "enable_gqa": s.group > 1}
        o = self.attend(q, k, v, kernel_options=options, **how)
        t.out.torch().copy_(o.transpose(1, 2).flatten(0, 1)[is_row])
