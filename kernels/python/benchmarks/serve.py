# SPDX-License-Identifier: Apache-2.0
"""serve.py - what a model of Transformers 5.17 gains end to end by libattune's attention.

    python kernels/python/benchmarks/serve.py                            a table; GPU, else CPU
    python kernels/python/benchmarks/serve.py --model qwen3-0.6b --json out.json
    python kernels/python/benchmarks/serve.py --trace lengths.csv        prompt_tokens,output_tokens

The model has random weights and the shape of a published one. The requests arrive at once and are
served by generate_batch; each repeat has new prompts of the same lengths, the same for all paths. A
path is one value of attn_implementation:

    attune         flash_attune_3: block tables and CUDA graphs for decodes
    attune_eager   attune: no CUDA graphs, as sdpa and eager run
    sdpa, eager    Transformers' own. They leave a softcap out (gemma2-2b)
    fa2, fa3       flash_attention_2 and _3, where installed
    none, none_eager   no attention at all, run as attune and as attune_eager: what is not attention

With --generate also the plain generate of one batch of equal prompts: attune, sdpa, flex, eager.

Columns: new tokens per second, time to the first token and between tokens, and attention's share, by
which the time is above that of the same run without attention. +- is the half of a 95 % interval
over repeats.
"""

import argparse
import contextlib
import csv
import json
import random
import statistics
import sys
import time

import torch
import transformers
from transformers import AttentionInterface, GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

import libattune
import libattune.transformers

LLAMA = dict(
    vocab_size=128256,
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=131072,
    rope_theta=500000.0,
)
QWEN = dict(
    vocab_size=151936,
    hidden_size=1024,
    intermediate_size=3072,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40960,
    tie_word_embeddings=True,
)
GEMMA = dict(
    vocab_size=256000,
    hidden_size=2304,
    intermediate_size=9216,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=256,
    max_position_embeddings=8192,
    sliding_window=4096,
)
TINY = dict(
    vocab_size=512,
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=8192,
)
# name: classes, shape, layers
MODELS = {
    "llama3.1-8b": ("Llama", LLAMA, 32),
    "qwen3-0.6b": ("Qwen3", QWEN, 28),
    "gemma2-2b": ("Gemma2", GEMMA, 26),
    "tiny": ("Llama", TINY, 2),
}
# name: attention, whether it runs as attune_eager does
PATHS = {
    "attune": ("flash_attune_3", False),
    "attune_eager": ("attune", True),
    "sdpa": ("paged|sdpa", True),
    "eager": ("paged|eager", True),
    "fa2": ("paged|flash_attention_2", False),
    "fa3": ("paged|flash_attention_3", False),
    "none": ("flash_attune_3", False),
    "none_eager": ("attune", True),
}
GENERATE = {"attune": "flash_attune_3", "sdpa": "sdpa", "flex": "flex_attention", "eager": "eager"}
SERVED = [
    "tokens_per_s",
    "first_mean",
    "first_p50",
    "first_p99",
    "between_mean",
    "between_p50",
    "between_p99",
    "share",
]
GENERATED = ["tokens_per_s", "seconds"]
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def build(name, layers, dtype, device):
    kind, shape, whole = MODELS[name]
    config = getattr(transformers, kind + "Config")(**shape, num_hidden_layers=layers or whole)
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return getattr(transformers, kind + "ForCausalLM")(config).eval()
    finally:
        torch.set_default_dtype(usual)


def request_lengths(args):
    """[(prompt, new tokens)]"""
    if args.trace:
        with open(args.trace, newline="") as f:
            rows = [(int(r["prompt_tokens"]), int(r["output_tokens"])) for r in csv.DictReader(f)]
        rows = [(p, n) for p, n in rows if args.least <= p <= args.most]
        if len(rows) < args.requests:
            sys.exit(
                f"{args.trace}: {len(rows)} requests of {args.least} to {args.most} tokens, "
                f"--requests asks for {args.requests}"
            )
        rows = rows[: args.requests]
    else:
        draw = random.Random(1)
        rows = [
            (round(args.least * (args.most / args.least) ** draw.random()), 0)
            for _ in range(args.requests)
        ]
    return [(p, args.new or n or 128) for p, n in rows]


@contextlib.contextmanager
def without_attention(off):
    """The names of libattune stand for no attention: q comes out."""
    own = AttentionInterface._global_mapping
    names = [f"paged|{n}" for n in ("attune", "flash_attune_3")]
    kept = {n: own[n] for n in names}
    if off:
        for n in names:
            AttentionInterface.register(
                n, lambda module, query, *a, **k: (query.transpose(1, 2), None)
            )
    try:
        yield
    finally:
        for n in names:
            AttentionInterface.register(n, kept[n])


def mean_and_half(values):
    if len(values) < 2:
        return statistics.fmean(values), float("nan")
    half = T95.get(len(values) - 1, 2.2) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.fmean(values), half


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p / 100 * len(values)))]


def summary(repeats):
    """{statistic: (mean over repeats, half of its interval)} of [{statistic: value}]"""
    return {k: mean_and_half([r[k] for r in repeats]) for k in repeats[0]}


def one_batch(model, lengths, seed, config):
    """One repeat: {statistic: value}, times in ms."""
    draw = random.Random(seed)
    prompts = [[draw.randrange(3, model.config.vocab_size) for _ in range(p)] for p, _ in lengths]
    with model.continuous_batching_context_manager(
        generation_config=GenerationConfig(do_sample=False, eos_token_id=-1),
        continuous_batching_config=config,
        persistent_manager=True,
        workload_hints=None,
    ) as manager:
        began, outputs = time.perf_counter(), []
        for prompt, (_, new) in zip(prompts, lengths):
            manager.add_request(prompt, max_new_tokens=new, record_timestamps=True)
        while len(outputs) < len(prompts):
            output = manager.get_result(timeout=1)
            if output is None and not manager.is_running():
                raise RuntimeError("the generation thread ended")
            if output is not None and output.is_finished():
                if output.error:
                    raise RuntimeError(output.error)
                outputs.append(output)
        took = time.perf_counter() - began
    first = [1e3 * (o.timestamps[0] - began) for o in outputs]
    between = [1e3 * (b - a) for o in outputs for a, b in zip(o.timestamps, o.timestamps[1:])]
    between = between or [0.0]
    tokens = sum(len(o.generated_tokens) for o in outputs)
    result = {"seconds": took, "tokens_per_s": tokens / took}
    for name, values in (("first", first), ("between", between)):
        result |= {
            f"{name}_mean": statistics.fmean(values),
            f"{name}_p50": percentile(values, 50),
            f"{name}_p99": percentile(values, 99),
        }
    return result


def serve(model, path, lengths, args):
    """Repeats of a path: [{statistic: value}]"""
    attention, _ = PATHS[path]
    model.set_attn_implementation(attention)
    longest = max(p + n for p, n in lengths)
    blocks = -(-longest // args.page)
    config = ContinuousBatchingConfig(
        block_size=args.page,
        num_blocks=sum(-(-(p + n) // args.page) + 1 for p, n in lengths),
        max_batch_tokens=args.tokens_a_step,
        max_requests_per_batch=len(lengths),
        allow_block_sharing=False,
    )
    if "flash" in attention and torch.cuda.is_available():
        # Chunks differ from step to step, so a graph of one would be captured and never replayed.
        config.use_cuda_graph, config.max_blocks_per_request = (False, True), blocks + blocks % 2
    try:
        with without_attention(path.startswith("none")):
            one_batch(model, [(p, min(n, 8)) for p, n in lengths], 0, config)  # warm-up
            repeats, began = [], time.perf_counter()
            while len(repeats) < args.repeats and (
                len(repeats) < 2 or time.perf_counter() - began < args.seconds
            ):
                repeats.append(one_batch(model, lengths, 1 + len(repeats), config))
            return repeats
    finally:
        model.destroy_cached_continuous_batching_manager()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def generate(model, path, args):
    """Repeats of plain generate: [{statistic: value}]"""
    model.set_attn_implementation(GENERATE[path])
    results = []
    for repeat in range(args.repeats + 1):
        torch.manual_seed(repeat)
        ids = torch.randint(
            3,
            model.config.vocab_size,
            (args.generate_batch, args.generate_prompt),
            device=model.device,
        )
        sync = torch.cuda.synchronize if ids.is_cuda else lambda: None
        sync()
        began = time.perf_counter()
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=GenerationConfig(
                max_new_tokens=args.generate_new, do_sample=False, pad_token_id=0, eos_token_id=None
            ),
        )
        sync()
        took = time.perf_counter() - began
        results.append({"seconds": took, "tokens_per_s": (out.numel() - ids.numel()) / took})
    return results[1:]


def add_shares(path, results):
    """Attention's share of a repeat's time: by how much it is above the same repeat's without."""
    base = results.get("none_eager" if PATHS[path][1] else "none", {})
    for mine, other in zip(results[path].get("repeats", ()), base.get("repeats", ())):
        mine["share"] = 100 * (1 - other["seconds"] / mine["seconds"])


def head(title, columns):
    print(f"\n{title}")
    print("path".ljust(13) + "".join(c.replace("_", " ").rjust(19) for c in columns), flush=True)


def line(path, result, columns):
    if "refused" in result:
        print(path.ljust(13) + "   " + result["refused"], flush=True)
        return
    stats = result["summary"] = summary(result["repeats"])
    print(
        path.ljust(13)
        + "".join(
            ("-" if c not in stats else f"{stats[c][0]:.2f} +- {stats[c][1]:.2f}").rjust(19)
            for c in columns
        ),
        flush=True,
    )


def run(name, work):
    """{'repeats': ...} or {'refused': why}: a path that is not installed is a line of the table."""
    began = time.perf_counter()
    try:
        return {"repeats": work()}
    except Exception as e:  # whatever the other paths raise
        return {"refused": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:160]}
    finally:
        print(f"# {name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    on_gpu = torch.cuda.is_available()
    add = parser.add_argument
    add("--model", choices=MODELS, default="llama3.1-8b" if on_gpu else "tiny")
    add("--layers", type=int, help="fewer layers than the model has")
    add("--dtype", default="bfloat16" if on_gpu else "float32")
    add("--paths", default="none,none_eager,attune,attune_eager,sdpa,eager")
    add("--generate", action="store_true", help="also plain generate")
    add("--generate-paths", default="attune,sdpa,flex,eager")
    add("--generate-batch", type=int, default=16)
    add("--generate-prompt", type=int, default=2048)
    add("--generate-new", type=int, default=64)
    add("--requests", type=int, default=64)
    add("--least", type=int, default=100, help="tokens of the shortest prompt")
    add("--most", type=int, default=4000)
    add("--new", type=int, default=0, help="new tokens of a request; 0: the trace's, else 128")
    add("--trace", help="CSV of request lengths")
    add("--tokens-a-step", type=int, default=2048)
    add("--page", type=int, default=256, help="tokens of a block")
    add("--repeats", type=int, default=5)
    add("--seconds", type=float, default=60, help="a path stops then, after two repeats at least")
    add("--json", help="writes all repeats there")
    args = parser.parse_args()
    libattune.transformers.register()
    transformers.utils.logging.set_verbosity_error()
    device = "cuda" if on_gpu else "cpu"
    dtype, lengths = getattr(torch, args.dtype), request_lengths(args)
    model = build(args.model, args.layers, dtype, device)
    context = libattune.Context(device)
    about = {
        "device": context.name,
        "rules": context.heuristic,
        "libattune": libattune.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "model": args.model,
        "layers": model.config.num_hidden_layers,
        "dtype": args.dtype,
        "arguments": vars(args),
        "lengths": lengths,
    }
    print(", ".join(f"{k} {v}" for k, v in about.items() if k not in ("arguments", "lengths")))
    prompts = [p for p, _ in lengths]
    paths = sorted(filter(None, args.paths.split(",")), key=lambda p: not p.startswith("none"))
    if paths:
        head(
            f"generate_batch: {len(lengths)} requests, prompts of {min(prompts)} to "
            f"{max(prompts)} tokens, {sum(prompts)} in all, {sum(n for _, n in lengths)} new "
            "tokens; times in ms, share in %",
            SERVED,
        )
    about["generate_batch"], about["generate"] = {}, {}
    for path in paths:
        results = about["generate_batch"]
        results[path] = run(path, lambda: serve(model, path, lengths, args))
        add_shares(path, results)
        line(path, results[path], SERVED)
        save(about, args.json)
    if args.generate:
        head(
            f"generate: {args.generate_batch} prompts of {args.generate_prompt} tokens, "
            f"{args.generate_new} new tokens each",
            GENERATED,
        )
        for path in args.generate_paths.split(","):
            about["generate"][path] = run(f"generate {path}", lambda: generate(model, path, args))
            line(path, about["generate"][path], GENERATED)
            save(about, args.json)


def save(about, path):
    if path:
        with open(path, "w") as f:
            json.dump(about, f, indent=1)


if __name__ == "__main__":
    with torch.no_grad():
        main()
