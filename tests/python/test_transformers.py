# SPDX-License-Identifier: Apache-2.0
"""test_transformers.py - models of Transformers generate the same tokens by libattune as by
Transformers' own attention: greedy, in continuous batching with chunks, decodes and a shared prefix,
and one prompt at a time.

ATTUNE_TEST_DEVICE=cuda runs them on the GPU in bf16 and f16, where two tokens may be as likely: a
difference then passes if the logits of the two are close, and is printed. attune as a name runs
without CUDA graphs there, flash_attune_3 with them."""

import contextlib
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import torch
import transformers
from transformers.generation.continuous_batching import initialization, input_outputs, model_runner

import libattune
import libattune.transformers as attention
import transformers_models as models

DEVICE = os.environ.get("ATTUNE_TEST_DEVICE", "cpu")
DTYPES = [torch.float32] if DEVICE == "cpu" else [torch.bfloat16, torch.float16]
# Transformers 5.17 has names "paged|..." for continuous batching, newer ones do without.
OLDER = "paged|sdpa" in transformers.AttentionInterface._global_mapping
OURS, SDPA = (
    (("attune", "flash_attune_3"), "paged|sdpa") if OLDER else (("flash_attune_3",), "sdpa")
)
# How far two logits may be apart that rounding swaps, in standard deviations of a step's logits.
CLOSE = {torch.float32: 0, torch.bfloat16: 0.1, torch.float16: 0.04}


class Seen(attention._Attention):
    """Keeps which lengths were planned."""

    steps_seen = []

    def plan_lengths(self, *args):
        Seen.steps_seen.append(self.lengths)
        return super().plan_lengths(*args)


def setUpModule():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    attention.register()
    attention._Attention = Seen


class AsOnGpu:
    """Decodes by block tables, steps padded and planned from bounds: what CUDA graphs get."""

    def __enter__(self):
        self.kept = (
            initialization.ensure_decode_fast_path_is_available,
            model_runner.ModelRunner.__init__,
        )
        attention._capturing = lambda: True
        initialization.ensure_decode_fast_path_is_available = lambda *args: None

        def padding(runner, *args, **kwargs):
            self.kept[1](runner, *args, **kwargs)
            runner.pad_inputs = True

        model_runner.ModelRunner.__init__ = padding

    def __exit__(self, *args):
        initialization.ensure_decode_fast_path_is_available, model_runner.ModelRunner.__init__ = (
            self.kept
        )
        attention._capturing = lambda: False


class Same(unittest.TestCase):
    def tokens(self, what, model, got, wanted, close=1):
        self.assertGreater(len(set(sum(wanted, []))), 30, "it says the same whatever it attends")
        for i, (mine, other) in enumerate(zip(got, wanted, strict=True)):
            at = next((j for j, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b), None)
            if at is None:
                continue
            gap = models.gap(model, i, other[:at], mine[at], other[at])
            line = (
                f"{what}: prompt {i} differs from token {at} on, logits {gap:.4f} deviations apart"
            )
            print(f"# {line}", file=sys.stderr)
            self.assertLess(gap, close * CLOSE[model.dtype], line)

    def check(self, name, sdpa=True, softcap=False):
        # Transformers' own paged attention leaves a softcap out.
        theirs = () if softcap else ("paged|eager", SDPA) if sdpa or OLDER else ("paged|eager",)
        for dtype in DTYPES:
            model = models.make(name, dtype, DEVICE)
            wanted = models.alone(model)
            ways = {way: lambda way=way: models.batched(model, way) for way in theirs}
            ways |= {way: lambda way=way: models.batched(model, way) for way in OURS}
            ways["generate"] = lambda: models.alone(model, "flash_attune_3")
            ways["generate, padded"] = lambda: models.padded(model, "flash_attune_3")
            if DEVICE == "cpu":
                ways["as on a GPU"] = self.as_on_gpu(model)
            if dtype == torch.float16:  # what differs is the type
                ways = {way: ways[way] for way in ("flash_attune_3", "generate, padded")}
            for way, tokens in ways.items():
                with self.subTest(way=way, dtype=dtype):
                    self.tokens(f"{name}, {dtype}, {way}", model, tokens(), wanted)

    def as_on_gpu(self, model):
        def tokens():
            with AsOnGpu():
                return models.batched(
                    model,
                    "flash_attune_3",
                    max_blocks_per_request=16,
                    q_padding_interval_size=32,
                    kv_padding_interval_size=128,
                )

        return tokens

    def test_llama(self):
        self.check("llama")

    def test_qwen3(self):
        self.check("qwen3")

    def test_gemma2(self):
        self.check("gemma2", softcap=True)

    def test_gemma2_without_softcap(self):
        self.check("gemma2 without softcap", sdpa=False)

    def test_gpt_oss(self):
        """Has sinks; allows no name with "flash" but its own. Rounding may change an expert, too."""
        for dtype in DTYPES[:1]:
            model = models.make("gpt-oss", dtype, DEVICE)
            wanted = models.alone(model)
            ways = {
                "generate": lambda: models.alone(model, "attune"),
                "generate, padded": lambda: models.padded(model, "attune"),
            }
            if OLDER:
                ways["attune"] = lambda: models.batched(model, "attune")
            for way, tokens in ways.items():
                with self.subTest(way=way, dtype=dtype):
                    self.tokens(f"gpt-oss, {dtype}, {way}", model, tokens(), wanted, close=10)

    def test_steps_were_of_all_kinds(self):
        Seen.steps_seen.clear()
        models.batched(models.make("llama", DTYPES[0], DEVICE), OURS[0])
        steps = Seen.steps_seen
        self.assertTrue(any(all(q == 1 for q, _ in s) for s in steps), "no step of decodes alone")
        self.assertTrue(
            any(q > 1 and n > q and n - q != 64 for s in steps for q, n in s), "no chunk"
        )
        self.assertTrue(any(q > 1 and n - q == 64 for s in steps for q, n in s), "no shared prefix")
        self.assertTrue(any({1} < {q for q, _ in s} for s in steps), "no mixed step")


@unittest.skipUnless(DEVICE == "cpu", "there its steps are graphs")
class Capture(unittest.TestCase):
    def test_steps_without_a_plan(self):
        """A graph that is replayed plans nothing: its steps are captured as planned ones are."""
        model = models.make("llama", DTYPES[0])
        with tempfile.TemporaryDirectory() as folder:
            steps = []
            for as_on_gpu in (contextlib.nullcontext(), AsOnGpu()):
                with as_on_gpu, libattune.capture(os.path.join(folder, "steps.jsonl")) as captured:
                    models.batched(model, "flash_attune_3", max_blocks_per_request=16)
                with open(captured.path) as f:
                    steps.append([line for line in f if '"batch"' in line])
        self.assertGreater(len(steps[0]), 10)
        self.assertEqual(steps[1], steps[0])


class Order(unittest.TestCase):
    """On a GPU a step whose lengths change while it runs may never end."""

    def setUp(self):
        self.happened = []

        class Stream:
            def __init__(self, name):
                self.name = name

            def synchronize(stream):
                self.happened.append(f"{stream.name} ended")

            def wait_stream(stream, other):
                self.happened.append(f"{stream.name} waits for {other.name}")

        def does(what, result=None):
            return lambda made, *args: self.happened.append(what) or result

        self.ios = type("Ios", (), dict(prepare_batch_tensors=does("prepared")))
        self.ios.compute_stream, self.ios.device = Stream("compute"), None
        self.both = type("Both", (), dict(__init__=does("made"), reset=does("reset")))
        self.runner = type("Runner", (), dict(run_one_warmup=does("warmed up", 1.5)))
        self.runner.inputs_and_outputs = self.ios
        self.on_gpu = unittest.mock.patch.multiple(
            torch.cuda, is_available=lambda: True, current_stream=lambda *_: Stream("current")
        )
        attention._order_inputs(self.ios, self.both, self.runner)

    def test_a_warm_up_ends_before_the_next_is_prepared(self):
        self.assertEqual([self.runner().run_one_warmup(n) for n in (2, 3)], [1.5, 1.5])
        self.assertEqual(self.happened, ["warmed up", "compute ended"] * 2)

    def test_inputs_are_cleared_before_the_first_are_copied(self):
        with self.on_gpu:
            self.both().reset()
        self.assertEqual(self.happened, ["made", "current ended", "reset", "current ended"])

    def test_a_step_waits_for_its_inputs(self):
        with self.on_gpu:
            self.ios().prepare_batch_tensors([])
        self.assertEqual(self.happened, ["prepared", "compute waits for current"])

    def test_transformers_own_are_ordered(self):
        for call in (
            model_runner.ModelRunner.run_one_warmup,
            input_outputs.ContinuousBatchingAsyncIOs.__init__,
            input_outputs.ContinuousBatchingAsyncIOs.reset,
            input_outputs.ContinuousBatchingIOs.prepare_batch_tensors,
        ):
            self.assertEqual(call.__code__.co_name, "ordered")


class Plain(unittest.TestCase):
    def test_other_calls_are_left_to_transformers(self):
        """It unpacks packed sequences, and undoes norms in float32 over weights of 16 bits."""
        layer = torch.nn.Module()
        layer.is_causal, layer.config = True, types.SimpleNamespace()
        layer.o_proj = torch.nn.Linear(1, 1, dtype=torch.bfloat16)

        def is_plain(batch, tokens, dtype=torch.bfloat16, **more):
            q = torch.empty(batch, 4, tokens, 64, dtype=dtype)
            return attention._is_plain(layer, q, q, **more)

        self.assertTrue(is_plain(2, 7) and is_plain(1, 1))
        self.assertFalse(is_plain(1, 7), "may be packed")
        self.assertFalse(is_plain(2, 7, torch.float32))
        layer.sinks = torch.nn.Parameter(torch.zeros(4))  # of float32 in front of the weights
        self.assertFalse(is_plain(2, 7, torch.float32))
        self.assertFalse(is_plain(2, 7, dropout=0.1))
        self.assertFalse(is_plain(2, 7, is_causal=False))
        self.assertFalse(is_plain(2, 7, cu_seq_lens_q=torch.tensor([0, 7])))


class Refusals(unittest.TestCase):
    @unittest.skipUnless(OLDER, "there is no such name")
    def test_a_cache_is_needed(self):
        model = models.make("llama", DTYPES[0], DEVICE)
        model.set_attn_implementation("paged|attune")
        with self.assertRaisesRegex(attention.Error, "generate_batch"):
            model(torch.tensor([[1, 2, 3]], device=DEVICE))


if __name__ == "__main__":
    unittest.main()
