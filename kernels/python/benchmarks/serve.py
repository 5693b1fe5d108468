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
import random
import sys
import time

from common import (
    MODELS,
    SERVED,
    add_request_options,
    head,
    line,
    names_of,
    repeated,
    request_lengths,
    run,
    save,
    served,
    title,
)

try:
    import torch
    import transformers
    from transformers import AttentionInterface, GenerationConfig
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    import libattune
    import libattune.transformers
except ImportError as e:
    sys.exit(f"serve.py: {e}; it needs transformers 5.17 and libattune")

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
GENERATED = ["tokens_per_s", "seconds"]


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
        return served(began, time.perf_counter(), [o.timestamps for o in outputs])


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
            return repeated(args, lambda seed: one_batch(model, lengths, seed, config))
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    on_gpu = torch.cuda.is_available()
    add = parser.add_argument
    add("--model", choices=MODELS, default="llama3.1-8b" if on_gpu else "tiny")
    add("--layers", type=int, help="fewer layers than the model has")
    add("--dtype", default="bfloat16" if on_gpu else "float32")
    usual = "none,none_eager,attune,attune_eager,sdpa,eager"
    add("--paths", type=names_of(PATHS), default=usual)
    add("--generate", action="store_true", help="also plain generate")
    add("--generate-paths", type=names_of(GENERATE), default="attune,sdpa,flex,eager")
    add("--generate-batch", type=int, default=16)
    add("--generate-prompt", type=int, default=2048)
    add("--generate-new", type=int, default=64)
    add("--tokens-a-step", type=int, default=2048)
    add("--page", type=int, default=256, help="tokens of a block")
    add_request_options(parser)
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
    paths = sorted(args.paths, key=lambda p: not p.startswith("none"))
    if paths:
        head(title("generate_batch", lengths), SERVED)
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
        for path in args.generate_paths:
            about["generate"][path] = run(f"generate {path}", lambda: generate(model, path, args))
            line(path, about["generate"][path], GENERATED)
            save(about, args.json)


if __name__ == "__main__":
    with torch.no_grad():
        main()
