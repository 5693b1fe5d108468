# SPDX-License-Identifier: Apache-2.0
"""sglang_model.py - SGLang's model runner in one process, by libattune and by SGLang's own.

    python kernels/python/benchmarks/sglang_model.py                     a table; GPU, else CPU
    python kernels/python/benchmarks/sglang_model.py --layers 8 --batches 1,64 --json out.json

The model has random weights and the shape of a published one. SGLang 0.5.23 schedules a batch of
equal prompts, runs it through ModelRunner and samples, as its sglang.benchmark.one_batch does: the
prompts at once, then decodes, in CUDA graphs on a GPU. The first backend comes from
--attention-backend, the others take its place in the same runner:

    attune           libattune
    triton           SGLang's own for GPUs
    torch_native     SGLang's own for CPUs
    none             attune's without the attention itself: what is not attention

All are fed the tokens that the first one chose. Columns: time of the prompts and of the median
decode step, +- is the half of a 95 % interval over repeats; against the first backend: tokens that
are the same, and the largest difference of a logit over their standard deviation. Below: what a
decode step takes more than that of `none`.
"""

import argparse
import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time

from common import MODELS, mean_and_half, save

try:
    import torch

    import libattune.sglang

    ON_GPU = torch.cuda.is_available()
    if not ON_GPU:
        os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
    libattune.sglang.register()
    from sglang.benchmark import one_batch as sg
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.runtime_context import SpawnRanks, publish, spawn_world_rank
    from sglang.srt.server_args import PortArgs, ServerArgs
except ImportError as e:
    sys.exit(f"sglang_model.py: {e}; it needs sglang 0.5.23 and libattune")


class NoAttention:
    """Stands for a Layer; gives q back."""

    def plan(self, *unused):
        return None

    plan_bounds = plan

    def run(self, plan, q, *unused, **named):
        return q


def without_attention(runner):
    backend, nothing = ATTENTION_BACKENDS["attune"](runner), NoAttention()
    backend._layer = lambda *unused: nothing
    return backend


def load(args, folder, first):
    """A ModelRunner with random weights."""
    kind, shape, whole = MODELS[args.model]
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(
            shape
            | {
                "architectures": [kind + "ForCausalLM"],
                "model_type": kind.lower(),
                "num_hidden_layers": args.layers or whole,
                "max_position_embeddings": args.context,
                "rms_norm_eps": 1e-5,
                "hidden_act": "silu",
                "torch_dtype": args.dtype,
            },
            f,
        )
    words = ["--model-path", folder, "--load-format", "dummy", "--skip-tokenizer-init"]
    words += ["--attention-backend", first, "--page-size", str(args.page), "--dtype", args.dtype]
    words += ["--device", "cuda" if ON_GPU else "cpu", "--disable-radix-cache"]
    words += ["--max-total-tokens", str(args.pool)]
    words += ["--max-running-requests", str(max(args.batches))]
    if ON_GPU:
        words += ["--mem-fraction-static", "0.5", "--cuda-graph-bs-decode", *map(str, args.batches)]
        if not args.prefill_graphs:
            words += ["--disable-prefill-cuda-graph"]
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    server = ServerArgs.from_cli_args(parser.parse_args(words))
    sg._set_envs_and_config(server)
    sg.get_tokenizer = lambda *unused, **named: None
    ranks = SpawnRanks(world_rank=spawn_world_rank(server, tp_rank=0, pp_rank=0), gpu_id=0)
    publish(server, role="scheduler", ranks=ranks)
    sg._init_process_global_configs()
    runner = sg.load_model(server, PortArgs.init_new(server), 0, 0)[0].torch_runner
    torch.manual_seed(1)
    for name, weight in runner.model.named_parameters():
        if weight.dim() > 1:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    return runner


def take(runner, name):
    """Puts a backend in the runner and captures its graphs."""
    runner.decode_cuda_graph_runner = runner.prefill_cuda_graph_runner = None
    runner.attn_backend = None
    gc.collect()
    make = without_attention if name == "none" else ATTENTION_BACKENDS[name]
    runner.attn_backend = make(runner)
    runner.kv_index_translator.bind_and_verify_backends([runner.attn_backend])
    runner.init_cuda_graphs()


def synchronize():
    if ON_GPU:
        torch.cuda.synchronize()


@torch.no_grad()
def run(runner, batch, args, seed, tokens=None):
    """One repeat of a batch; is fed `tokens`, where given, else what it chose."""
    runner.req_to_token_pool.clear()
    runner.token_to_kv_pool_allocator.clear()
    draw = random.Random(seed)
    most = runner.model_config.vocab_size
    prompts = [[draw.randrange(3, most) for _ in range(args.prompt)] for _ in range(batch)]
    reqs = sg.prepare_synthetic_inputs_for_latency_test(batch, args.prompt, prompts)
    times, chosen, logits = [], [], []
    synchronize()
    began = time.perf_counter()
    ids, scores, state = sg.extend(reqs, runner)
    for i in range(args.new):
        synchronize()
        times.append(time.perf_counter() - began)
        chosen.append(ids.clone())
        logits.append(scores.float().clone())
        feed = ids if tokens is None else tokens[i]
        synchronize()
        began = time.perf_counter()
        ids, scores = sg.decode(feed, state, runner)
    return {"first": 1e3 * times[0], "step": 1e3 * statistics.median(times[1:])}, chosen, logits


def measure(runner, name, batch, args, kept):
    """{'repeats', 'same', 'differs'}; kept: tokens and logits of the first backend, by seed."""
    repeats, same, differs = [], [], []
    for seed in range(args.repeats + 1):
        times, chosen, logits = run(runner, batch, args, seed, kept.get(seed, (None,))[0])
        if seed not in kept:
            kept[seed] = chosen, logits
        for a, b, x, y in zip(chosen, kept[seed][0], logits, kept[seed][1]):
            same.append(float((a == b).float().mean()))
            differs.append(float((x - y).abs().max() / y.std()))
        if seed:
            repeats.append(times)
    return {"repeats": repeats, "same": statistics.fmean(same), "differs": max(differs)}


def line(batch, name, result):
    for what in "first", "step":
        result[what] = mean_and_half([r[what] for r in result["repeats"]])
    (first, wide), (step, half) = result["first"], result["step"]
    like = f"{100 * result['same']:8.2f} {result['differs']:11.4f}" if name != "none" else ""
    print(
        f"{batch:5}  {name:13}{first:9.2f} +- {wide:<6.2f}{step:9.3f} +- {half:<7.3f}{like}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", choices=["llama3.1-8b", "tiny"], default="llama3.1-8b" if ON_GPU else "tiny")
    add("--layers", type=int, help="fewer layers than the model has")
    add("--dtype", default="bfloat16" if ON_GPU else "float32")
    add("--backends", default="attune,triton,none" if ON_GPU else "attune,torch_native,none")
    add("--batches", default="1,16,64" if ON_GPU else "1,4")
    add("--prompt", type=int, default=2000 if ON_GPU else 50, help="tokens")
    add("--new", type=int, default=32, help="tokens that are decoded")
    add("--context", type=int, default=8192, help="the model's longest sequence")
    add("--page", type=int, default=16)
    add("--repeats", type=int, default=3)
    add("--prefill-graphs", action="store_true", help="SGLang's graphs of prefills, too")
    add("--json", help="writes all repeats there")
    args = parser.parse_args()
    if args.backends.startswith("none"):
        parser.error("--backends: the first is one that SGLang starts with, so it cannot be none")
    if args.new < 2:
        parser.error("--new: at least 2 tokens, of which the prompt gives the first")
    args.batches = sorted(int(b) for b in args.batches.split(","))
    args.pool = max(args.batches) * (args.prompt + args.new + 2 * args.page)
    args.pool = -(-args.pool // args.page) * args.page
    names = args.backends.split(",")
    with tempfile.TemporaryDirectory() as folder:
        runner = load(args, folder, names[0])
    context = libattune.Context("cuda" if ON_GPU else "cpu")
    about = {"device": context.name, "rules": context.heuristic, "arguments": vars(args)}
    print(
        f"{context.name}, {context.heuristic}, {args.model} of "
        f"{runner.model_config.num_hidden_layers} layers, prompts of {args.prompt} tokens, "
        f"{args.new} new ones; ms\n"
        "batch  backend         prompts               decode step           same %   differs",
        flush=True,
    )
    kept = {batch: {} for batch in args.batches}
    results = about["results"] = {}
    for i, name in enumerate(names):
        began = time.perf_counter()
        if i:
            take(runner, name)
        for batch in args.batches:
            results[f"{name} {batch}"] = measure(runner, name, batch, args, kept[batch])
            line(batch, name, results[f"{name} {batch}"])
        print(f"# {name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    for batch in args.batches if "none" in names else ():
        base = results[f"none {batch}"]["step"][0]
        parts = (
            f"{n} {results[f'{n} {batch}']['step'][0] - base:.3f}" for n in names if n != "none"
        )
        print(f"attention of a decode step of {batch}: " + ", ".join(parts))
    save(about, args.json)


if __name__ == "__main__":
    main()
