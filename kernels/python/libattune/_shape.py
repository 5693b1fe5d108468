# SPDX-License-Identifier: Apache-2.0
"""What a layer is: from the words of Context.prepare to an attune_shape, and from one to the keys
of a captured step."""

from ._arrays import NAMES, dtype_code
from ._library import C, Error, ffi, number, whole

LAYOUTS = {"strided": C.ATTUNE_KV_STRIDED, "classic": C.ATTUNE_KV_CLASSIC}
WORDS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3"}
MOST_WINDOW = 1 << 30  # that attune reads; a longer one hides no key


def shape_of(
    num_qo_heads,
    num_kv_heads,
    head_dim,
    page_size,
    dtype,
    kv_dtype=None,
    window_left=-1,
    logits_soft_cap=0.0,
    sm_scale=None,
    has_sinks=False,
    has_alibi=False,
    has_lse=False,
    causal=True,
    has_new_kv=False,
    kv_layout="strided",
    sinks_dtype=None,
):
    """An attune_shape, by Context.prepare's words."""
    if kv_layout not in LAYOUTS:
        raise Error(f"kv_layout={kv_layout!r}: it is 'strided' or 'classic'")
    whole(
        num_qo_heads=num_qo_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        page_size=page_size,
        window_left=window_left,
        causal=causal,
        has_sinks=has_sinks,
        has_alibi=has_alibi,
        has_new_kv=has_new_kv,
        has_lse=has_lse,
    )
    if not -1 <= window_left < 2**31 - 1:
        raise Error(f"window_left={window_left}: it is -1, or from 0 to 2^31 - 2")
    # As floats of C the smallest would be 0, which has a meaning of its own.
    number(sm_scale=sm_scale, logits_soft_cap=logits_soft_cap)
    if sm_scale is not None and not sm_scale >= 2**-126:
        raise Error(f"sm_scale={sm_scale}: it must be above 0, or None for 1 / sqrt(head_dim)")
    if logits_soft_cap and not logits_soft_cap >= 1e-4:
        raise Error(f"logits_soft_cap={logits_soft_cap}: it must be 0 (none), or 1e-4 to 1000")
    dtype = dtype_code(dtype, "dtype")
    return ffi.new(
        "attune_shape *",
        {
            "size": ffi.sizeof("attune_shape"),
            "num_query_heads": num_qo_heads,
            "num_kv_heads": num_kv_heads,
            "head_size": head_dim,
            "page_size": page_size,
            "dtype": dtype,
            "kv_dtype": dtype if kv_dtype is None else dtype_code(kv_dtype, "kv_dtype"),
            "causal": causal,
            "window": window_left + 1,
            "scale": sm_scale or 0.0,
            "softcap": logits_soft_cap or 0.0,
            "has_sinks": has_sinks,
            "has_alibi": has_alibi,
            "has_new_kv": has_new_kv,
            "kv_layout": LAYOUTS[kv_layout],
            "has_lse": has_lse,
            "sinks_dtype": dtype_code(sinks_dtype or "float32", "sinks_dtype"),
        },
    )


def keys_of(s, layout=None):
    """{key: value} of a captured step's layers (scenarios/README.md), without those that have their
    usual value. layout: None: that of the shape."""
    keys = dict(
        query_heads=s.num_query_heads,
        kv_heads=s.num_kv_heads,
        head_size=s.head_size,
        page_size=s.page_size,
        dtype=WORDS[NAMES[s.dtype]],
        kv_dtype=WORDS[NAMES[s.kv_dtype]],
        layout=layout or ("classic" if s.kv_layout == LAYOUTS["classic"] else "nhd"),
        window=0 if s.window > MOST_WINDOW else s.window,
        softcap=s.softcap,
        scale=s.scale,
        sinks=bool(s.has_sinks),
        alibi=bool(s.has_alibi),
        lse=bool(s.has_lse),
        cross=not s.causal,
    )
    return {k: v for k, v in keys.items() if v or k in ("query_heads", "kv_heads")}
