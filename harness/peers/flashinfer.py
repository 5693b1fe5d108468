# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's paged prefill wrapper, which also takes decodes. FlashInfer compiles it at the first plan.

This peer has no times. On an H200, with FlashInfer 0.7.2.post1, results of its fa2 template were right in a program
with dense rows, but the check before a race refused it: it wrote past a row of `out`. There rows lie apart. A guess is
that FlashInfer ignores the strides of `out`, so this peer now needs dense rows. It has not run since.
"""
import torch


class Peer:
    name = "flashinfer"
    about = "FlashInfer's paged wrapper by its own JIT"
    packages = ("flashinfer-python",)
    backends = ("cuda",)
    dtypes = ("bf16", "f16")
    head_sizes = (64, 128, 256)
    features = ("window", "softcap", "noncausal")
    needs = ("finite_slots", "dense_rows")
    axes = {"FA": (2, 3, 0)}  # the template: fa2, fa3, its own choice

    def prepare(self, shape, FA):
        from flashinfer import BatchPrefillWithPagedKVCacheWrapper

        self.shape, self.kind = shape, {0: "auto", 2: "fa2", 3: "fa3"}[FA]
        self.make = BatchPrefillWithPagedKVCacheWrapper
        self.space = torch.empty(128 << 20, dtype=torch.uint8, device=shape.device)

    def plan(self, batch, t):
        s, dtype = self.shape, torch.bfloat16 if self.shape.dtype == "bf16" else torch.float16
        used = [-(-n // s.page_size) for n in batch.seq_lens]
        ends = [sum(used[: i + 1]) for i in range(len(used))]
        ints = lambda values: torch.tensor(values, dtype=torch.int32)
        last = ints([(n - 1) % s.page_size + 1 if n else 0 for n in batch.seq_lens])
        at = torch.arange(t.block_table.shape[1], device=s.device)
        is_used = at < ints(used).to(s.device)[:, None]
        wrapper = self.make(self.space, "NHD", backend=self.kind)
        wrapper.plan(
            ints(batch.query_start), ints([0, *ends]), t.block_table.torch()[is_used], last,
            s.num_query_heads, s.num_kv_heads, s.head_size, s.page_size, causal=bool(s.causal),
            sm_scale=s.scale, window_left=s.window - 1, logits_soft_cap=s.softcap or None,
            q_data_type=dtype, kv_data_type=dtype,
        )  # fmt: skip
        return wrapper

    def launch(self, wrapper, t):
        wrapper.run(t.q.torch(), (t.k_cache.torch(), t.v_cache.torch()), out=t.out.torch())
