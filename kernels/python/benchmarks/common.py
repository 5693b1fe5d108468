# SPDX-License-Identifier: Apache-2.0
"""common.py - models, requests and tables of serve.py, vllm_engine.py and sglang_model.py."""

import argparse
import csv
import json
import random
import statistics
import sys
import time

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
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def names_of(known):
    """A type of argparse: names, separated by commas."""

    def parse(text):
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r}: it is one of {', '.join(known)}")
        return names

    return parse


def add_request_options(parser):
    add = parser.add_argument
    add("--requests", type=int, default=64)
    add("--least", type=int, default=100, help="tokens of the shortest prompt")
    add("--most", type=int, default=4000)
    add("--new", type=int, default=0, help="new tokens of a request; 0: the trace's, else 128")
    add("--trace", help="CSV of request lengths")
    add("--repeats", type=int, default=5)
    add("--seconds", type=float, default=60, help="a path stops then, after two repeats at least")
    add("--json", help="writes all repeats there")


def request_lengths(args):
    """[(prompt, new tokens)]"""
    if args.trace:
        try:
            with open(args.trace, newline="") as f:
                lines = list(csv.DictReader(f))
            rows = [(int(r["prompt_tokens"]), int(r["output_tokens"])) for r in lines]
        except OSError as e:
            sys.exit(f"{args.trace}: {e.strerror}")
        except (KeyError, TypeError, ValueError):
            sys.exit(f"{args.trace}: it must have columns of integers prompt_tokens, output_tokens")
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


def title(what, lengths):
    prompts = [p for p, _ in lengths]
    return (
        f"{what}: {len(lengths)} requests, prompts of {min(prompts)} to {max(prompts)} tokens, "
        f"{sum(prompts)} in all, {sum(n for _, n in lengths)} new tokens; times in ms, share in %"
    )


def served(began, ended, stamps):
    """{statistic: value} of a repeat, times in ms. stamps: when each request's tokens came."""
    first = [1e3 * (times[0] - began) for times in stamps]
    between = [1e3 * (b - a) for times in stamps for a, b in zip(times, times[1:])]
    took, tokens = ended - began, sum(len(times) for times in stamps)
    result = {"seconds": took, "tokens_per_s": tokens / took}
    for name, values in (("first", first), ("between", between or [0.0])):
        result |= {
            f"{name}_mean": statistics.fmean(values),
            f"{name}_p50": percentile(values, 50),
            f"{name}_p99": percentile(values, 99),
        }
    return result


def repeated(args, one_repeat):
    """[one_repeat(seed), ...], args.repeats of them or as many as args.seconds has, at least two"""
    repeats, began = [], time.perf_counter()
    while len(repeats) < args.repeats and (
        len(repeats) < 2 or time.perf_counter() - began < args.seconds
    ):
        repeats.append(one_repeat(1 + len(repeats)))
    return repeats


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


def save(about, path):
    if path:
        with open(path, "w") as f:
            json.dump(about, f, indent=1)
