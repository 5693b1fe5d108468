"""Views of the caches of other engines as K and V of [pages, page_size, num_kv_heads, head_dim]."""

from ._library import Error

# layout: dimensions of the cache, and K and V of it
LAYOUTS = {
    "vllm": (
        "[pages, heads, slots, 2 * head_dim]",
        lambda c: (
            c[..., : c.shape[-1] // 2].swapaxes(1, 2),
            c[..., c.shape[-1] // 2 :].swapaxes(1, 2),
        ),
    ),
    "vllm_legacy": ("[2, pages, slots, heads, head_dim]", lambda c: (c[0], c[1])),
    "nhd": ("[pages, 2, slots, heads, head_dim]", lambda c: (c[:, 0], c[:, 1])),
    "hnd": (
        "[pages, 2, heads, slots, head_dim]",
        lambda c: (c[:, 0].swapaxes(1, 2), c[:, 1].swapaxes(1, 2)),
    ),
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
    text, split = LAYOUTS[layout]
    shape = tuple(kv_cache.shape)
    both = {"vllm_legacy": 0, "nhd": 1, "hnd": 1}.get(layout)
    right = len(shape) == len(text.split(",")) and (
        shape[-1] % 2 == 0 if both is None else shape[both] == 2
    )
    if not right:
        raise Error(f"kv_cache has the shape {shape}, the layout {layout!r} is {text}")
    return split(kv_cache)
