# SPDX-License-Identifier: Apache-2.0
"""Plans of FlashAttention's functions, and the small tensors that depend on sizes alone. Both are
kept for other calls with these sizes."""

import os
from functools import lru_cache

import torch
from torch.compiler import is_compiling

from . import Error
from ._flash_checks import mask, no_gradients, one_each, same_shape, window
from ._torch import real
from .capture import capture
from .context import shared_layer

LENS, STARTS, EVEN = range(3)  # what `lens` is; EVEN: max_query and max_keys are the lengths
RAGGED_PAGE = 16  # tokens that count as a page where K and V have none: warpgroup reads such pages

_process = os.getpid()  # os.getpid() itself asks the kernel each time


def _forked():
    """A child of fork() opens contexts of its own."""
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_forked)


try:
    # None: torch.compile is not at work here.
    from torch._C._dynamo.eval_frame import get_eval_frame_callback as _dynamo
except ImportError:

    def _dynamo():
        return True


def outside(f):
    """f, run outside of torch.compile's graphs. Neither f nor what it calls is compiled: a tensor
    that f keeps could else be memory of a CUDA graph, which a replay overwrites."""
    disabled = torch.compiler.disable(f)
    return lambda *x: disabled(*x) if is_compiling() or _dynamo() is not None else f(*x)


def kept(make):
    """make, for tensors that depend on sizes alone: made once for each stream, since a kernel on
    another stream might read them too early. While a CUDA graph is captured they are made anew."""

    @lru_cache(maxsize=256)
    def once(stream, *sizes):
        return real(make(*sizes))

    @outside
    def get(device, *sizes):
        if device.type != "cuda":
            return once(None, device, *sizes)
        if torch.cuda.is_current_stream_capturing():
            return make(device, *sizes)
        return once(torch.cuda.current_stream(device), device, *sizes)

    return get


def by_lengths(q):
    """Whether plans are made from lengths, as those on the CPU can be read; else from maxima."""
    return q.is_cpu


@outside
def plan_of(
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
    if by_lengths(q):
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
    if len(k) != (3 if page else 4):
        must = "tokens" if page else "pages, page_size"
        raise Error(f"{call}: k has the shape {list(k)}: it must be [{must}, kv_heads, head_dim]")
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


@outside
def most_keys(call, lens, starts):
    """Keys of the longest of ragged sequences, on the CPU."""
    room = starts[1:] - starts[:-1]
    if len(room) != len(lens) or (lens > room).any():
        raise Error(
            f"{call}: seqused_k has a length above that of cu_seqlens_k, or another number of them"
        )
    return int(room.max()) if len(room) else 0


@kept
def even_starts(device, seqs, each):
    return torch.arange(seqs + 1, dtype=torch.int32, device=device) * each


@kept
def even_table(device, seqs, each):
    return torch.arange(seqs * each, dtype=torch.int32, device=device).view(seqs, each)


@kept
def even_lens(device, seqs, each):
    return torch.full((seqs,), each, dtype=torch.int32, device=device)


@kept
def even_rows(device, seqs, keys, apart):
    """(block_table, lengths) of sequences of `keys` rows, `apart` rows from one to the next."""
    first = torch.arange(seqs, dtype=torch.int32, device=device)[:, None] * apart
    page = torch.arange(0, max(keys, 1), RAGGED_PAGE, dtype=torch.int32, device=device)
    return first + page, even_lens(device, seqs, keys)
