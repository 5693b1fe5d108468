# SPDX-License-Identifier: Apache-2.0
"""Views of the caches of other engines as K and V of [pages, page_size, num_kv_heads, head_dim]."""

from ._library import Error

# dimensions of the cache; which of them is K, then V; whether heads are in front of slots
LAYOUTS = {
    "vllm": ("[pages, heads, slots, 2 * head_dim]", 3, True),
    "vllm_legacy": ("[2, pages, slots, heads, head_dim]", 0, False),
    "nhd": ("[pages, 2, slots, heads, head_dim]", 1, False),
    "hnd": ("[pages, 2, heads, slots, head_dim]", 1, True),
}


def kv_views(kv_cache, layout="vllm"):
    """(k_cache, v_cache), without a copy, of a cache that has both.

    layout   "vllm"         [pages, heads, slots, 2 * head_dim]   vLLM 0.26 and newer, in any order
             "vllm_legacy"  [2, pages, slots, heads, head_dim]    older vLLM
             "nhd"          [pages, 2, slots, heads, head_dim]    FlashInfer, vLLM's FlashAttention
             "hnd"          [pages, 2, heads, slots, head_dim]    FlashInfer
    """
    if layout not in LAYOUTS:
        raise Error(f"layout={layout!r}: it is one of {', '.join(LAYOUTS)}")
    dimensions, pair, heads_first = LAYOUTS[layout]
    shape = tuple(kv_cache.shape)
    fits = len(shape) == len(dimensions.split(","))
    if not fits or (shape[pair] % 2 if layout == "vllm" else shape[pair] != 2):
        raise Error(f"kv_cache has the shape {shape}, the layout {layout!r} is {dimensions}")
    if layout == "vllm":
        half = shape[pair] // 2
        k, v = kv_cache[..., :half], kv_cache[..., half:]
    else:
        k, v = (kv_cache[(slice(None),) * pair + (i,)] for i in (0, 1))
    return (k.swapaxes(1, 2), v.swapaxes(1, 2)) if heads_first else (k, v)
