# SPDX-License-Identifier: Apache-2.0
"""test_sglang_engine.py - SGLang's engine, its scheduler and processes, on a CPU: a Llama of random
weights generates the same tokens by attune as by torch_native. Requests share prefixes, come in chunks
and run beside others. The processes find attune by the package's entry point."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

from rows import DEVICE

TREE = Path(__file__).parents[2]
SHAPE = dict(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    vocab_size=1024,
    max_position_embeddings=2048,
)


def save_model(folder):
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE))
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    model.save_pretrained(folder)


def generate(folder, backend):
    """Prints the tokens of all requests; runs as a program."""
    import sglang

    engine = sglang.Engine(
        model_path=folder,
        skip_tokenizer_init=True,
        device="cpu",
        dtype="float32",
        attention_backend=backend,
        page_size=16,
        max_total_tokens=8192,
        chunked_prefill_size=64,
        mem_fraction_static=0.3,
        log_level="error",
    )
    draw = random.Random(1)
    prompts = [[draw.randrange(3, 1000) for _ in range(draw.randrange(3, 200))] for _ in range(8)]
    how = dict(temperature=0, max_new_tokens=16, ignore_eos=True)
    outs = []
    for asked in prompts, prompts[:2] + [p + [9] for p in prompts[:3]]:
        outs += engine.generate(input_ids=asked, sampling_params=how)
    print(json.dumps([o["output_ids"] for o in outs]))
    engine.shutdown()


@unittest.skipIf(DEVICE != "cpu", "benchmarks/sglang_model.py compares tokens on GPUs")
@unittest.skipUnless(find_spec("sgl_kernel"), "needs the package sgl_kernel")
class Engine(unittest.TestCase):
    def test_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            info = Path(folder, "libattune-0.dist-info")
            info.mkdir()
            info.joinpath("METADATA").write_text("Name: libattune\nVersion: 0\n")
            words = TREE.joinpath("kernels/python/entry_points.txt").read_text()
            info.joinpath("entry_points.txt").write_text(words)
            save_model(folder)
            more = dict(
                SGLANG_USE_CPU_ENGINE="1", PYTHONPATH=f"{os.environ['PYTHONPATH']}:{folder}"
            )
            tokens = []
            for backend in "torch_native", "attune":
                run = subprocess.run(
                    [sys.executable, __file__, folder, backend],
                    env={**os.environ, **more},
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                self.assertEqual(run.returncode, 0, run.stderr[-4000:])
                tokens.append(json.loads(run.stdout.splitlines()[-1]))
        self.assertEqual([len(t) for t in tokens[0]], [16] * 13)
        self.assertEqual(tokens[1], tokens[0])


if __name__ == "__main__":
    generate(*sys.argv[1:])
