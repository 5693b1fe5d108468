# SPDX-License-Identifier: Apache-2.0
"""FlashAttention's functions for inference over libattune: flash_attn_func, flash_attn_varlen_func
and flash_attn_with_kvcache by the names, order and shapes of FlashAttention 3, with what
FlashAttention 2, vLLM and Transformers add as keywords.

    from libattune.flash_attn_interface import flash_attn_varlen_func, flash_attn_with_kvcache

An op is prepared at the first call of a shape and kept. On a GPU lengths stay on the device: a plan
is made from the maxima and kept for the next call with these, so a call neither waits for the
device nor reads from it, and may be captured in a CUDA graph. A plan is made from the lengths on the
CPU, and on GPUs where the host knows them: all sequences are as long in flash_attn_func and where
cache_seqlens is a number.

These are hints for other kernels and change nothing: num_splits, pack_gqa, sm_margin,
scheduler_metadata, deterministic, fa_version. What the library cannot do is refused in one line.
torch.compile leaves its graph to prepare and to plan; the operators stay inside."""

import math

import torch

from . import Error, _torch  # noqa: F401: refuses a torch that is too old
from ._flash_checks import one_each, refuse, same_shape, tensors, whole
from ._flash_plans import (
    EVEN,
    LENS,
    RAGGED_PAGE,
    STARTS,
    by_lengths,
    even_lens,
    even_rows,
    even_starts,
    even_table,
    most_keys,
    plan_of,
)


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
    if lens is None and (by_lengths(q) or not ragged):
        lens = cu_seqlens_k.diff()
    has_lse = return_softmax_lse or return_attn_probs
    plan = plan_of(
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
        longest = most_keys(call, lens, cu_seqlens_k) if by_lengths(q) else int(max_seqlen_k)
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
    elif table.dim() != 2:
        raise Error(
            f"{call}: block_table has the shape {list(table.shape)}: it must be [sequences, pages of "
            "one]"
        )
    slots = table.shape[1] * k_cache.shape[1]
    lens, most, kind = cache_seqlens, slots, LENS
    if not isinstance(lens, torch.Tensor):
        most = slots if lens is None else whole(call, "cache_seqlens", lens)
        if not 0 <= most <= slots:
            raise Error(
                f"{call}: cache_seqlens={most}: it must be from 0 to {slots}, the slots of each"
            )
        lens = even_lens(q.device, seqs, most)
        kind = EVEN if cu_seqlens_q is cu_seqlens_k_new is None else LENS
    if k is not None:
        same_shape(call, "k", k.shape, "v", v.shape)
        new, each = _starts_of(call, "cu_seqlens_k_new", k, cu_seqlens_k_new, 0)
        k, v = _rows(k), _rows(v)
        one_each(call, "cu_seqlens_k_new", "k", new.shape, lens.shape)
        if not isinstance(cache_seqlens, torch.Tensor) and most + each > slots:
            raise Error(f"{call}: {slots} slots have no room for {each} tokens of k behind {most}")
        lens = lens + (new.diff() if cu_seqlens_k_new is not None else even_lens(q.device, 1, each))
        most = most + each if kind is EVEN else slots
    plan = plan_of(
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
    if is_apart and (out.dtype, out.device) != (q.dtype, q.device):
        raise Error(f"{call}: out is of {out.dtype} on {out.device}: it must be as q")
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
        lse = lse.unflatten(1, (seqs, longest)).transpose(0, 1)
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
    table, lens = even_rows(q.device, seqs, keys, apart)
    plan = plan_of(
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
    return (out, lse.unflatten(1, (seqs, queries)).transpose(0, 1)) if return_softmax_lse else out


def _some(x):
    """A tensor without elements counts as not given, so K and V without keys get one that no row
    sees."""
    return x if x.numel() else x.new_zeros([max(n, 1) for n in x.shape[:-2]] + [*x.shape[-2:]])


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
    return even_starts(x.device, seqs, each), each


def _rows(x):
    """A batch whose tokens are rows at one stride, as the operator takes it."""
    return x if x.is_contiguous() or x.dim() == 3 else x.flatten(0, 1).view_as(x)


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
    table = even_table(k_cache.device, batch, each)
    if batch_idx is not None:
        table = table[batch_idx.long()]
    return (
        k_cache.unflatten(1, (each, page)).flatten(0, 1),
        v_cache.unflatten(1, (each, page)).flatten(0, 1),
        table,
    )
