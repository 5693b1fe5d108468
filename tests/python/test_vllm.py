# SPDX-License-Identifier: Apache-2.0
"""test_vllm.py - libattune in vLLM: its own attention layers, cache views, groups and metadata, driven
as its model runner drives them, over requests whose answers are computed in fp64. Unless
ATTUNE_TEST_DEVICE=cuda vLLM is told that it is on a CPU; no CUDA graph and no fp8 cache then run. No
engine runs anywhere."""

import os
import random
import unittest
from types import SimpleNamespace
from unittest import mock

import torch

if os.environ.get("ATTUNE_TEST_DEVICE", "cpu") == "cpu":
    os.environ["VLLM_TARGET_DEVICE"] = "cpu"
os.environ["ATTUNE_DECODE_WITH"] = "REFERENCE"

import libattune.vllm  # noqa: E402
from rows import DEVICE, DTYPE, TOLERANCE, attend  # noqa: E402
from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.forward_context import set_forward_context  # noqa: E402
from vllm.model_executor.layers.attention import Attention  # noqa: E402
from vllm.platforms.interface import DeviceCapability  # noqa: E402
from vllm.v1.attention.backend import AttentionCGSupport  # noqa: E402
from vllm.v1.attention.backends.registry import (  # noqa: E402
    AttentionBackendEnum,
    register_backend,
)
from vllm.v1.kv_cache_interface import (  # noqa: E402
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheTensor,
    SlidingWindowSpec,
    compute_layout_strides,
    get_kv_quant_mode,
)
from vllm.v1.kv_cache_layout import KVCacheLayout  # noqa: E402
from vllm.v1.worker.gpu.attn_utils import build_attn_metadata, init_attn_backend  # noqa: E402
from vllm.v1.worker.utils import allocate_kv_cache  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE, WINDOW, MOST = 8, 2, 64, 16, 20, 512
libattune.vllm.register()


class Runner:
    """Layers of two cache groups, full and sliding attention, and requests that run on them.

    cache   "auto" or "fp8"
    extra   arguments of all layers, such as sinks"""

    def __init__(
        self, layout=KVCacheLayout.LBNHC, backend="ATTUNE", layers=4, cache="auto", **extra
    ):
        self.config = config = VllmConfig()
        config.model_config = SimpleNamespace(
            dtype=DTYPE, max_model_len=MOST, is_mm_prefix_lm=False, rswa_window=None
        )
        config.cache_config.block_size, config.cache_config.cache_dtype = PAGE, cache
        self.cache = cache
        self.extra, self.rng = extra, random.Random(3)
        self.window = [None if i % 2 else WINDOW for i in range(layers)]
        chosen = AttentionBackendEnum[backend].get_class()
        with set_current_vllm_config(config):
            self.layers = [
                Attention(
                    HEADS,
                    DIM,
                    DIM**-0.5,
                    num_kv_heads=KV_HEADS,
                    per_layer_sliding_window=window,
                    cache_config=config.cache_config,
                    prefix=f"model.layers.{i}.attn",
                    attn_backend=chosen,
                    **extra,
                ).to(DEVICE)
                for i, window in enumerate(self.window)
            ]
            self.make_caches(layout)
            self.groups, self.graphs, _ = init_attn_backend(
                self.kv_config, config, torch.device(DEVICE)
            )
        self.requests = {}  # id: (pages of each group, k and v so far of each layer)
        self.free = [list(range(1, self.kv_config.num_blocks)) for _ in range(2)]
        for pages in self.free:
            self.rng.shuffle(pages)

    def make_caches(self, layout):
        shape = dict(
            block_size=PAGE,
            num_kv_heads=KV_HEADS,
            head_size=DIM,
            dtype=self.layers[0].kv_cache_torch_dtype,
            kv_quant_mode=get_kv_quant_mode(self.cache),
        )
        specs = SlidingWindowSpec(sliding_window=WINDOW, **shape), FullAttentionSpec(**shape)
        names = [[x.layer_name for x in self.layers[i::2]] for i in (0, 1)]
        blocks, offset, tensors = 120, 0, []
        for spec, group in zip(specs, names):
            by_layer, by_block = compute_layout_strides(spec, blocks, len(group), layout)[:2]
            tensors.append((group, by_layer, by_block, offset))
            offset += blocks * len(group) * spec.page_size_bytes
        self.kv_config = KVCacheConfig(
            blocks,
            [KVCacheTensor(offset, g, layer, block, at) for g, layer, block, at in tensors],
            [KVCacheGroupSpec(g, s) for g, s in zip(names, specs)],
        )
        caches = allocate_kv_cache(self.kv_config, torch.device(DEVICE), layout, [PAGE, PAGE])
        for layer in self.layers:
            layer.kv_cache = caches[layer.layer_name]

    def lengths(self, step):
        """What the runner knows of a step of [(request, new tokens), ...]."""
        queries = [n for _, n in step]
        lens = [self.past(r) + n for r, n in step]
        return queries, lens

    def past(self, request):
        return len(self.requests[request][1][0]) if request in self.requests else 0

    def take_pages(self, step):
        for (r, _), n in zip(step, self.lengths(step)[1]):
            if r not in self.requests:
                empty = torch.empty(0, KV_HEADS, DIM, device=DEVICE, dtype=DTYPE)
                self.requests[r] = [[], []], [empty] * len(self.layers), [empty] * len(self.layers)
            for pages, free in zip(self.requests[r][0], self.free):
                while len(pages) * PAGE < n:
                    pages.append(free.pop())

    def inputs(self, step, seqs=None, tokens=None):
        """The persistent tensors of a step, padded to so many sequences and tokens."""
        queries, lens = self.lengths(step)
        self.take_pages(step)
        more = (seqs or len(step)) - len(step)
        starts = torch.tensor([0] + queries + [0] * more).cumsum(0).int()
        table = torch.zeros(2, len(step) + more, MOST // PAGE, dtype=torch.int32)
        slots = torch.full((2, tokens or sum(queries)), -1)
        for group in (0, 1):
            at = 0
            for i, (r, n) in enumerate(step):
                pages = torch.tensor(self.requests[r][0][group])
                table[group, i, : len(pages)] = pages
                place = torch.arange(lens[i] - n, lens[i])
                slots[group, at : at + n] = pages[place // PAGE] * PAGE + place % PAGE
                at += n
        return SimpleNamespace(
            starts=starts.to(DEVICE),
            starts_cpu=starts,
            lens=torch.tensor(lens + [0] * more).int().to(DEVICE),
            table=table.to(DEVICE),
            slots=slots.to(DEVICE),
            queries=queries,
        )

    def metadata(self, x, bounds, for_capture=False):
        return build_attn_metadata(
            attn_groups=self.groups,
            num_reqs=len(x.lens),
            num_tokens=x.slots.shape[1],
            query_start_loc_gpu=x.starts,
            query_start_loc_cpu=x.starts_cpu,
            max_query_len=max(x.queries),
            seq_lens=x.lens,
            max_seq_len=MOST if for_capture or bounds is None else int(bounds.max()),
            block_tables=list(x.table),
            slot_mappings=x.slots,
            kv_cache_config=self.kv_config,
            seq_lens_cpu_upper_bound=bounds,
            for_cudagraph_capture=for_capture,
        )

    def forward(self, metadata, x, tokens):
        """Runs all layers on random q, k, v; returns these with the outputs."""
        slots = {
            layer.layer_name: x.slots[0 if window else 1]
            for layer, window in zip(self.layers, self.window)
        }
        done = []
        with set_forward_context(metadata, self.config, slot_mapping=slots), torch.inference_mode():
            for layer in self.layers:
                q, k, v = (
                    torch.randn(tokens, n * DIM, device=DEVICE, dtype=DTYPE)
                    for n in (HEADS, KV_HEADS, KV_HEADS)
                )
                done.append((q, k, v, layer(q, k, v)))
        return done

    def check(self, step, done):
        """Appends K and V to the requests; the largest error over the tolerance."""
        worst, at = 0.0, 0
        for r, n in step:
            _, keys, values = self.requests[r]
            for i, (q, k, v, out) in enumerate(done):
                rows = slice(at, at + n)
                keys[i] = torch.cat([keys[i], self.cached(k[rows])])
                values[i] = torch.cat([values[i], self.cached(v[rows])])
                want, _ = attend(
                    q[rows].view(n, HEADS, DIM),
                    keys[i],
                    values[i],
                    left=(self.window[i] or 0) - 1,
                    softcap=self.extra.get("logits_soft_cap") or 0.0,
                    slopes=as_tensor(self.extra.get("alibi_slopes")),
                    sinks=self.extra.get("sinks"),
                )
                error = (out[rows].view(n, HEADS, DIM).float() - want).abs().max()
                worst = max(worst, float(error) / TOLERANCE[DTYPE])
            at += n
        return worst

    def cached(self, new):
        """What the cache keeps of new rows."""
        if self.cache == "fp8":
            new = new.to(torch.float8_e4m3fn).to(DTYPE)
        return new.view(-1, KV_HEADS, DIM)

    def step(self, step, bounds="loose"):
        """An eager step. bounds: exact host lengths, loose ones, or None."""
        x = self.inputs(step)
        host = x.lens.cpu()
        if bounds == "loose":
            host = host + torch.tensor([self.rng.randrange(4) for _ in step]).int()
        metadata = self.metadata(x, None if bounds is None else host)
        return self.check(step, self.forward(metadata, x, x.slots.shape[1]))


def as_tensor(slopes):
    return None if slopes is None else torch.tensor(slopes, device=DEVICE)


def captured_forward(runner, metadata, x, tokens):
    """What runs all layers again, on a GPU as a CUDA graph."""
    if DEVICE == "cpu":
        return lambda: runner.forward(metadata, x, tokens)
    runner.forward(metadata, x, tokens)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        done = runner.forward(metadata, x, tokens)

    def replay():
        graph.replay()
        torch.cuda.synchronize()
        return done

    return replay


# A chunked prompt beside others, decodes, drafts, a prompt that ends in the middle of a page.
STEPS = [
    [("a", 33)],
    [("a", 1), ("b", 70)],
    [("c", 16), ("a", 1), ("b", 40), ("d", 3)],
    [("a", 1), ("b", 1), ("c", 1), ("d", 1)],
    [("a", 4), ("b", 1), ("c", 4), ("d", 2)],
]


class Attending(unittest.TestCase):
    def run_steps(self, runner, bounds="loose"):
        for i, step in enumerate(STEPS):
            self.assertLess(runner.step(step, bounds), 1, f"step {i}")

    def test_layouts(self):
        for layout in KVCacheLayout:
            with self.subTest(layout=layout.name):
                self.run_steps(Runner(layout))

    def test_host_lengths(self):
        for bounds in "exact", None:
            with self.subTest(bounds=bounds):
                self.run_steps(Runner(), bounds)

    def test_kinds_of_layers(self):
        sinks = torch.randn(HEADS, device=DEVICE)
        for extra in (
            dict(logits_soft_cap=5.0),
            dict(sinks=sinks),
            dict(sinks=sinks.bfloat16()),
            dict(alibi_slopes=[2.0 ** -(i + 1) for i in range(HEADS)]),
        ):
            with self.subTest(extra=list(extra)):
                self.run_steps(Runner(**extra))

    @unittest.skipIf(DEVICE == "cpu", "caches of 8 bits are GPUs'")
    def test_fp8(self):
        self.run_steps(Runner(cache="fp8"))

    def test_a_step_is_planned_once_for_each_shape(self):
        runner = Runner(layers=6)
        x = runner.inputs([("a", 5)])
        metadata = runner.metadata(x, x.lens.cpu())
        plans = {id(m): m.plans for m in metadata.values()}
        self.assertEqual([len(p) for p in plans.values()], [1, 1])

    def test_captured_steps(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "steps.jsonl")
            with libattune.capture(path):
                self.run_steps(Runner(), "exact")
            with open(path) as f:
                text = f.read()
        self.assertIn('"batch": "q16s16_q1s35_q40s110_q3s3"', text)
        self.assertEqual(text.count("batch"), 2 * len(STEPS))

    def test_uniform_batches_by_a_plan_of_maxima(self):
        """A graph of 8 decodes, the last rows padding: what it captured serves all lengths."""
        for per in 1, 3:
            runner = Runner()
            self.assertEqual(runner.graphs.min_cg_support, AttentionCGSupport.UNIFORM_BATCH)
            runner.step([(r, 5 + 30 * i) for i, r in enumerate("abcde")], "exact")
            dummy = SimpleNamespace(
                starts=(torch.arange(9) * per).int().to(DEVICE),
                starts_cpu=(torch.arange(9) * per).int(),
                lens=torch.full((8,), per).int().to(DEVICE),
                table=torch.zeros(2, 8, MOST // PAGE, dtype=torch.int32, device=DEVICE),
                slots=torch.full((2, 8 * per), -1, device=DEVICE),
                queries=[per],
            )
            plan = libattune.Layer.plan_bounds
            with mock.patch.object(
                libattune.Layer, "plan_bounds", autospec=True, side_effect=plan
            ) as made:
                captured = runner.metadata(dummy, dummy.lens.cpu(), for_capture=True)
            self.assertEqual([x.args[1:] for x in made.mock_calls], [(8, 8 * per, per, MOST)] * 2)
            replay = captured_forward(runner, captured, dummy, 8 * per)
            for rows in "ab", "abcde", "edc":
                step = [(r, per) for r in rows]
                x = runner.inputs(step, seqs=8, tokens=8 * per)
                for name in "starts", "lens", "table", "slots":
                    getattr(dummy, name).copy_(getattr(x, name))
                self.assertLess(runner.check(step, replay()), 1)

    def test_a_memory_profile(self):
        runner = Runner()
        with set_forward_context(None, runner.config, slot_mapping={}), torch.inference_mode():
            new = dict(device=DEVICE, dtype=DTYPE)
            out = runner.layers[0](
                torch.randn(3, HEADS * DIM, **new),
                torch.randn(3, KV_HEADS * DIM, **new),
                torch.randn(3, KV_HEADS * DIM, **new),
            )
        self.assertEqual(float(out.abs().max()), 0)


def reference_backend():
    """A backend of the test's own, which attends in torch and notes what it ran."""
    from libattune import vllm_backend as ours

    class ReferenceImpl(ours.AttuneImpl):
        ran = []

        def forward(self, layer, query, key, value, kv_cache, metadata, output, *unused):
            self.ran.append(metadata.num_actual_tokens)
            k_cache, v_cache = self.views(kv_cache)
            for i, n in enumerate(metadata.seq_lens.tolist()):
                rows = slice(*metadata.query_start_loc[i : i + 2].tolist())
                at = torch.arange(n, device=DEVICE)
                pages = metadata.block_table[i].long()[at // PAGE]
                output[rows] = attend(
                    query[rows],
                    k_cache[pages, at % PAGE],
                    v_cache[pages, at % PAGE],
                    left=self.window - 1,
                )[0]
            return output

    class ReferenceBackend(ours.AttuneBackend):
        @staticmethod
        def get_name():
            return "REFERENCE"

        @staticmethod
        def get_impl_cls():
            return ReferenceImpl

    return ReferenceBackend


ReferenceBackend = reference_backend()
register_backend("REFERENCE", f"{__name__}.ReferenceBackend")


class Routing(unittest.TestCase):
    def test_decodes_alone(self):
        """Of a composite, batches with a prefill go to the other backend."""
        other = ReferenceBackend.get_impl_cls()
        runner = Runner(backend="ATTUNE_DECODE", layers=2)
        for step, to_other in zip(STEPS, (True, True, True, False, True)):
            other.ran.clear()
            self.assertLess(runner.step(step), 1)
            self.assertEqual(bool(other.ran), to_other, step)


class Choosing(unittest.TestCase):
    def test_names(self):
        libattune.vllm.register()
        for name in libattune.vllm.BACKENDS:
            chosen = AttentionBackendEnum[name].get_class()
            self.assertEqual(chosen.get_name(), name)
            self.assertFalse(chosen.forward_includes_kv_cache_update)

    def reasons(self, name="ATTUNE", major=9, **changed):
        asked = dict(
            head_size=128,
            dtype=torch.bfloat16,
            kv_cache_dtype="auto",
            block_size=16,
            use_mla=False,
            has_sink=True,
            use_sparse=False,
            use_mm_prefix=False,
            use_per_head_quant_scales=False,
            device_capability=DeviceCapability(major, 0),
            attn_type="decoder",
            has_sliding_window=True,
        )
        return AttentionBackendEnum[name].get_class().validate_configuration(**asked | changed)

    def test_what_goes(self):
        for changed in (
            {},
            dict(kv_cache_dtype="fp8"),
            dict(block_size=None, kv_cache_dtype="bfloat16"),
            dict(head_size=80, dtype=torch.float16),
            dict(major=8),
            dict(name="ATTUNE_DECODE"),
        ):
            self.assertEqual(self.reasons(**changed), [], changed)

    def test_what_does_not(self):
        for why, changed in {
            "head_size not supported": dict(head_size=576),
            "dtype not supported": dict(dtype=torch.float32),
            "kv_cache_dtype not supported": dict(kv_cache_dtype="fp8_e5m2"),
            "block_size not supported": dict(block_size=24),
            "compute capability not supported": dict(major=7),
            "MLA not supported": dict(use_mla=True),
            "attention type encoder not supported": dict(attn_type="encoder"),
            "a 16-bit cache must have the type of the queries": dict(kv_cache_dtype="float16"),
            "non-causal attention not supported": dict(use_non_causal=True),
        }.items():
            self.assertEqual(self.reasons(**changed), [why])
        for changed in dict(major=10), dict(head_size=80):
            self.assertRegex(
                self.reasons(kv_cache_dtype="fp8", **changed)[0], "^prefills with an fp8 cache need"
            )


if __name__ == "__main__":
    unittest.main()
