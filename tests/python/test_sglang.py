# SPDX-License-Identifier: Apache-2.0
"""test_sglang.py - libattune in SGLang: its layers, pools and forward contexts, driven as its model
runner drives them, over requests whose answers are computed in fp64. No engine runs; on a CPU no
CUDA graph and no fp8 cache do."""

import random
import unittest
from types import SimpleNamespace
from unittest import mock

import torch

import libattune.sglang
from rows import DEVICE, DTYPE, TOLERANCE, attend
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.model_executor.forward_context import (
    ForwardContext,
    forward_context,
    get_req_to_token_pool,
    get_token_to_kv_pool,
)

HEADS, KV_HEADS, DIM, MOST, WINDOW, TOKENS = 8, 2, 64, 512, 20, 1920
libattune.sglang.register()


class Runner:
    """Layers with and without a window, over one pool of tokens or one for each kind."""

    def __init__(self, page, cap=0.0, layers=2, two_pools=False, cache=DTYPE):
        self.page, self.cap, self.cache, self.rng = page, cap, cache, random.Random(5)
        if two_pools:
            self.pool = SWAKVPool(
                TOKENS, TOKENS, page, cache, KV_HEADS, DIM, [0, 2], [1, 3], DEVICE
            )
            pages = torch.tensor(self.rng.sample(range(1, TOKENS // page), TOKENS // page - 1))
            first = torch.cat([torch.zeros(1, dtype=torch.int64), pages]) * page
            mapping = (first[:, None] + torch.arange(page)).flatten()
            self.pool.register_mapping(torch.cat([mapping, torch.tensor([-1])]).to(DEVICE))
        else:
            self.pool = MHATokenToKVPool(
                TOKENS, page, cache, KV_HEADS, DIM, layers, DEVICE, enable_memory_saver=False
            )
        self.requests = ReqToTokenPool(12, MOST, DEVICE, enable_memory_saver=False)
        self.backend = ATTENTION_BACKENDS["attune"](
            SimpleNamespace(
                token_to_kv_pool=self.pool,
                req_to_token_pool=self.requests,
                page_size=page,
                device=DEVICE,
                use_mla_backend=False,
                model_config=SimpleNamespace(context_len=MOST),
            )
        )
        self.layers = [
            RadixAttention(
                HEADS,
                DIM,
                DIM**-0.5,
                KV_HEADS,
                i,
                logit_cap=cap,
                sliding_window_size=-1 if i % 2 else WINDOW - 1,
            )
            for i in range(layers)
        ]
        self.free = list(range(1, TOKENS // page))
        self.rng.shuffle(self.free)
        self.rows, self.keys = {}, {}

    def past(self, r):
        return self.keys[r][0][0].shape[0] if r in self.keys else 0

    def batch(self, step):
        """A ForwardBatch of [(request, new tokens), ...]."""
        slots = []
        for r, n in step:
            if r not in self.keys:
                self.rows[r] = self.requests.free_slots.pop(0)
                empty = torch.empty(0, KV_HEADS, DIM, device=DEVICE, dtype=DTYPE)
                self.keys[r] = [[empty, empty] for _ in self.layers]
            row = self.requests.req_to_token[self.rows[r]]
            for at in range(self.past(r), self.past(r) + n):
                new = self.free.pop() * self.page if at % self.page == 0 else int(row[at - 1]) + 1
                row[at] = new
                slots.append(new)
        lens = torch.tensor([self.past(r) + n for r, n in step])
        new = [n for _, n in step]
        decodes = all(n == 1 for n in new)
        return ForwardBatch(
            forward_mode=ForwardMode.DECODE if decodes else ForwardMode.MIXED,
            batch_size=len(step),
            input_ids=None,
            seq_lens_sum=int(lens.sum()),
            seq_lens=lens.to(DEVICE),
            seq_lens_cpu=lens,
            req_pool_indices=torch.tensor([self.rows[r] for r, _ in step], device=DEVICE),
            extend_seq_lens=torch.tensor(new, dtype=torch.int32, device=DEVICE),
            extend_seq_lens_cpu=new,
            out_cache_loc=torch.tensor(slots, device=DEVICE),
            spec_info=None,
            global_num_token_non_padded_cpu=len(slots),
        )

    def forward(self, batch, sinks=None):
        done, more = [], {} if sinks is None else {"sinks": sinks}
        with forward_context(ForwardContext(attn_backend=self.backend), forward_batch=batch):
            for layer in self.layers:
                q, k, v = (
                    torch.randn(len(batch.out_cache_loc), n * DIM, device=DEVICE, dtype=DTYPE)
                    for n in (HEADS, KV_HEADS, KV_HEADS)
                )
                done.append((q, k, v, layer(q, k, v, batch, **more)))
        return done

    def check(self, step, done, sinks=None):
        worst, at = 0.0, 0
        for r, n in step:
            rows = slice(at, at + n)
            for i, (q, k, v, out) in enumerate(done):
                held = self.keys[r][i]
                for side, x in enumerate((k, v)):
                    new = x[rows].to(self.cache).to(DTYPE).view(n, KV_HEADS, DIM)
                    held[side] = torch.cat([held[side], new])
                want, _ = attend(
                    q[rows].view(n, HEADS, DIM),
                    *held,
                    left=self.layers[i].sliding_window_size,
                    softcap=self.cap,
                    sinks=sinks,
                )
                error = (out[rows].view(n, HEADS, DIM).float() - want).abs().max()
                worst = max(worst, float(error) / TOLERANCE[DTYPE])
            at += n
        return worst

    def step(self, step, sinks=None):
        batch = self.batch(step)
        self.backend.init_forward_metadata(batch)
        return self.check(step, self.forward(batch, sinks), sinks)


STEPS = [
    [("a", 33)],
    [("a", 1), ("b", 70)],
    [("c", 16), ("a", 1), ("b", 40), ("d", 3)],
    [("a", 1), ("b", 1), ("c", 1), ("d", 1)],
]


class Attending(unittest.TestCase):
    def test_pages(self):
        for page in 1, 16, 64:
            with self.subTest(page=page):
                runner = Runner(page)
                for i, step in enumerate(STEPS):
                    self.assertLess(runner.step(step), 1, f"step {i}")

    def test_two_pools(self):
        runner = Runner(16, layers=4, two_pools=True)
        for i, step in enumerate(STEPS):
            self.assertLess(runner.step(step), 1, f"step {i}")

    @unittest.skipIf(DEVICE == "cpu", "caches of 8 bits are GPUs'")
    def test_fp8(self):
        for two_pools in False, True:
            runner = Runner(16, layers=4, two_pools=two_pools, cache=torch.float8_e4m3fn)
            for i, step in enumerate(STEPS):
                self.assertLess(runner.step(step), 1, f"step {i}")

    def test_softcap_and_sinks(self):
        sinks = torch.randn(HEADS, device=DEVICE).bfloat16()
        runner = Runner(16, cap=5.0)
        for i, step in enumerate(STEPS):
            self.assertLess(runner.step(step, sinks), 1, f"step {i}")

    def test_decodes_by_a_plan_of_maxima(self):
        """A graph of 4 decodes, of which the last may be padding."""
        for two_pools in False, True:
            with self.subTest(two_pools=two_pools):
                self.replay(Runner(16, layers=4, two_pools=two_pools))

    def replay(self, runner):
        runner.step([(r, 5 + 30 * i) for i, r in enumerate("abcd")])
        backend = runner.backend
        backend.init_cuda_graph_state(4, 4)
        new = dict(device=DEVICE)
        static = ForwardBatch(
            forward_mode=ForwardMode.DECODE,
            batch_size=4,
            input_ids=None,
            seq_lens_sum=4,
            seq_lens=torch.ones(4, dtype=torch.int64, **new),
            seq_lens_cpu=torch.ones(4, dtype=torch.int64),
            req_pool_indices=torch.zeros(4, dtype=torch.int64, **new),
            out_cache_loc=torch.zeros(4, dtype=torch.int64, **new),
            spec_info=None,
            global_num_token_non_padded_cpu=4,
        )
        backend.init_forward_metadata_out_graph(static, in_capture=True)

        def run():
            backend.init_forward_metadata_in_graph(static)
            return runner.forward(static)

        plan = libattune.Layer.plan_bounds
        with mock.patch.object(
            libattune.Layer, "plan_bounds", autospec=True, side_effect=plan
        ) as made:
            done = run()
        self.assertEqual([x.args[1:] for x in made.mock_calls], [(4, 4, 1, MOST)] * 2)
        if DEVICE != "cpu":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                done = run()
        for rows in "abcd", "db", "cda":
            step = [(r, 1) for r in rows]
            live = runner.batch(step)
            static.seq_lens.fill_(1)
            static.seq_lens_cpu = torch.ones(4, dtype=torch.int64)
            static.req_pool_indices.zero_()
            static.out_cache_loc.zero_()
            for name in "seq_lens", "seq_lens_cpu", "req_pool_indices", "out_cache_loc":
                getattr(static, name)[: len(step)] = getattr(live, name)
            backend.init_forward_metadata_out_graph(static)
            if DEVICE == "cpu":
                done = run()
            else:
                graph.replay()
            self.assertLess(runner.check(step, done), 1)

    def test_pools_of_the_context(self):
        """SGLang's models and runners ask the context's backend for the pools."""
        runner = Runner(16)
        with forward_context(ForwardContext(attn_backend=runner.backend)):
            self.assertIs(get_token_to_kv_pool(), runner.pool)
            self.assertIs(get_req_to_token_pool(), runner.requests)

    def test_what_is_refused(self):
        runner = Runner(16)
        batch = runner.batch([("a", 3)])
        batch.spec_info = object()
        with self.assertRaisesRegex(NotImplementedError, "speculative"):
            runner.backend.init_forward_metadata(batch)
        batch.spec_info = None
        runner.backend.init_forward_metadata(batch)
        runner.layers[0].is_cross_attention = True
        with self.assertRaisesRegex(NotImplementedError, "layer 0 is not causal"):
            runner.forward(batch)


class Choosing(unittest.TestCase):
    def test_name(self):
        from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES

        libattune.sglang.register()
        self.assertEqual(ATTENTION_BACKEND_CHOICES.count("attune"), 1)


if __name__ == "__main__":
    unittest.main()
