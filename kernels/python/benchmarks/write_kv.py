# SPDX-License-Identifier: Apache-2.0
"""write_kv.py - Layer.write_kv beside what torch has: K and V of new tokens into a paged cache.

    python kernels/python/benchmarks/write_kv.py
    python kernels/python/benchmarks/write_kv.py --tokens 1,64,512,4096 --compile

A line a case: microseconds a layer of each way, medians of interleaved rounds, and the way's time as
a multiple of attune's. On a GPU a round replays a CUDA graph of some layers, whose caches and rows
together are larger than the L2 cache. Before the times the caches of all ways are compared bit by
bit.

  slots      attune by a slot_mapping;   lengths: by block table and lengths
  index_put  cache[page, slot] = rows, for K and for V, with E4M3 behind a division and a conversion
  compiled   the same by torch.compile (--compile)
  vllm       reshape_and_cache_flash of an installed vLLM, where K and V lie by pages and slots
"""

import argparse
import statistics
import sys
import time

try:
    import torch

    import libattune
except ImportError as e:
    sys.exit(f"write_kv.py: {e}; it needs torch and libattune")

HEADS, HEAD, PAGE = 8, 128, 16


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument(
        "--tokens", default="1,8,64,128,256,512,4096", help="4096: a prefill; else decodes"
    )
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--rounds", type=int, default=25)
    p.add_argument("--compile", action="store_true", help="race torch.compile's kernels, too")
    return p.parse_args()


class Case:
    """The caches and rows of some layers, and the metadata of one step."""

    def __init__(self, device, dtype, kv_dtype, layout, tokens, layers):
        prefill = tokens >= 4096
        self.tokens, self.layout = tokens, layout
        self.name = (
            f"{str(kv_dtype)[6:]:14} {layout} {'prefill' if prefill else 'decodes'} {tokens:5}"
        )
        pages = max(2 * tokens if not prefill else tokens // PAGE * 2, 64)
        kw = {"dtype": dtype, "device": device}
        self.rows = [torch.randn(tokens, 2, HEADS, HEAD, **kw).unbind(1) for _ in range(layers)]
        order = (pages, PAGE, HEADS, HEAD) if layout == "NHD" else (pages, HEADS, PAGE, HEAD)
        self.caches = [
            [torch.zeros(order, dtype=kv_dtype, device=device) for _ in "kv"] for _ in range(layers)
        ]
        if layout == "HND":
            self.caches = [[x.transpose(1, 2) for x in pair] for pair in self.caches]
        self.scales = None
        if kv_dtype != dtype:
            self.scales = [torch.tensor(s, device=device) for s in (0.37, 2.5)]
        self._place(device, pages, prefill)

    def _place(self, device, pages, prefill):
        seqs = 1 if prefill else self.tokens
        query = self.tokens // seqs
        used = (query + PAGE - 1) // PAGE
        table = torch.randperm(pages)[: seqs * used].view(seqs, used)
        lens = torch.full((seqs,), query) if prefill else torch.randint(1, PAGE + 1, (seqs,))
        at = torch.arange(query) + lens[:, None] - query
        page = table.gather(1, at // PAGE).flatten()
        self.slots = (page * PAGE + (at % PAGE).flatten()).to(device)
        self.page, self.slot = page.to(device), (at % PAGE).flatten().to(device)
        starts = torch.arange(seqs + 1) * query
        self.host = starts.tolist(), lens.tolist()
        self.table, self.starts, self.lens = (
            x.to(torch.int32).to(device) for x in (table, starts, lens)
        )

    def bytes(self):
        """What a layer's step reads and writes."""
        (k, _), (cache, _) = self.rows[0], self.caches[0]
        return 2 * self.tokens * HEADS * HEAD * (k.element_size() + cache.element_size())


def put(cache, page, slot, rows, scale):
    if scale is None:
        cache[page, slot] = rows
    else:
        narrow = (rows.float() / scale).clamp(-448, 448).to(cache.dtype)
        cache.view(torch.uint8)[page, slot] = narrow.view(torch.uint8)


def put_both(caches, page, slot, rows, scales):
    for i in range(2):
        put(caches[i], page, slot, rows[i], scales and scales[i])


def vllm_writer(case):
    """None: vLLM is not installed, or cannot take the layout."""
    try:
        from vllm import _custom_ops as ops
    except ImportError:
        return None
    if case.layout != "NHD":
        return None
    one = torch.ones((), device=case.slots.device)
    scales, kind = (case.scales, "fp8") if case.scales else ([one, one], "auto")

    def write(i):
        caches = [x.view(torch.uint8) if case.scales else x for x in case.caches[i]]
        ops.reshape_and_cache_flash(*case.rows[i], *caches, case.slots, kind, *scales)

    return write


def ways(case, layer, compiled):
    plan = layer.plan(*case.host)
    scales = dict(zip(("k_scale", "v_scale"), case.scales)) if case.scales else {}
    lengths = {
        "block_table": case.table,
        "query_start_loc": case.starts,
        "seq_lens": case.lens,
    }
    rest = case.page, case.slot
    made = {
        "slots": lambda i: layer.write_kv(
            plan, *case.rows[i], *case.caches[i], slots=case.slots, **scales
        ),
        "lengths": lambda i: layer.write_kv(
            plan, *case.rows[i], *case.caches[i], **lengths, **scales
        ),
        "index_put": lambda i: put_both(case.caches[i], *rest, case.rows[i], case.scales),
    }
    if compiled:
        both = torch.compile(put_both, dynamic=False)
        made["compiled"] = lambda i: both(case.caches[i], *rest, case.rows[i], case.scales)
    if writer := vllm_writer(case):
        made["vllm"] = writer
    return made


def same_bits(case, made):
    """Whether all ways leave the same caches."""
    seen = []
    for write in made.values():
        for cache in case.caches[0]:
            cache.zero_()
        write(0)
        seen.append([x.contiguous().view(torch.uint8).clone() for x in case.caches[0]])
    return all(torch.equal(a, b) for other in seen[1:] for a, b in zip(seen[0], other))


def repeated(write, layers, device):
    """A function that writes all layers and returns the seconds it took."""

    def plain():
        begin = time.perf_counter()
        for i in range(layers):
            write(i)
        return time.perf_counter() - begin

    plain()
    if device == "cpu":
        return plain
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(layers):
            write(i)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")

    def replay():
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    replay()
    return replay


def race(case, made, args):
    timed = {name: repeated(w, args.layers, args.device) for name, w in made.items()}
    times = {name: [] for name in timed}
    for _ in range(args.rounds):
        for name, run in timed.items():
            times[name].append(run() / args.layers * 1e6)
    return {name: statistics.median(v) for name, v in times.items()}


def main():
    args = arguments()
    context = libattune.Context(args.device)
    dtype = torch.bfloat16
    kinds = [dtype] if args.device == "cpu" else [dtype, torch.float8_e4m3fn]
    print(f"# {context.name}; {HEADS} KV heads of {HEAD}, pages of {PAGE}, us a layer")
    for kv_dtype in kinds:
        layer = context.prepare(4 * HEADS, HEADS, HEAD, PAGE, dtype, kv_dtype=kv_dtype)
        for layout in ("NHD", "HND"):
            for tokens in map(int, args.tokens.split(",")):
                case = Case(args.device, dtype, kv_dtype, layout, tokens, args.layers)
                made = ways(case, layer, args.compile)
                same = same_bits(case, made)
                us = race(case, made, args)
                text = "  ".join(
                    f"{name} {t:7.2f}" + (f" x{t / us['slots']:.2f}" if name != "slots" else "")
                    for name, t in us.items()
                )
                rate = case.bytes() / us["slots"] / 1e3
                print(f"{case.name}  {text}  {rate:6.0f} GB/s{'' if same else '  OTHER BITS'}")


if __name__ == "__main__":
    main()
