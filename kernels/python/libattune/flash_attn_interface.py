# SPDX-License-Identifier: Apache-2.0
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
import os
from functools import lru_cache

import torch
from torch.compiler import is_compiling

from . import Error, _torch  # noqa: F401: refuses a torch that is too old
from ._flash_checks import mask, no_gradients, one_each, refuse, same_shape, tensors, whole, window
from .capture import capture
from .context import shared_layer

LENS, STARTS, EVEN = range(3)  # what `lens` of _plan is; EVEN: max_query, max_keys are the lengths
RAGGED_PAGE = 16  # tokens that count as a page where K and V have none: warpgroup reads such pages


_process = os.getpid()  # os.getpid() itself asks the kernel each time


def _forked():
    """A child of fork() opens contexts of its own."""
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_forked)


def _outside(f):
    """torch.compile leaves its graph for f."""
    disabled = torch.compiler.disable(f)
    return lambda *x: disabled(*x) if is_compiling() else f(*x)


def _kept(make):
    """What depends on sizes alone is made once for each stream, since on another one it might be
    read before its values are there. Under capture it is made by the graph, for the graph."""

    @lru_cache(maxsize=256)
    def kept(stream, *sizes):
        return make(*sizes)

    @_outside
    def get(device, *sizes):
        if device.type != "cuda":
            return kept(None, device, *sizes)
        if torch.cuda.is_current_stream_capturing():
            return make(device, *sizes)
        return kept(torch.cuda.current_stream(device), device, *sizes)

    return get


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
    if dropout_p or attention_chunk or not seqused_q is qv is q_v is q_descale is None:
        refuse(
            call,
            seqused_q=seqused_q,
            qv=qv,
            q_v=q_v,
            q_descale=q_descale,
            dropout_p=dropout_p,
            attention_chunk=attention_chunk,
        )
    names = "q k v cu_seqlens_q cu_seqlens_k seqused_k block_table"
    tensors(call, names, 4, q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, block_table)
    if cu_seqlens_k is None and (seqused_k is None or block_table is None):
        raise Error(f"{call}: cu_seqlens_k is missing (with block_table, seqused_k is enough)")
    ragged = block_table is None
    lens = seqused_k
    if lens is None and (_by_lengths(q) or not ragged):
        lens = cu_seqlens_k.diff()
    has_lse = return_softmax_lse or return_attn_probs
    plan = _plan(
        call,
        q,
        k,
        v,
        ragged,
        cu_seqlens_q,
        cu_seqlens_k if lens is None else lens,
        STARTS if lens is None else LENS,
        max_seqlen_q,
        max_seqlen_k,
        causal,
        window_size,
        softcap,
        softmax_scale,
        s_aux,
        alibi_slopes,
        has_lse,
    )
    if ragged:
        longest = _most(call, lens, cu_seqlens_k) if _by_lengths(q) else int(max_seqlen_k)
        if not k.numel():
            k, v = _some(k), _some(v)
        pages = longest // RAGGED_PAGE + 1
        block_table, made = plan.layer.torch.ragged_table(plan.tensor, cu_seqlens_k, pages)
        lens = made if lens is None else lens
    lse = _lse(q) if has_lse else None
    out = plan.layer.run(
        plan,
        _rows(q),
        k,
        v,
        block_table,
        cu_seqlens_q,
        lens,
        out,
        lse.t() if has_lse else None,
        k_descale,
        v_descale,
        s_aux,
        alibi_slopes,
    )
    return (out, lse) if has_lse else out


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
    rotary_is_none = rotary_cos is rotary_sin is rotary_seqlens is None
    if attention_chunk or not (rotary_is_none and qv is cache_leftpad is q_descale is None):
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
    names = "q k_cache v_cache k v block_table cu_seqlens_q cu_seqlens_k_new cache_batch_idx"
    more = cu_seqlens_q, cu_seqlens_k_new, cache_batch_idx
    tensors(call, names, 3, q, k_cache, v_cache, k, v, table, *more)
    if page_table is not None and block_table is not None:
        raise Error(f"{call}: page_table and block_table are two names of one: give one of them")
    if (k is None) != (v is None):
        raise Error(f"{call}: k and v are given both or not at all")
    same_shape(call, "k_cache", k_cache.shape, "v_cache", v_cache.shape)
    if out is not None:
        same_shape(call, "out", out.shape, "q", q.shape)
    starts, longest = _starts_of(call, "cu_seqlens_q", q, cu_seqlens_q, max_seqlen_q)
    seqs = starts.shape[0] - 1
    if table is None:
        k_cache, v_cache, table = _pages(call, k_cache, v_cache, cache_batch_idx, seqs)
    elif cache_batch_idx is not None:
        raise Error(
            f"{call}: cache_batch_idx and block_table are both given: one of them says where"
        )
    slots = table.shape[1] * k_cache.shape[1]
    lens, most, kind = cache_seqlens, slots, LENS
    if not isinstance(lens, torch.Tensor):
        most = slots if lens is None else whole(call, "cache_seqlens", lens)
        lens = _lens(q.device, seqs, most)
        kind = EVEN if cu_seqlens_q is cu_seqlens_k_new is None else LENS
    if k is not None:
        same_shape(call, "k", k.shape, "v", v.shape)
        new, each = _starts_of(call, "cu_seqlens_k_new", k, cu_seqlens_k_new, 0)
        k, v = _rows(k), _rows(v)
        one_each(call, "cu_seqlens_k_new", "k", new.shape, lens.shape)
        lens = lens + (new.diff() if cu_seqlens_k_new is not None else _lens(q.device, 1, each))
        most = most + each if kind is EVEN else slots
    plan = _plan(
        call,
        q,
        k_cache,
        v_cache,
        False,
        starts,
        lens,
        kind,
        longest,
        most if kind is EVEN else slots,
        causal,
        window_size,
        softcap,
        softmax_scale,
        s_aux,
        alibi_slopes,
        return_softmax_lse,
    )
    if k is not None:
        plan.layer.torch.write_kv(
            plan.tensor, k, v, k_cache, v_cache, None, table, new, lens, k_descale, v_descale
        )
    lse = _lse(q) if return_softmax_lse else None
    # Of batches that are not side by side no view has rows.
    is_apart = out is not None and cu_seqlens_q is None and not out.is_contiguous()
    got = plan.layer.run(
        plan,
        _rows(q),
        k_cache,
        v_cache,
        table,
        starts,
        lens,
        None if is_apart else out,
        lse.t() if return_softmax_lse else None,
        k_descale,
        v_descale,
        s_aux,
        alibi_slopes,
    )
    out = out.copy_(got) if is_apart else got
    if not return_softmax_lse:
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
    tensors(call, "q k v", 3, q, k, v)
    same_shape(call, "k", k.shape, "v", v.shape)
    starts, queries = _starts_of(call, "cu_seqlens_q", q, None, None)
    if k.dim() != 4 or len(k) != len(q):
        raise Error(
            f"{call}: k has the shape {list(k.shape)}: it must be [{len(q)}, keys, kv_heads, "
            "head_dim]"
        )
    seqs, keys = k.shape[:2]
    k, v, apart = _side_by_side(_some(k), _some(v))
    table, lens = _rows_of(q.device, seqs, keys, apart)
    plan = _plan(
        call,
        q,
        k,
        v,
        True,
        starts,
        lens,
        EVEN,
        queries,
        keys,
        causal,
        window_size,
        softcap,
        softmax_scale,
        s_aux,
        alibi_slopes,
        return_softmax_lse,
    )
    lse = _lse(q) if return_softmax_lse else None
    out = plan.layer.run(
        plan,
        _rows(q),
        k,
        v,
        table,
        starts,
        lens,
        None,
        lse.t() if return_softmax_lse else None,
        None,
        None,
        s_aux,
        alibi_slopes,
    )
    return (out, lse.unflatten(1, (seqs, -1)).transpose(0, 1)) if return_softmax_lse else out


def _some(x):
    """A tensor without elements counts as not given, so K and V without keys get one that no row
    sees."""
    return x if x.numel() else x.new_zeros([max(n, 1) for n in x.shape])


def _by_lengths(q):
    """Whether plans are made from lengths, as those on the CPU can be read; else from maxima."""
    return q.is_cpu


@_outside
def _plan(
    call,
    q,
    k,
    v,
    ragged,
    starts,
    lens,
    kind,
    max_query,
    max_keys,
    causal,
    window_size,
    softcap,
    scale,
    sinks,
    alibi_slopes,
    has_lse,
):
    if torch.is_grad_enabled():
        no_gradients(call, q, k, v, sinks, alibi_slopes)
    key = (
        call,
        _process,
        q.device,
        q.dtype,
        k.dtype,
        q.shape,
        k.shape,
        v.shape,
        starts.shape,
        lens.shape,
        kind,
        RAGGED_PAGE if ragged else None,
        bool(causal),
        window(call, window_size),
        float(softcap or 0),
        None if scale is None else float(scale),
        None if sinks is None else sinks.dtype,
        alibi_slopes is not None,
        bool(has_lse),
    )
    if kind is EVEN:
        plan = _even if capture.active is None else _even.__wrapped__
        return plan(int(max_query), int(max_keys), *key)
    if _by_lengths(q):
        return _prepared(*key).plan(starts, lens)
    if max_query is None or max_keys is None:
        raise Error(f"{call}: max_seqlen_q and max_seqlen_k are missing: lengths are on the device")
    return _bounds(int(max_query), int(max_keys), *key)


@lru_cache(maxsize=4096)
def _prepared(*key):
    """The layer of a call whose arrays have these shapes, once they are found to fit. A child of
    fork() is another process."""
    call, _process, device, dtype, kv_dtype, q, k, v, starts, lens, kind, *how = key
    page, causal, window_size, softcap, scale, sinks, alibi, lse = how
    if kind is STARTS and len(lens) == 1:
        lens = (lens[0] - 1,)
    same_shape(call, "k", k, "v", v)
    one_each(call, "cu_seqlens_q", "q", starts, lens)
    if q[-1] != k[-1]:
        raise Error(f"{call}: q has heads of {q[-1]}, k and v of {k[-1]}: they must be equal")
    causal, left = mask(call, causal, window_size, alibi)
    return shared_layer(
        device,
        num_qo_heads=q[-2],
        num_kv_heads=k[-2],
        head_dim=q[-1],
        page_size=page or k[1],
        dtype=dtype,
        kv_dtype=kv_dtype,
        causal=causal,
        window_left=left,
        logits_soft_cap=softcap,
        sm_scale=scale,
        has_sinks=sinks is not None,
        sinks_dtype=sinks,
        has_alibi=alibi,
        has_lse=lse,
    )


@lru_cache(maxsize=4096)
def _bounds(max_query, max_keys, *key):
    layer, tokens, seqs = _prepared(*key), key[5][:-2].numel(), key[8][0] - 1
    return layer.plan_bounds(seqs, tokens, min(max_query, tokens), max_keys)


@lru_cache(maxsize=4096)
def _even(query, keys, *key):
    """Of sequences of one length, which the host knows."""
    seqs = key[8][0] - 1
    return _prepared(*key).plan([i * query for i in range(seqs + 1)], [keys] * seqs)


def _lse(q):
    """[heads, tokens]"""
    return torch.empty((q.shape[-2], q.shape[:-2].numel()), dtype=torch.float32, device=q.device)


def _starts_of(call, name, x, starts, longest):
    """(where each sequence begins in x, an upper bound of their lengths) of x as a batch
    [batch, tokens of each, heads, head_dim], or as rows with their starts."""
    if starts is not None:
        if x.dim() != 3:
            raise Error(f"{call}: with {name} the tokens are [tokens, heads, head_dim]")
        return starts, longest
    if x.dim() != 4:
        raise Error(f"{call}: without {name} the tokens are [batch, tokens, heads, head_dim]")
    seqs, each, _, _ = x.shape
    return _starts(x.device, seqs, each), each


def _rows(x):
    """A batch whose tokens are rows at one stride, as the operator takes it."""
    return x if x.is_contiguous() or x.dim() == 3 else x.flatten(0, 1).view_as(x)


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


@_kept
def _starts(device, seqs, each):
    return torch.arange(seqs + 1, dtype=torch.int32, device=device) * each


@_kept
def _table(device, seqs, each):
    return torch.arange(seqs * each, dtype=torch.int32, device=device).view(seqs, each)


@_kept
def _lens(device, seqs, each):
    return torch.full((seqs,), each, dtype=torch.int32, device=device)


@_kept
def _rows_of(device, seqs, keys, apart):
    """(block_table, lengths) of sequences of `keys` rows, `apart` rows from one to the next."""
    first = torch.arange(seqs, dtype=torch.int32, device=device)[:, None] * apart
    page = torch.arange(0, max(keys, 1), RAGGED_PAGE, dtype=torch.int32, device=device)
    return first + page, _lens(device, seqs, keys)


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
    table = _table(k_cache.device, batch, each)
    if batch_idx is not None:
        table = table[batch_idx.long()]
    return (
        k_cache.unflatten(1, (each, page)).flatten(0, 1),
        v_cache.unflatten(1, (each, page)).flatten(0, 1),
        table,
    )
