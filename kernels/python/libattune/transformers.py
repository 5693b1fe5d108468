# SPDX-License-Identifier: Apache-2.0
"""Attention of Hugging Face Transformers by libattune.

    import libattune.transformers
    libattune.transformers.register()
    model.set_attn_implementation("flash_attune_3")
    model.generate_batch(...)                            # continuous batching, on GPUs and CPUs
    model.generate(...)

`register` makes two names known:

    flash_attune_3   generate_batch reads the paged cache in place, and on a GPU runs decodes by
                     block tables in CUDA graphs: Transformers does so for names with "flash" and a
                     2 or 3.
                     generate calls the functions of libattune.flash_attn_interface.
    attune           the same without CUDA graphs, in generate_batch of Transformers 5.17 alone. For
                     models that take no name with "flash" but their own, such as gpt-oss.

A step is planned once for all layers of a kind, from the lengths that Transformers schedules on the
host; where a CUDA graph is captured, from their bounds. No layer waits for the GPU.

Sliding layers of Transformers 5.24 are gathered by it, and run by the functions.
"""

import functools
import inspect
from collections import namedtuple

import torch

from . import Error, capture
from .context import shared_layer

FLASH, PLAIN = "flash_attune_3", "attune"
ALL = 1 << 30  # keys in front of a query that it sees


# Where the cache has a layer. Its layers are in groups, those of a group with the same block lists:
# all full attention layers are one, sliding ones one or more.
#   group, first   its group, and whether it is the first layer of it
#   window         keys that a token sees, its own included; 0: all
#   k, v           [blocks, tokens of a block, kv heads, head_dim]
#   sentinel       what the read index has for a token that is not in the cache yet
_Place = namedtuple("_Place", "group first window k v sentinel")


class _Step:
    """What the layers of a group share in a step: the plan, and device tensors.

    query_start  [num_seqs + 1]   seq_lens  [num_seqs]   table  [num_seqs, pages]
    slots  [num_tokens]   where K and V of the new tokens go in the cache; None: by the table
    rows   [num_tokens]   where they go among gathered rows; None: the cache is read in place
    most_before           keys that a query sees in front of itself
    """

    __slots__ = (
        "kind",
        "layer",
        "plan",
        "query_start",
        "seq_lens",
        "table",
        "slots",
        "rows",
        "most_before",
    )


class _Attention:
    """The attention of one PagedAttentionCache."""

    def __init__(self):
        self.steps = {}  # by group
        self.lengths = None  # of the step to run, by _watch_lengths: (query, sequence) tokens

    def plan(self, now, num_tokens, max_query, max_keys):
        """A plan of the scheduled lengths; of bounds for a graph, which is replayed for others."""
        num_seqs = len(now.seq_lens)
        if self.lengths is None or _capturing():
            return now.layer.plan_bounds(
                num_seqs=num_seqs,
                num_tokens=num_tokens,
                max_query_len=max_query,
                max_seq_len=max_keys,
            )
        return self.plan_lengths(now, num_seqs)

    def plan_lengths(self, now, num_seqs):
        start, keys = [0], []
        for query, sequence in self.lengths:
            start.append(start[-1] + query)
            keys.append(query + min(sequence - query, now.most_before))
        padding = num_seqs - len(keys)  # sequences without tokens
        return now.layer.plan(start + [start[-1]] * padding, keys + [0] * padding)

    def begins(self, lengths):
        """A step of these lengths is to run; None: one that Transformers made up for warm-up."""
        self.lengths = lengths
        if lengths is not None and capture.active is not None:
            for now in self.steps.values():  # a graph that is replayed plans nothing
                if now.most_before == ALL:
                    self.plan_lengths(now, len(lengths))


def _layer(query, cache, page_size, kind):
    return shared_layer(
        query.device,
        num_qo_heads=query.shape[1],
        num_kv_heads=cache.shape[2],
        head_dim=query.shape[3],
        page_size=page_size,
        dtype=query.dtype,
        **kind,
    )


def _capturing():
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _place(cache, layer):
    """The place of a layer in a cache of Transformers 5.17."""
    group, index = cache.layer_index_to_group_indices[layer]
    window = cache.sliding_windows[layer]  # 1: none
    k, v = (
        x.view(-1, cache.block_size, *x.shape[1:])
        for x in (cache.key_cache[index], cache.value_cache[index])
    )
    return _Place(group, index == 0, window if window > 1 else 0, k, v, cache.sentinel_index)


def _place_of_full(cache, layer):
    """The place of a full attention layer in a cache of Transformers 5.24."""
    allocator = cache.layer_to_allocator[layer]
    k, v = allocator.get_cache_for_block_table(layer)
    return _Place(allocator.index, allocator.layer_indices[0] == layer, 0, k, v, None)


@torch.compiler.disable
def _paged(
    module,
    query,
    key,
    value,
    attention_mask=None,
    scaling=None,
    softcap=None,
    sliding_window=None,
    s_aux=None,
    cache=None,
    where=_place,
    **step,
):
    """The attention interface of Transformers under continuous batching. query [1, heads, tokens,
    head_dim], key and value alike with KV heads -> [1, tokens, heads, head_dim]."""
    if cache is None:
        raise Error(
            f"paged|{PLAIN} and paged|{FLASH} are for generate_batch; generate takes {FLASH}"
        )
    if not getattr(module, "is_causal", True):
        raise Error(f"layer {module.layer_idx} is not causal: {FLASH} is for causal layers")
    place = where(cache, module.layer_idx)
    kind = dict(
        sm_scale=scaling,
        logits_soft_cap=softcap or 0.0,
        has_sinks=s_aux is not None,
        sinks_dtype=None if s_aux is None else s_aux.dtype,
    )
    attention = _of(cache)
    now = attention.steps.get(place.group)
    if place.first or now.kind != kind:  # a group's first layer begins a step
        step["longest_q"] = step.get("max_seqlen_q") or step.get("max_length_q")
        one = step["longest_q"] == 1
        make = _full_step if not place.window else _ring_step if one else _rows_step
        now = attention.steps[place.group] = make(attention, place, query, step, kind)
        now.kind = kind
    layer, lengths = now.layer, (now.table, now.query_start, now.seq_lens)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    pages, size = (place.k, place.v), layer.shape.page_size
    if size != place.k.shape[1]:
        pages = [x.view(-1, size, *x.shape[2:]) for x in pages]
    seen = pages
    if now.rows is not None:
        read = step["read_index"][place.group]
        seen = [_gathered(x, new, now, read) for x, new in zip(pages, (k, v))]
    layer.write_kv(now.plan, k, v, *pages, now.slots, *(lengths if now.slots is None else ()))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    layer.run(now.plan, q, *seen, *lengths, out=out, sinks=s_aux)
    return out[None], None


def _of(cache):
    if not hasattr(cache, "attune"):
        cache.attune = _Attention()
    return cache.attune


def _lengths(now, step, kind):
    """Sets the tensors of lengths; returns where each sequence's keys start, and the most keys."""
    keys, longest = step["cu_seq_lens_k"], step.get("max_seqlen_k") or step.get("max_length_k")
    if isinstance(keys, dict):
        keys, longest = keys[kind], longest[kind]
    now.query_start, now.seq_lens = step["cu_seq_lens_q"], keys[1:] - keys[:-1]
    return keys, longest


def _every(page, keys, longest):
    """[num_seqs, pages]: which key of all begins each page of each sequence."""
    return keys[:-1, None] + torch.arange(0, longest, page, device=keys.device)


def _full_step(attention, place, query, step, kind):
    """Of full attention layers: whole blocks in place."""
    now, block = _Step(), place.k.shape[1]
    now.layer, now.rows, now.most_before = _layer(query, place.k, block, kind), None, ALL
    keys, longest = _lengths(now, step, "full_attention")
    if step["block_table"] is not None:  # decodes; -1 where there is no block
        now.table = step["block_table"][place.group]
        longest, now.slots = now.table.shape[1] * block, None
    else:
        now.slots, read = (step[i][place.group] for i in ("write_index", "read_index"))
        if read.numel() == 0:  # all keys are new
            read = now.slots
        now.table = (read[_every(block, keys, longest).clamp_(max=read.numel() - 1)] // block).int()
    now.plan = attention.plan(now, query.shape[2], step["longest_q"], longest)
    return now


def _ring_step(attention, place, query, step, kind):
    """Of sliding layers in a step of decodes. Their blocks are a ring of one window: a new token
    takes the place of the one that leaves the window, and a single query sees all keys in any
    order."""
    now = _Step()
    now.layer, now.rows, now.most_before = (
        _layer(query, place.k, 1, kind),
        None,
        place.window - 1,
    )
    keys, longest = _lengths(now, step, "sliding_attention")
    now.slots, read = (step[i][place.group] for i in ("write_index", "read_index"))
    now.table = now.slots[:, None].int()
    if read.numel():
        table = read[_every(1, keys, longest).clamp_(max=read.numel() - 1)].int()
        now.table = torch.where(table == place.sentinel, now.table, table)
    now.plan = attention.plan(now, query.shape[2], 1, longest)
    return now


def _rows_step(attention, place, query, step, kind):
    """Of sliding layers in other steps: new tokens overwrite what older ones of the same step still
    see, so the keys are gathered into rows first, a sequence's new ones behind those of its ring.
    """
    now, page = _Step(), place.k.shape[1]
    now.most_before = place.window - 1
    now.layer = _layer(query, place.k, page, kind | dict(window_left=now.most_before))
    keys, longest = _lengths(now, step, "sliding_attention")
    now.slots, start = step["write_index"][place.group], now.query_start
    seqs = len(start) - 1
    tokens = torch.arange(query.shape[2], device=keys.device)  # padding goes behind all rows
    of = torch.searchsorted(start[1:], tokens, right=True).clamp_(max=seqs - 1)
    now.rows = tokens + (keys - start)[1:][of]
    now.plan = attention.plan(now, len(tokens), step["longest_q"], longest)
    now.table = torch.empty(seqs, -(-longest // page), dtype=torch.int32, device=keys.device)
    now.layer.page_table(now.plan, now.table, keys)
    return now


def _gathered(pages, new, now, read):
    """K or V of a sliding layer as rows [tokens, heads, head_dim], without pages."""
    if read.numel() == 0:  # all keys are new
        return new
    return torch.index_select(pages.flatten(0, 1), 0, read).index_copy_(0, now.rows, new)


def _watch_lengths(ios):
    """Keeps each step's lengths, which only the host knows, for its plan."""
    prepare = ios.prepare_batch_tensors

    @functools.wraps(prepare)
    def watched(self, requests_in_batch, *args, **kwargs):
        prepare(self, requests_in_batch, *args, **kwargs)
        made_up = requests_in_batch[0].state.request_id.startswith("__warmup_")
        _of(self.cache).begins(
            None
            if made_up
            else [(r.query_length, r.state.position_offset) for r in requests_in_batch]
        )

    ios.prepare_batch_tensors = watched


def _order_inputs(ios, both_ios, runner):
    """Lengths that change while a kernel runs can keep it from ending, and Transformers changes a
    step's inputs in device memory in three places without an order. They get one:

    - `both_ios` clears them on the current stream, and the copies of the first step are on another.
    - `ios` writes them on the current stream, and a step without graphs runs on another.
    - 5.17 prepares a warm-up step while the one before may still read them."""

    def then(owner, name, order):
        call = getattr(owner, name)

        @functools.wraps(call)
        def ordered(self, *args, **kwargs):
            result = call(self, *args, **kwargs)
            order(self)
            return result

        setattr(owner, name, ordered)

    def wait_for_writes(self):
        if self.compute_stream is not None and torch.cuda.is_available():
            self.compute_stream.wait_stream(torch.cuda.current_stream(self.device))

    def end_clearing(self):
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()

    def end_warmup(self):
        if self.inputs_and_outputs.compute_stream is not None:
            self.inputs_and_outputs.compute_stream.synchronize()

    for name in ("__init__", "reset"):
        then(both_ios, name, end_clearing)
    then(ios, "prepare_batch_tensors", wait_for_writes)
    then(runner, "run_one_warmup", end_warmup)


def _know_functions(hub_kernels):
    """Lets Transformers find functions like FlashAttention's under the names."""
    load = hub_kernels.load_and_register_attn_kernel

    @functools.wraps(load)
    def known(attn_implementation, *args, **kwargs):
        if attn_implementation.removeprefix("paged|") not in (FLASH, PLAIN):
            return load(attn_implementation, *args, **kwargs)
        from . import flash_attn_interface

        return flash_attn_interface

    hub_kernels.load_and_register_attn_kernel = known


def _in_place(caches):
    """Keeps Transformers 5.24 from gathering keys of full attention layers for FLASH."""
    update = caches.update

    @functools.wraps(update)
    def in_place(self, key_states, value_states, layer_idx, kwargs):
        full = self.layer_to_allocator[layer_idx].layer_type == "full_attention"
        if self.config._attn_implementation != FLASH or not full:
            return update(self, key_states, value_states, layer_idx, kwargs)
        kwargs["attune_cache"] = self
        return key_states, value_states

    caches.update = in_place


def _forward(module, query, key, value, attention_mask, attune_cache=None, **kwargs):
    """The attention interface under the names themselves: of generate, and of generate_batch in
    Transformers 5.24."""
    if attune_cache is not None:
        return _paged(module, query, key, value, cache=attune_cache, where=_place_of_full, **kwargs)
    if attention_mask is None and _is_plain(module, query, value, **kwargs):
        return _plain(query, key, value, **kwargs), None
    from transformers.integrations.flash_attention import flash_attention_forward

    return flash_attention_forward(module, query, key, value, attention_mask, **kwargs)


def _is_plain(module, query, value, is_causal=None, dropout=0.0, cu_seq_lens_q=None, **others):
    """Whether it is a causal layer of a batch whose sequences are all as long, in the type of the
    weights. Transformers' own way there takes longer than the call. One sequence may be several,
    packed."""
    return (
        (query.shape[2] == 1 or len(query) > 1)
        and (module.is_causal if is_causal is None else is_causal)
        and not dropout
        and cu_seq_lens_q is None
        and query.dtype == value.dtype
        and query.shape[3] == value.shape[3]
        and (query.dtype != torch.float32 or _is_meant(module, query))
    )


def _is_meant(module, query):
    """Whether Transformers leaves float32 as it is: it may be left over from a norm."""
    from transformers.integrations.flash_attention import get_target_dtype

    return get_target_dtype(query, module) in (None, torch.float32)


def _plain(q, k, v, scaling=None, sliding_window=None, softcap=None, s_aux=None, **others):
    from .flash_attn_interface import flash_attn_func

    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    window = (sliding_window - 1, 0) if sliding_window else (-1, -1)
    return flash_attn_func(q, k, v, scaling, True, window, softcap or 0.0, s_aux=s_aux)


@functools.cache  # once a process
def register():
    """Makes the names known to Transformers (5.17 and 5.24 were tried). The model is then loaded
    with attn_implementation="flash_attune_3", or set_attn_implementation names it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.generation.continuous_batching import cache, input_outputs, model_runner
    from transformers.integrations import hub_kernels
    from transformers.masking_utils import flash_attention_mask

    for name in (PLAIN, FLASH):
        AttentionInterface.register(f"paged|{name}", _paged)
        AttentionInterface.register(name, _forward)
        AttentionMaskInterface.register(name, flash_attention_mask)
    _know_functions(hub_kernels)
    _watch_lengths(input_outputs.ContinuousBatchingIOs)
    _order_inputs(
        input_outputs.ContinuousBatchingIOs,
        input_outputs.ContinuousBatchingAsyncIOs,
        model_runner.ModelRunner,
    )
    if (
        hasattr(cache, "FullAttentionCacheAllocator")
        and "kwargs" in inspect.signature(cache.PagedAttentionCache.update).parameters
    ):
        _in_place(cache.PagedAttentionCache)
