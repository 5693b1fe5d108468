"""FlashAttention's functions for inference over libattune: flash_attn_func, flash_attn_varlen_func
and flash_attn_with_kvcache by the names, order and shapes of FlashAttention 3, with what
FlashAttention 2, vLLM and Transformers add as keywords.

    from libattune.flash_attn_interface import flash_attn_varlen_func, flash_attn_with_kvcache

An op is prepared at the first call of a shape and kept. On a GPU lengths stay on the device: a plan
is made from the maxima and kept for the next call with these, so a call neither waits for the
device nor reads from it, and may be captured in a CUDA graph. On the CPU a plan is made from the
lengths.

These are hints for other kernels and change nothing: num_splits, pack_gqa, sm_margin,
scheduler_metadata, deterministic, fa_version. What the library cannot do is refused in one line.
torch.compile leaves its graph to prepare and to plan; the operators stay inside."""

import math
from functools import lru_cache

import torch

from . import Error
from ._flash_checks import mask, one_each, refuse, same_shape, tensors, whole
from .context import shared_layer

RAGGED_PAGE = 16  # tokens that count as a page where K and V have none: warpgroup reads such pages


def _outside(f):
    """torch.compile leaves its graph for f."""
    disabled = torch.compiler.disable(f)
    return lambda *x, **by: (disabled if torch.compiler.is_compiling() else f)(*x, **by)


_prepared = _outside(shared_layer)
_made = {}  # starts and tables that depend on sizes alone


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k=None,
    max_seqlen_q=None,
    max_seqlen_k=None,
    seqused_q=None,
    seqused_k=None,
    softmax_scale=None,
    causal=False,
    qv=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    window_size=(-1, -1),
    attention_chunk=0,
    softcap=0.0,
    num_splits=1,
    pack_gqa=None,
    deterministic=False,
    sm_margin=0,
    return_attn_probs=False,
    *,
    dropout_p=0.0,
    alibi_slopes=None,
    block_table=None,
    return_softmax_lse=False,
    out=None,
    scheduler_metadata=None,
    q_v=None,
    fa_version=None,
    s_aux=None,
):
    """Attention of sequences that stand one behind the other in q.

    q              [tokens, heads, head_dim]
    k, v           [tokens, kv_heads, head_dim], or with block_table
                   [pages, page_size, kv_heads, head_dim]
    cu_seqlens_q   [sequences + 1] int32: where each begins in q, and their end
    cu_seqlens_k   the same of k; with block_table or seqused_k only their lengths may be given
    seqused_k      [sequences] int32: keys of each sequence; None: as cu_seqlens_k says
    max_seqlen_q, max_seqlen_k   upper bounds of the lengths; the CPU needs none
    block_table    [sequences, pages of one] int32
    window_size    (left, right): right 0 is causal, -1 all; None: (-1, -1)
    k_descale, v_descale   of an E4M3 cache: [1], [kv_heads] or [sequences, kv_heads] float32
    alibi_slopes   [heads] float32
    s_aux          [heads]: attention sinks

    Returns out [tokens, heads, head_dim], or with return_softmax_lse or return_attn_probs
    (out, lse) with lse [heads, tokens]: natural logarithms, sinks included."""
    call = "flash_attn_varlen_func"
    refuse(
        call,
        seqused_q=seqused_q,
        qv=qv,
        q_v=q_v,
        q_descale=q_descale,
        dropout_p=dropout_p,
        attention_chunk=attention_chunk,
    )
    tensors(
        call,
        dict(q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q),
        cu_seqlens_k=cu_seqlens_k,
        seqused_k=seqused_k,
        block_table=block_table,
    )
    same_shape(call, "k", k, "v", v)
    if cu_seqlens_k is None and (seqused_k is None or block_table is None):
        raise Error(f"{call}: cu_seqlens_k is missing (with block_table, seqused_k is enough)")
    ragged = block_table is None
    lens = seqused_k if seqused_k is not None else cu_seqlens_k[1:] - cu_seqlens_k[:-1]
    layer = _layer(
        call,
        q,
        k,
        v,
        RAGGED_PAGE if ragged else k.shape[1],
        causal,
        window_size,
        softcap,
        softmax_scale,
        s_aux,
        alibi_slopes,
        return_softmax_lse or return_attn_probs,
    )
    plan = _plan(call, layer, q, cu_seqlens_q, lens, max_seqlen_q, max_seqlen_k)
    if ragged:
        longest = _most(call, lens, cu_seqlens_k) if q.device.type == "cpu" else max_seqlen_k
        pages = max(1, -(-longest // RAGGED_PAGE))
        k, v = _some(k), _some(v)
        block_table = torch.empty((len(lens), pages), dtype=torch.int32, device=q.device)
        layer.page_table(plan, block_table, cu_seqlens_k)
    out, lse = _run(
        layer,
        plan,
        q,
        k,
        v,
        block_table,
        cu_seqlens_q,
        lens,
        out,
        k_descale,
        v_descale,
        s_aux,
        alibi_slopes,
    )
    return out if lse is None else (out, lse)


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    qv=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    page_table=None,
    cu_seqlens_q=None,
    cu_seqlens_k_new=None,
    max_seqlen_q=None,
    rotary_seqlens=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    attention_chunk=0,
    softcap=0.0,
    rotary_interleaved=True,
    scheduler_metadata=None,
    num_splits=0,
    pack_gqa=None,
    sm_margin=0,
    return_softmax_lse=False,
    *,
    block_table=None,
    alibi_slopes=None,
    s_aux=None,
    out=None,
):
    """Attention over a cache, which first takes the new tokens' k and v if these are given.

    q                 [batch, queries, heads, head_dim], or with cu_seqlens_q
                      [tokens, heads, head_dim]
    k_cache, v_cache  [batch, slots, kv_heads, head_dim], or with block_table
                      [pages, page_size, kv_heads, head_dim]
    k, v              [batch, new, kv_heads, head_dim], or with cu_seqlens_k_new
                      [new tokens, kv_heads, head_dim]: they go behind cache_seqlens. Of q's type;
                      an E4M3 cache gets them by k_descale and v_descale
    cache_seqlens     [batch] int32 or a number: tokens in the cache in front of k; None: all slots
    cache_batch_idx   [batch]: rows of k_cache and v_cache, without block_table
    block_table       [batch, pages of one] int32, also by the name page_table
    The others are as in flash_attn_varlen_func.

    Returns out like q, or with return_softmax_lse (out, lse) with lse [batch, heads, queries], or
    with cu_seqlens_q [heads, tokens]."""
    call = "flash_attn_with_kvcache"
    refuse(
        call,
        qv=qv,
        rotary_cos=rotary_cos,
        rotary_sin=rotary_sin,
        rotary_seqlens=rotary_seqlens,
        cache_leftpad=cache_leftpad,
        q_descale=q_descale,
        attention_chunk=attention_chunk,
    )
    table = page_table if block_table is None else block_table
    tensors(
        call,
        dict(q=q, k_cache=k_cache, v_cache=v_cache),
        k=k,
        v=v,
        block_table=table,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k_new=cu_seqlens_k_new,
        cache_batch_idx=cache_batch_idx,
    )
    if page_table is not None and block_table is not None:
        raise Error(f"{call}: page_table and block_table are two names of one: give one of them")
    if (k is None) != (v is None):
        raise Error(f"{call}: k and v are given both or not at all")
    same_shape(call, "k_cache", k_cache, "v_cache", v_cache)
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    same_shape(call, "out", out, "q", q)
    rows, starts, longest = _rows(call, "cu_seqlens_q", q, cu_seqlens_q, max_seqlen_q)
    seqs = len(starts) - 1
    if table is None:
        k_cache, v_cache, table = _pages(call, k_cache, v_cache, cache_batch_idx, seqs)
    elif cache_batch_idx is not None:
        raise Error(
            f"{call}: cache_batch_idx and block_table are both given: one of them says where"
        )
    slots = table.shape[1] * k_cache.shape[1]
    lens = cache_seqlens
    if not isinstance(lens, torch.Tensor):
        lens = _lens(q.device, seqs, slots if lens is None else whole(call, "cache_seqlens", lens))
    if k is not None:
        same_shape(call, "k", k, "v", v)
        v, _, _ = _rows(call, "cu_seqlens_k_new", v, cu_seqlens_k_new, 0)
        k, new, each = _rows(call, "cu_seqlens_k_new", k, cu_seqlens_k_new, 0)
        one_each(call, "cu_seqlens_k_new", "k", new, lens)
        lens = lens + (each if cu_seqlens_k_new is None else new[1:] - new[:-1])
    layer = _layer(
        call,
        rows,
        k_cache,
        v_cache,
        k_cache.shape[1],
        causal,
        window_size,
        softcap,
        softmax_scale,
        s_aux,
        alibi_slopes,
        return_softmax_lse,
    )
    plan = _plan(call, layer, rows, starts, lens, longest, slots)
    if k is not None:
        layer.write_kv(plan, k, v, k_cache, v_cache, None, table, new, lens, k_descale, v_descale)
    # Of batches that are not side by side no view has rows.
    to = out if cu_seqlens_q is not None or out.is_contiguous() else None
    rows_out, lse = _run(
        layer,
        plan,
        rows,
        k_cache,
        v_cache,
        table,
        starts,
        lens,
        None if to is None else to.view(rows.shape),
        k_descale,
        v_descale,
        s_aux,
        alibi_slopes,
    )
    if to is None:
        out.copy_(rows_out.view(q.shape))
    if lse is None:
        return out
    if cu_seqlens_q is None:
        lse = lse.unflatten(1, (seqs, -1)).transpose(0, 1)
    return out, lse


def flash_attn_func(
    q,
    k,
    v,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    deterministic=False,
    *,
    dropout_p=0.0,
    alibi_slopes=None,
    return_softmax_lse=False,
    s_aux=None,
):
    """Attention of sequences of one length, over all keys.

    q     [batch, queries, heads, head_dim]
    k, v  [batch, keys, kv_heads, head_dim], in this order in memory or with heads in front of keys
    The others are as in flash_attn_varlen_func; causal: the last query sees all keys.

    Returns out like q, or with return_softmax_lse (out, lse) with lse [batch, heads, queries]."""
    call = "flash_attn_func"
    refuse(call, dropout_p=dropout_p)
    tensors(call, dict(q=q, k=k, v=v))
    same_shape(call, "k", k, "v", v)
    rows, starts, queries = _rows(call, "cu_seqlens_q", q, None, None)
    if k.dim() != 4 or len(k) != len(q):
        raise Error(
            f"{call}: k has the shape {list(k.shape)}: it must be [{len(q)}, keys, kv_heads, "
            "head_dim]"
        )
    seqs, keys = k.shape[:2]
    k, v, apart = _side_by_side(_some(k), _some(v))
    table = torch.arange(seqs, dtype=torch.int32, device=q.device)[:, None] * apart + torch.arange(
        0, max(keys, 1), RAGGED_PAGE, dtype=torch.int32, device=q.device
    )
    lens = _lens(q.device, seqs, keys)
    layer = _layer(
        call,
        rows,
        k,
        v,
        RAGGED_PAGE,
        causal,
        window_size,
        softcap,
        softmax_scale,
        s_aux,
        alibi_slopes,
        return_softmax_lse,
    )
    plan = _plan(call, layer, rows, starts, lens, queries, keys)
    out, lse = _run(
        layer, plan, rows, k, v, table, starts, lens, None, None, None, s_aux, alibi_slopes
    )
    out = out.view(q.shape)
    return out if lse is None else (out, lse.unflatten(1, (seqs, -1)).transpose(0, 1))


def _some(x):
    """A tensor without elements counts as not given, so K and V without keys get one that no row
    sees."""
    return x if x.numel() else x.new_zeros([max(n, 1) for n in x.shape])


def _layer(
    call, q, k, v, page_size, causal, window_size, softcap, scale, sinks, alibi_slopes, has_lse
):
    learnt = q.requires_grad or k.requires_grad or v.requires_grad
    learnt = learnt or (sinks is not None and sinks.requires_grad)
    learnt = learnt or (alibi_slopes is not None and alibi_slopes.requires_grad)
    if learnt and torch.is_grad_enabled():
        raise Error(f"{call}: there is no backward pass: call it under torch.no_grad()")
    if v.shape[-1] != q.shape[-1] or k.shape[-1] != q.shape[-1]:
        raise Error(
            f"{call}: q, k and v have heads of {q.shape[-1]}, {k.shape[-1]} and {v.shape[-1]}: "
            "they must be equal"
        )
    causal, left = mask(call, causal, window_size, alibi_slopes)
    return _prepared(
        q.device,
        num_qo_heads=q.shape[-2],
        num_kv_heads=k.shape[-2],
        head_dim=q.shape[-1],
        page_size=page_size,
        dtype=q.dtype,
        kv_dtype=k.dtype,
        causal=causal,
        window_left=left,
        logits_soft_cap=float(softcap or 0),
        sm_scale=None if scale is None else float(scale),
        has_sinks=sinks is not None,
        sinks_dtype=None if sinks is None else sinks.dtype,
        has_alibi=alibi_slopes is not None,
        has_lse=bool(has_lse),
    )


@lru_cache(maxsize=4096)
def _bounds(layer, seqs, tokens, max_query, max_keys):
    return layer.plan_bounds(seqs, tokens, max_query, max_keys)


@_outside
def _plan(call, layer, q, starts, lens, max_query, max_keys):
    one_each(call, "cu_seqlens_q", "q", starts, lens)
    if q.device.type == "cpu":
        return layer.plan(starts, lens)
    if max_query is None or max_keys is None:
        raise Error(f"{call}: max_seqlen_q and max_seqlen_k are missing: lengths are on the device")
    return _bounds(layer, len(lens), len(q), min(int(max_query), len(q)), int(max_keys))


def _run(layer, plan, q, k, v, table, starts, lens, out, k_descale, v_descale, sinks, alibi_slopes):
    """(out, lse [heads, tokens] or None)"""
    lse = None
    if layer.shape.has_lse:
        lse = torch.empty((q.shape[1], len(q)), dtype=torch.float32, device=q.device)
    out = layer.run(
        plan,
        q,
        k,
        v,
        table,
        starts,
        lens,
        out,
        None if lse is None else lse.t(),
        k_descale,
        v_descale,
        sinks,
        alibi_slopes,
    )
    return out, lse


def _rows(call, name, x, starts, longest):
    """([tokens, heads, head_dim], where each sequence begins in it, an upper bound of their
    lengths) of [batch, tokens of each, heads, head_dim], or of rows with their starts."""
    if starts is not None:
        if x.dim() != 3:
            raise Error(f"{call}: with {name} the tokens are [tokens, heads, head_dim]")
        return x, starts, longest
    if x.dim() != 4:
        raise Error(f"{call}: without {name} the tokens are [batch, tokens, heads, head_dim]")
    return x.flatten(0, 1), _starts(x.device, x.shape[0], x.shape[1]), x.shape[1]


@_outside
def _keep(key, make):
    """What depends on sizes alone is made once. Under capture it is made by the graph, for the
    graph: its memory has values only in a replay."""
    made = _made.get(key)
    if made is None:
        made = make()
        if not (made.is_cuda and torch.cuda.is_current_stream_capturing()):
            _made[key] = made
    return made


@_outside
def _most(call, lens, starts):
    """Keys of the longest of ragged sequences, on the CPU."""
    room = starts[1:] - starts[:-1]
    if len(room) != len(lens) or (lens > room).any():
        raise Error(
            f"{call}: seqused_k has a length above that of cu_seqlens_k, or another number of them"
        )
    return int(room.max()) if len(room) else 0


def _side_by_side(k, v):
    """K and V of [batch, keys, ...] as rows [tokens, ...], without a copy if one number of tokens
    leads from a sequence to the next in both; and that number."""
    seqs, keys = k.shape[:2]
    if keys == 1:  # the stride of a dimension of size 1 says nothing
        return k[:, 0], v[:, 0], 1
    if seqs == 1:
        return k[0], v[0], keys
    aparts = {divmod(x.stride(0), x.stride(1)) if x.stride(1) else (0, 1) for x in (k, v)}
    apart, rest = aparts.pop()
    if aparts or rest or apart * seqs >= 1 << 31:
        return k.flatten(0, 1), v.flatten(0, 1), keys
    rows = ((seqs - 1) * apart + keys, *k.shape[2:])
    return *(x.as_strided(rows, x.stride()[1:]) for x in (k, v)), apart


def _starts(device, seqs, each):
    return _keep(
        ("starts", device, seqs, each),
        lambda: torch.arange(seqs + 1, dtype=torch.int32, device=device) * each,
    )


def _lens(device, seqs, each):
    return torch.full((seqs,), each, dtype=torch.int32, device=device)


def _pages(call, k_cache, v_cache, batch_idx, seqs):
    """A cache [batch, slots, heads, head_dim] as pages, with its block table."""
    batch, slots = k_cache.shape[:2]
    if not slots:
        raise Error(f"{call}: k_cache has no slots: its shape is {list(k_cache.shape)}")
    if batch_idx is None and batch < seqs:
        raise Error(f"{call}: k_cache has {batch} rows for {seqs} sequences")
    if batch_idx is not None and (
        batch_idx.shape != (seqs,) or batch_idx.dtype not in (torch.int32, torch.int64)
    ):
        raise Error(f"{call}: cache_batch_idx must be int32 or int64 of the shape [{seqs}]")
    if (
        batch_idx is not None
        and batch_idx.is_cpu
        and ((batch_idx < 0) | (batch_idx >= batch)).any()
    ):
        raise Error(f"{call}: cache_batch_idx must be from 0 to {batch - 1}, the rows of k_cache")
    page = math.gcd(slots, 128)
    if page < 16 or any(x.stride(0) != slots * x.stride(1) for x in (k_cache, v_cache)):
        page = slots
    each = slots // page
    table = _keep(
        ("table", k_cache.device, batch, each),
        lambda: torch.arange(batch * each, dtype=torch.int32, device=k_cache.device).view(
            batch, each
        ),
    )
    if batch_idx is not None:
        table = table[batch_idx.long()]
    return (
        k_cache.unflatten(1, (each, page)).flatten(0, 1),
        v_cache.unflatten(1, (each, page)).flatten(0, 1),
        table,
    )
