"""Compiles FlashAttention-4's forward for sm_90a ahead of time, for fa4.c. No GPU is needed.

    python3 fa4.py OUT GROUP...

flash_attn.cute and what it needs come from the packages of this Python. OUT gets an object for each
kernel, which has its cubin and the function that launches it, and fa4_table.h, a row for each.

A GROUP is the number of query heads of one KV head. Every kernel is for a causal BF16 layer of head
size 128 over pages, whose queries and sequences have lengths of their own. FlashAttention-4 moves
pages by TMA where a page has as many slots as a tile has keys, else by cp.async. It packs the query
heads of a group into one tile unless it is told not to.
"""

import importlib.metadata
import os
import sys
from pathlib import Path

os.environ.update(
    FLASH_ATTENTION_ARCH="sm_90", CUTE_DSL_ARCH="sm_90a", FLASH_ATTENTION_NUM_SMS="132"
)

try:
    import torch
    from flash_attn.cute import interface
    from torch._subclasses.fake_tensor import FakeTensorMode
except ImportError as error:
    sys.exit(f"fa4.py: {error}: PYTHON= of make names a Python that has flash-attn-4")

HEAD_SIZE = 128
KV_HEADS = 8  # any: the compiled code takes all counts


def version():
    package = importlib.metadata.version
    return f"{package('flash-attn-4')} dsl {package('nvidia-cutlass-dsl')}"


def compile_one(group, page, pack):
    """What FlashAttention-4 compiles for tensors like these, whose contents do not exist."""
    cache = interface._flash_attn_fwd.compile_cache.cache
    before = set(cache)
    with FakeTensorMode():

        def tensor(*shape, dtype=torch.int32):
            return torch.empty(*shape, dtype=dtype, device="cuda")

        kv = [tensor(64, page, KV_HEADS, HEAD_SIZE, dtype=torch.bfloat16) for _ in range(2)]
        interface.flash_attn_varlen_func(
            tensor(7, group * KV_HEADS, HEAD_SIZE, dtype=torch.bfloat16),
            *kv,
            cu_seqlens_q=tensor(5),
            max_seqlen_q=4,
            seqused_k=tensor(4),
            page_table=tensor(4, 16),
            causal=True,
            pack_gqa=pack,
        )
    made = [key for key in cache if key not in before]
    if len(made) != 1:
        sys.exit(f"fa4.py: {len(made)} kernels were compiled where one was expected")
    return cache[made[0]]


def main():
    out, groups = Path(sys.argv[1]), [int(group) for group in sys.argv[2:]]
    tile = interface._tile_size_fwd_sm90(HEAD_SIZE, HEAD_SIZE, True, False).n_block_size
    rows = []
    for group in groups:
        for tma in (0, 1):
            for pack in (1, 0):
                name = f"fa4_{group}_{tma}_{pack}"
                made = compile_one(group, tile if tma else 16, bool(pack))
                made.export_to_c(object_file_path=str(out / f"{name}.o"), function_name=name)
                rows.append(f"ROW({group}, {tma}, {pack}, __tvm_ffi_{name})")
    table = [
        "/* made by fa4.py */",
        f"#define FA4_TILE {tile}",
        f'#define FA4_VERSION "{version()}"',
        "#define FA4_ROWS \\",
        " \\\n".join("\t" + row for row in rows),
    ]
    (out / "fa4_table.h").write_text("\n".join(table) + "\n")


main()
