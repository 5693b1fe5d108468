# SPDX-License-Identifier: Apache-2.0
"""calls.py - CPU time of a call, by ways to call: µs, medians of 15 rounds that take turns.

    python kernels/python/benchmarks/calls.py [cpu|cuda]

One decode over one key, so that on the CPU hardly anything is computed. On a GPU launches are in the
times, the device's work is not. The last column is what a way takes more than attune_run from a
filled struct. FlashAttention's functions plan from maxima here, as on a GPU; on a CPU they take a
Layer.plan more than here.
"""

import argparse
import statistics
import sys
import time

try:
    import torch

    import libattune
    from libattune import _flash_plans, flash_attn_interface
    from libattune._library import C, check, ffi
    from libattune._tensors import Tensors
    from libattune.flash_attn_interface import flash_attn_varlen_func, flash_attn_with_kvcache
except ImportError as e:
    sys.exit(f"calls.py: {e}; it needs torch and libattune")

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
here = "cuda" if torch.cuda.is_available() else "cpu"
parser.add_argument("device", nargs="?", choices=["cpu", "cuda"], default=here)
DEVICE = parser.parse_args().device
DTYPE = torch.float32 if DEVICE == "cpu" else torch.bfloat16
HEADS, DIM, PAGE, ROUNDS, CALLS = 1, 64, 16, 15, 400

torch.set_num_threads(1)
flash_attn_interface.by_lengths = _flash_plans.by_lengths = lambda q: False
context = libattune.Context(DEVICE)
layer = context.prepare(HEADS, HEADS, DIM, PAGE, DTYPE)


def tensor(*shape, dtype=DTYPE):
    return torch.ones(shape, dtype=dtype, device=DEVICE)


q, out, kv = tensor(1, HEADS, DIM), tensor(1, HEADS, DIM), tensor(8, 2, PAGE, HEADS, DIM)
k, v = kv.unbind(1)
table = torch.zeros(1, 8, dtype=torch.int32, device=DEVICE)
starts, lens = torch.tensor([0, 1]).int().to(DEVICE), tensor(1, dtype=torch.int32)
starts_host, lens_host = starts.cpu(), lens.cpu()
plan = layer.plan(starts_host, lens_host)
cached = (k, v, table, starts, lens)


def filled():
    """attune_tensors of the call, and attune_run with them."""
    t = Tensors(layer, 1, 1)
    t.queries(q, out)
    t.caches(k, v)
    t.lengths(plan.c, table, starts, lens)
    work = torch.empty(max(16, plan.workspace), dtype=torch.uint8, device=DEVICE)
    stream = ffi.cast("void *", context.stream())
    ws = ffi.cast("void *", work.data_ptr())
    run, op, c, n = C.attune_run, layer.op, plan.c, len(work)

    def call():
        check(run(op, c, t.c, ws, n, stream))

    call.keep = work
    return call


@torch.library.custom_op("bench_calls::attend", mutates_args=("out",))
def custom(
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    table: torch.Tensor,
    starts: torch.Tensor,
    lens: torch.Tensor,
) -> None:
    by_struct()


by_struct = filled()
none, none_lse = layer.torch.none, layer.torch.none_lse
plain = (q, *cached, plan.tensor)
operands = (out, *plain, none_lse, *[none] * 6)
operator = torch.ops.attune.paged_attention
q4, new, more = (
    q[None],
    torch.zeros_like(q[None]),
    dict(cache_seqlens=lens, block_table=table, causal=True),
)
varlen = (q, k, v, starts, None, 1, 8 * PAGE, None, lens)
rows = (q, q, q, starts, starts, 1, 1)
WAYS = {
    "attune_run, struct filled before (cffi)": by_struct,
    "torch.ops.attune.paged_attention, 15 tensors": lambda: operator.default(*operands),
    "the same, plain_out, 8 tensors": lambda: operator.plain_out(out, *plain),
    "the same, plain, which makes out": lambda: operator.plain(*plain),
    "Layer.run, out given": lambda: layer.run(plan, q, *cached, out=out),
    "Layer.run": lambda: layer.run(plan, q, *cached),
    "flash_attn_with_kvcache, block_table": lambda: flash_attn_with_kvcache(q4, k, v, **more),
    "flash_attn_with_kvcache, block_table, k and v": lambda: flash_attn_with_kvcache(
        q4, k, v, new, new, **more
    ),
    "flash_attn_varlen_func, block_table": lambda: flash_attn_varlen_func(
        *varlen, block_table=table, causal=True
    ),
    "flash_attn_varlen_func, ragged": lambda: flash_attn_varlen_func(*rows, causal=True),
    "attune_run by torch.library.custom_op": lambda: custom(out, q, *cached),
    "torch.empty_like": lambda: torch.empty_like(q),
    "Layer.plan of one decode": lambda: layer.plan(starts_host, lens_host),
}
if DEVICE == "cpu":
    arrays = [x.numpy() for x in (q, *cached)]
    WAYS["Layer.run of numpy arrays"] = lambda: layer.run(plan, *arrays)


def once(call):
    if DEVICE != "cpu":
        torch.cuda.synchronize()
    start = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - start) / CALLS / 1000


with torch.inference_mode():
    for call in WAYS.values():
        once(call)
    times = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, call in WAYS.items():
            times[name].append(once(call))
base = statistics.median(times["attune_run, struct filled before (cffi)"])
print(f"{context.name}, torch {torch.__version__}\n| way | µs | more |\n|---|---|---|")
for name, us in times.items():
    us = statistics.median(us)
    print(f"| {name} | {us:.1f} | {us - base:+.1f} |")
