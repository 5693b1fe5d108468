"""Compiles vLLM's Triton attention ahead of time, for vllm_triton.c.

    python3 vllm_triton.py VLLM OUT QUERY_HEADS/KV_HEADS/PAGE_SIZE[/e4m3]... [--jobs N]

VLLM is the site-packages of an installed vLLM. From it come
vllm/v1/attention/ops/triton_unified_attention.py and what that file imports from its own folder.
All its other imports are replaced: neither vLLM's dependencies nor a GPU are needed, Triton is.

OUT gets vllm_triton.bin, the cubins one after another, and vllm_triton_table.h, a row for each.

Every kernel is compiled for a causal BF16 layer without window, softcap, sinks or ALiBi, and for a
cache of BF16 or, with /e4m3, of E4M3 with one scale of K and one of V. What vLLM's launch specialises on is specialised here, with two exceptions. A num_seqs of 1 or of a
multiple of 16 is compiled as any other. Block tables, lengths and the tables' stride need not be
multiples of 16, since a part of a batch begins anywhere. With Triton 3.6 neither changes an
instruction of vLLM's own configurations.
"""

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import multiprocessing
import os
import re
import sys
import types
from pathlib import Path
from unittest import mock

os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")  # before it loads; halves the cubins

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError as error:
    sys.exit(f"vllm_triton.py: {error}: PYTHON= of make names a Python that has Triton")

OPS = "vllm.v1.attention.ops"
MODULE = OPS + ".triton_unified_attention"
HEAD_SIZE = 128
SEGMENTS = 16  # NUM_PAR_SOFTMAX_SEGMENTS of vllm/v1/attention/backends/triton_attn.py

# (BLOCK_M, TILE_SIZE, num_warps, num_stages). The first of each is what vLLM launches; 4 warps and
# 3 stages are Triton's defaults. The others won somewhere in measurements on an H200.
CONFIGS_2D = [
    (16, 32, 4, 3),
    (16, 64, 4, 3),
    (16, 128, 4, 2),
    (64, 32, 4, 3),
    (64, 64, 4, 2),
    (64, 64, 4, 3),
    (128, 64, 8, 2),
    (128, 128, 8, 2),
]
CONFIGS_3D = [(16, 16, 4, 3), (16, 32, 4, 3), (16, 64, 4, 3), (16, 128, 4, 2)]

# Parameters that vllm_triton.c passes at each launch: type for Triton, enum of the C side, and
# whether the value is a multiple of 16 (bytes of an address, elements of a stride). KV becomes the
# type of the cache.
ARGUMENTS = {
    "output_ptr": ("*bf16", "ARG_OUT", True),
    "query_ptr": ("*bf16", "ARG_Q", True),
    "key_cache_ptr": ("*KV", "ARG_K", True),
    "value_cache_ptr": ("*KV", "ARG_V", True),
    "k_scale": ("*fp32", "ARG_K_SCALE", False),
    "v_scale": ("*fp32", "ARG_V_SCALE", False),
    "block_tables_ptr": ("*i32", "ARG_TABLE", False),
    "seq_lens_ptr": ("*i32", "ARG_SEQ_LENS", False),
    "query_start_len_ptr": ("*i32", "ARG_QUERY_START", False),
    "segm_output_ptr": ("*fp32", "ARG_SEGM_OUT", True),
    "segm_max_ptr": ("*fp32", "ARG_SEGM_MAX", True),
    "segm_expsum_ptr": ("*fp32", "ARG_SEGM_SUM", True),
    "scale": ("fp32", "ARG_SCALE", False),
    "num_seqs": ("i32", "ARG_NUM_SEQS", False),
    "block_table_stride": ("i64", "ARG_TABLE_STRIDE", False),
    "query_stride_0": ("i64", "ARG_Q_TOKEN", True),
    "query_stride_1": ("i64", "ARG_Q_HEAD", True),
    "output_stride_0": ("i64", "ARG_OUT_TOKEN", True),
    "output_stride_1": ("i64", "ARG_OUT_HEAD", True),
    "stride_k_cache_0": ("i64", "ARG_K_PAGE", True),
    "stride_k_cache_1": ("i64", "ARG_K_SLOT", True),
    "stride_k_cache_2": ("i64", "ARG_K_HEAD", True),
    "stride_v_cache_0": ("i64", "ARG_V_PAGE", True),
    "stride_v_cache_1": ("i64", "ARG_V_SLOT", True),
    "stride_v_cache_2": ("i64", "ARG_V_HEAD", True),
}

# Parameters that no branch reads with these constants. None takes them out of the signature, as
# vLLM's launch itself does with most.
UNREAD = """sink_ptr alibi_slopes_ptr qq_bias_ptr k_scale_cache_ptr v_scale_cache_ptr q_scale
    out_scale out_scale_inv softcap qq_bias_stride_0 per_seq_causal_ptr mm_prefix_range_ptr
    rswa_prefix_lens_ptr stride_ks_blk stride_ks_slot stride_ks_head stride_vs_blk stride_vs_slot
    stride_vs_head""".split()

FEATURES = {
    "HEAD_SIZE": HEAD_SIZE,
    "HEAD_SIZE_PADDED": HEAD_SIZE,
    "USE_ALIBI_SLOPES": False,
    "USE_ALIBI_SQRT": False,
    "USE_QQ_BIAS": False,
    "USE_SOFTCAP": False,
    "USE_SINKS": False,
    "SLIDING_WINDOW": 0,
    "USE_CAUSAL": True,
    "USE_PER_SEQ_CAUSAL": False,
    "USE_MM_PREFIX": False,
    "MAX_MM_RANGES": 0,
    "R_SWA_WINDOW": 0,
    "USE_R_SWA": False,
    "stride_k_cache_3": 1,
    "stride_v_cache_3": 1,
    "USE_FP8": False,
}

# By the type of the cache: Triton's name, the one of attune.h, and constants. Mode 1 converts to q's
# type and multiplies by the scale of the tensor.
CACHES = {
    "bf16": ("bf16", "ATTUNE_BF16", dict(KV_QUANT_MODE=0, k_scale=None, v_scale=None)),
    "e4m3": ("fp8e4nv", "ATTUNE_E4M3", dict(KV_QUANT_MODE=1)),
}


class Failure(Exception):
    """Its text is all that the user needs. It passes from a worker to main."""


# ---- vLLM's file ------------------------------------------------------------------------------


class Finder:
    """Files of the ops folder are vLLM's; all else named vllm or torch is a stand-in."""

    def __init__(self, vllm):
        self.ops = vllm.joinpath(*OPS.split("."))
        self.files = []

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ("vllm", "torch"):
            return None
        if name.startswith(OPS + "."):
            at = self.ops.joinpath(*name[len(OPS) + 1 :].split("."))
            if at.with_suffix(".py").is_file():
                self.files.append(at.with_suffix(".py"))
                return importlib.util.spec_from_file_location(name, at.with_suffix(".py"))
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name, spec=None)
        if spec.name == "vllm.triton_utils":
            module = types.ModuleType(spec.name)
            module.triton, module.tl = triton, tl
        if spec.name == "torch":  # the file asks for the limits of E4M3, as defaults
            module.finfo = lambda dtype: types.SimpleNamespace(min=-448.0, max=448.0)
        return module

    def exec_module(self, module):
        module.__path__ = []  # each may be a package


@contextlib.contextmanager
def stand_ins(finder):
    """Triton looks for torch in sys.modules, so nothing may stay there."""

    def ours(name):
        return name.split(".")[0] in ("vllm", "torch")

    saved = {k: sys.modules.pop(k) for k in list(sys.modules) if ours(k)}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for k in [k for k in sys.modules if ours(k)]:
            del sys.modules[k]
        sys.modules.update(saved)


def load(vllm):
    """The module, and a text that tells one revision of its source from another."""
    finder = Finder(vllm)
    if not (finder.ops / "triton_unified_attention.py").is_file():
        raise Failure(f"{finder.ops} has no triton_unified_attention.py; give the site-packages of an installed vLLM")
    with stand_ins(finder):
        module = importlib.import_module(MODULE)
    for name in ("kernel_unified_attention", "reduce_segments"):
        if not hasattr(module, name):
            raise Failure(f"{finder.files[0]} has no {name}; this adapter is for vLLM 0.25 and later")
    digest = hashlib.sha256()
    for file in sorted(finder.files):
        digest.update(file.read_bytes())
    return module, digest.hexdigest()[:8]


def release(vllm):
    """What the installed package says of its version."""
    file = vllm / "vllm" / "_version.py"
    found = file.is_file() and re.search(r"^__version__ = .*'([\w.+]+)'$", file.read_text(), re.M)
    return f" ({found[1]})" if found else ""


# ---- one kernel -------------------------------------------------------------------------------


def source_of(fn, constants, cache):
    """The arguments of one specialisation: what Triton compiles, and the enums in order."""
    signature, constexprs, attrs, order = {}, {}, {}, []
    for i, (name, parameter) in enumerate(fn.signature.parameters.items()):
        if name in constants or name in UNREAD:
            signature[name], constexprs[name] = "constexpr", constants.get(name)
        elif name in ARGUMENTS and "constexpr" not in str(parameter.annotation):
            text, kind, aligned = ARGUMENTS[name]
            signature[name] = text.replace("KV", CACHES[cache][0])
            order.append(kind)
            if aligned:
                attrs[(i,)] = [["tt.divisibility", 16]]
        elif parameter.default is not parameter.empty:  # newer than this file: left as it is
            signature[name], constexprs[name] = "constexpr", parameter.default
        else:
            raise Failure(f"{fn.__name__} has a parameter {name} that this adapter does not know")
    return ASTSource(fn, signature, constexprs, attrs), order


# Members of struct code in front of its cubin's place.
NUMBERS = "kind kv_dtype heads group page block_m tile warps stages segments shared threads".split()
PTX_TYPES = {"*": "u64", "fp32": "f32", "i32": "u32", "i64": "u64"}


def trailing(name, ptx, source):
    """Checks the compiled entry's parameters; the number of Triton's own scratch pointers."""
    entry = re.search(rf"\.entry {name}\((.*?)\)", ptx, re.S)
    have = re.findall(r"\.param \.(\w+)", entry[1]) if entry else []
    want = [PTX_TYPES.get(t, PTX_TYPES["*"]) for t in source.signature.values() if t != "constexpr"]
    alike = [h.replace("b", "u").replace("f32", "u32") for h in have]
    wanted = [w.replace("f32", "u32") for w in want]
    extra = len(have) - len(want)
    if alike[: len(want)] != wanted or not 0 <= extra <= 4 or set(alike[len(want) :]) - {"u64"}:
        raise Failure(f"{name} has the parameters {have}, expected {want} and scratch pointers")
    return extra


def compile_one(job):
    kind, cache, constants, (block_m, tile, warps, stages), arch = job
    fn = getattr(VLLM, "reduce_segments" if kind == "REDUCE" else "kernel_unified_attention")
    source, order = source_of(fn, constants, cache)
    options = {} if kind == "REDUCE" else {"num_warps": warps, "num_stages": stages}
    code = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    meta = code.metadata
    for scratch in ("global_scratch_size", "profile_scratch_size"):
        if getattr(meta, scratch, 0):
            raise Failure(f"{meta.name} wants scratch memory, which this adapter does not give it")
    if getattr(meta, "num_ctas", 1) != 1 or getattr(meta, "launch_cooperative_grid", False):
        raise Failure(f"{meta.name} wants a cluster or a cooperative launch")
    extra = trailing(meta.name, code.asm["ptx"], source)
    row = dict(
        kind=kind,
        kv_dtype=CACHES[cache][1],
        heads=constants["num_query_heads"],
        group=constants.get("num_queries_per_kv", 0),
        page=constants.get("BLOCK_SIZE", 0),
        block_m=block_m,
        tile=tile,
        warps=warps,
        stages=stages,
        segments=constants["NUM_SEGMENTS_PER_SEQ"],
        name=meta.name,
        shared=meta.shared,
        threads=32 * meta.num_warps,
        args=order + ["ARG_NONE"] * extra,
    )
    return row, bytes(code.asm["cubin"])


# ---- all of them ------------------------------------------------------------------------------


def attention(kind, heads, group, page, cache, config):
    block_m, tile, _, _ = config
    segm = ("segm_output_ptr", "segm_max_ptr", "segm_expsum_ptr")
    return dict(
        FEATURES,
        **CACHES[cache][2],
        **({} if kind == "THREE_D" else dict.fromkeys(segm)),
        num_query_heads=heads,
        num_queries_per_kv=group,
        BLOCK_SIZE=page,
        TILE_SIZE=tile,
        BLOCK_M=block_m,
        BLOCK_Q=block_m // group,
        IS_3D=kind == "THREE_D",
        NUM_SEGMENTS_PER_SEQ=SEGMENTS if kind == "THREE_D" else 1,
    )


def jobs_for(shapes, arch):
    for heads, kv_heads, page, cache in shapes:
        for kind, configs in (("TWO_D", CONFIGS_2D), ("THREE_D", CONFIGS_3D)):
            for config in configs:
                constants = attention(kind, heads, heads // kv_heads, page, cache, config)
                yield kind, cache, constants, config, arch
    # reduce_segments does not read BLOCK_Q, and knows neither the cache nor KV heads
    for heads in sorted({shape[0] for shape in shapes}):
        for config in CONFIGS_3D:
            constants = attention("THREE_D", heads, 1, 0, "bf16", config)
            del constants["num_queries_per_kv"], constants["BLOCK_SIZE"]
            yield "REDUCE", "bf16", constants, config, arch


def write(out, arch, version, compiled):
    at, seen = 0, {}
    lines = [
        "/* Made by vllm_triton.py. */",
        f'#define TABLE_ARCH "sm_{arch}"',
        f'#define TABLE_VERSION "{version}"',
        f"enum {{ TABLE_HEAD_SIZE = {HEAD_SIZE}, TABLE_SEGMENTS = {SEGMENTS} }};",
        "static const struct code table[] = {",
    ]
    with open(out / "vllm_triton.bin", "wb") as file:
        for row, cubin in compiled:
            if cubin not in seen:
                seen[cubin] = at
                cubin_padded = cubin + bytes(-len(cubin) % 64)
                at += file.write(cubin_padded)
            numbers = ", ".join(str(row[k]) for k in NUMBERS)
            args = ", ".join(row["args"])
            code = f'{seen[cubin]}, "{row["name"]}", {len(row["args"])}, {{ {args} }}'
            lines.append(f"\t{{ {numbers}, {code} }},")
    lines.append("};")
    (out / "vllm_triton_table.h").write_text("\n".join(lines) + "\n")
    print(f"  {len(compiled)} kernels, {len(seen)} cubins, {at / 1e6:.1f} MB: {version}")


def shape_of(text):
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)/([1-9]\d*)(/e4m3)?", text)
    heads, kv_heads, page = map(int, match.groups()[:3]) if match else (1, 2, 0)
    if heads % kv_heads or heads // kv_heads > 16:
        raise argparse.ArgumentTypeError(
            f"{text}: expected QUERY_HEADS/KV_HEADS/PAGE_SIZE or QUERY_HEADS/KV_HEADS/PAGE_SIZE/e4m3"
            " with up to 16 query heads a KV head"
        )
    return heads, kv_heads, page, "e4m3" if match[4] else "bf16"


def main():
    parser = argparse.ArgumentParser(description="Compiles vLLM's Triton attention to cubins.")
    parser.add_argument("vllm", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("shapes", type=shape_of, nargs="+")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()

    global VLLM  # the workers inherit it
    VLLM, digest = load(options.vllm)
    version = f"{digest}{release(options.vllm)}, Triton {triton.__version__}"
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = list(jobs_for(dict.fromkeys(options.shapes), options.arch))
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        compiled = pool.map(compile_one, jobs, chunksize=1)
    write(options.out, options.arch, version, compiled)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"vllm_triton.py: {failure}")
