"""Turns TileOPs' paged GQA decode into CUDA sources, for tileops.c. No GPU is needed.

    python3 compile_tileops.py OUT QUERY_HEADS/KV_HEADS/PAGE_SIZE...

tileops and tilelang are packages of this Python. OUT gets a source for each kernel, which has the
function that launches it, and tileops_table.h, a row for each.

TileOPs compiles for one batch size and one width of the block table. Here both are variables, so
that one kernel serves all batches. All else is as TileOPs' GQADecodePagedKernel has it by default;
kernels with fewer splits are compiled, too. They are for BF16, head size 128 and queries of one token.
"""

import importlib.metadata
import re
import sys
from pathlib import Path

try:
    import tilelang.language as T
    from tilelang import tvm
    from tilelang.engine.lower import lower
    from tilelang.jit.adapter.wrapper import TLWrapper
    from tileops._kernels.attention.gqa import paged_decode
except ImportError as error:
    sys.exit(f"compile_tileops.py: {error}: PYTHON= of make names a Python that has tileops")

HEAD_SIZE = 128
BLOCK_M, STAGES, THREADS = 64, 2, 128  # GQADecodePagedKernel.default_config
SPLITS = [16, 4, 1]  # 16 is TileOPs' default; 1 is the kernel that it takes for short tables
MOST_BYTES = 1 << 40  # of K, that a TMA descriptor may span
TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
PASSES = {"tl.enable_fast_math": True}


def source_of(program):
    """The CUDA source that TileLang compiles for its own host code."""
    with TARGET, tvm.transform.PassContext(opt_level=3, config=PASSES):
        made = lower(program, target=TARGET, enable_host_codegen=False, enable_device_compile=False)
        wrapper = TLWrapper(TARGET)
        wrapper.assign_optimized_module(
            tvm.IRModule({program.attrs["global_symbol"]: program})
        )
        wrapper.assign_pass_configs(PASSES)
        wrapper.assign_host_module(made.host_mod)
        wrapper.assign_device_module(made.device_mod)
        return wrapper.wrap(made.kernel_source)


def replace(text, pattern, by):
    text, n = re.subn(pattern, by, text)
    if not n:
        sys.exit(f"compile_tileops.py: TileLang's source has no {pattern}")
    return text


def renamed(source, name):
    """Gives each source names of its own, so that all of them link into one object."""
    if not re.search(r"int call\(.*, int batch, int width, cudaStream_t", source):
        sys.exit("compile_tileops.py: call() does not take the batch and the width")
    source = replace(source, r'extern "C" __global__', "static __global__")
    source = replace(source, r'extern "C" TL_EXPORT int call\(', f'extern "C" int {name}_call(')
    source = replace(source, r'extern "C" TL_EXPORT int init\(', f'extern "C" int {name}_init(')
    return replace(
        source, r'extern "C" TL_EXPORT const char\* get_last_error\(',
        f'extern "C" const char* {name}_error(',
    )


def main():
    out, rows = Path(sys.argv[1]), []
    for shape in sys.argv[2:]:
        heads, kv_heads, page = map(int, shape.split("/"))
        block_n = paged_decode.gqa_decode_paged_block_ns(page)[0]
        pool = MOST_BYTES // (kv_heads * HEAD_SIZE * 2)
        given = (
            T.dynamic("batch"), heads, kv_heads, 1, pool, HEAD_SIZE, page, T.dynamic("width"),
            False, None, 0.0, "bfloat16",
        )  # fmt: skip
        for splits in SPLITS:
            if splits > 1:
                build = paged_decode._gqa_decode_split_paged_kernel(*given)
                program = build.get_tir(BLOCK_M, block_n, splits, STAGES, THREADS)
            else:
                build = paged_decode.gqa_decode_no_split_paged_kernel(*given)
                program = build.get_tir(BLOCK_M, block_n, STAGES, THREADS)
            name = f"tileops_{heads}_{kv_heads}_{page}_{splits}"
            (out / f"{name}.cu").write_text(renamed(source_of(program), name))
            rows.append(
                f"ROW{'_SPLIT' if splits > 1 else ''}"
                f"({heads}, {kv_heads}, {page}, {splits}, {block_n}, {name})"
            )
    package = importlib.metadata.version
    table = [
        "/* made by compile_tileops.py */",
        f'#define TILEOPS_VERSION "{package("tileops")} tilelang {package("tilelang")}"',
        "#define TILEOPS_ROWS \\",
        " \\\n".join("\t" + row for row in rows),
    ]
    (out / "tileops_table.h").write_text("\n".join(table) + "\n")


main()
