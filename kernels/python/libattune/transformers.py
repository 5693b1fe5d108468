"""Attention of Hugging Face Transformers by libattune.

    import libattune.transformers
    libattune.transformers.register()
    model.set_attn_implementation("flash_attune_3")
    model.generate_batch(...)                            # continuous batching, on GPUs and CPUs
    model.generate(...)

`register` makes two names known:

    flash_attune_3   generate_batch reads the paged cache in place, and on a GPU runs decodes by block
                     tables in CUDA graphs: Transformers does so for names with "flash" and a 2 or 3.
                     generate calls the functions of libattune.flash_attn_interface.
    attune           the same without CUDA graphs, in generate_batch of Transformers 5.17 alone. For
                     models that take no name with "flash" but their own, such as gpt-oss.

Newer releases gather keys and values themselves and call the functions in generate_batch, too.

A step is planned once for all layers of a kind, from the lengths that Transformers schedules on the
host; where a CUDA graph is captured, from their bounds. No layer waits for the GPU.
"""
import functools

import torch

from . import Context, Error, capture

FLASH, PLAIN = "flash_attune_3", "attune"
ALL = 1 << 30  # keys in front of a query that it sees


@functools.cache
def _context(device):
    return Context(str(device))


class _Step:
    """What the layers of a group share in a step: the plan, and device tensors.

    query_start  [num_seqs + 1]   seq_lens  [num_seqs]   table  [num_seqs, pages]
    slots  [num_tokens]   where K and V of the new tokens go in the cache; None: by the table
    rows   [num_tokens]   where they go among gathered rows; None: the cache is read in place
    """
    __slots__ = ("kind", "layer", "plan", "query_start", "seq_lens", "table", "slots", "rows",
                 "most_before")


class _Attention:
    """The attention of one PagedAttentionCache. Its layers are in groups, those of a group with the
    same block lists: all full attention layers are one, sliding ones one or more."""

    def __init__(self):
        self.layers, self.steps = {}, {}  # by kind; by group
        self.lengths = None  # of the step to run, by _watch_lengths: (query, sequence) tokens

    def layer(self, query, key, page_size, **kind):
        kind |= dict(num_qo_heads=query.shape[1], num_kv_heads=key.shape[1], head_dim=query.shape[3],
                     page_size=page_size, dtype=query.dtype)
        made = tuple(kind.values())
        if made not in self.layers:
            self.layers[made] = _context(query.device).prepare(**kind)
        return self.layers[made]

    def plan(self, layer, num_seqs, num_tokens, max_query, max_keys, most_before):
        """A plan of the scheduled lengths, or for a graph, which is replayed for others, of bounds.
        most_before: keys that a query sees in front of itself."""
        if self.lengths is None or _capturing():
            return layer.plan_bounds(num_seqs=num_seqs, num_tokens=num_tokens,
                                     max_query_len=max_query, max_seq_len=max_keys)
        return self.plan_lengths(layer, num_seqs, most_before)

    def plan_lengths(self, layer, num_seqs, most_before):
        start, keys = [0], []
        for query, sequence in self.lengths:
            start.append(start[-1] + query)
            keys.append(query + min(sequence - query, most_before))
        padding = num_seqs - len(keys)  # sequences without tokens
        return layer.plan(start + [start[-1]] * padding, keys + [0] * padding)

    def begins(self, lengths):
        """A step of these lengths is to run; None: one that Transformers made up for warm-up."""
        self.lengths = lengths
        if lengths is not None and capture.active is not None:
            for now in self.steps.values():  # a graph that is replayed plans nothing
                if now.most_before == ALL:
                    self.plan_lengths(now.layer, len(lengths), ALL)


def _capturing():
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _paged(module, query, key, value, attention_mask=None, scaling=None, softcap=None,
           sliding_window=None, s_aux=None, **step):
    """The attention interface of Transformers 5.17 under continuous batching. query [1, heads, tokens,
    head_dim], key and value alike with KV heads -> [1, tokens, heads, head_dim]."""
    cache = step.get("cache")
    if cache is None:
        raise Error(f"paged|{PLAIN} and paged|{FLASH} are for generate_batch; generate takes {FLASH}")
    if not getattr(module, "is_causal", True):
        raise Error(f"layer {module.layer_idx} is not causal: {FLASH} is for causal layers")
    group, index = cache.layer_index_to_group_indices[module.layer_idx]
    window = cache.sliding_windows[module.layer_idx]  # 1: none
    kind = dict(sm_scale=scaling, logits_soft_cap=softcap or 0.0, has_sinks=s_aux is not None,
                sinks_dtype=None if s_aux is None else s_aux.dtype)
    now = _of(cache).steps.get(group)
    if index == 0 or now.kind != kind:  # a group's first layer begins a step
        one = step["max_seqlen_q"] == 1
        make = _full_step if window == 1 else _ring_step if one else _rows_step
        now = _of(cache).steps[group] = make(cache, group, window, query, key, step, kind)
        now.kind = kind
    layer, lengths = now.layer, (now.table, now.query_start, now.seq_lens)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    caches = cache.key_cache[index], cache.value_cache[index]
    pages = [x.view(-1, layer.shape.page_size, *x.shape[1:]) for x in caches]
    seen = pages
    if now.rows is not None:
        read = step["read_index"][group]
        seen = [_gathered(x, new, now, read) for x, new in zip(caches, (k, v))]
    layer.write_kv(now.plan, k, v, *pages, now.slots, *(lengths if now.slots is None else ()))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    layer.run(now.plan, q, *seen, *lengths, out=out, sinks=s_aux)
    return out[None], None


def _of(cache):
    if not hasattr(cache, "attune"):
        cache.attune = _Attention()
    return cache.attune


def _lengths(now, step, kind):
    """Sets the tensors of lengths; returns starts of the keys of each sequence, and the most keys."""
    keys, longest = step["cu_seq_lens_k"], step["max_seqlen_k"]
    if isinstance(keys, dict):
        keys, longest = keys[kind], longest[kind]
    now.query_start, now.seq_lens = step["cu_seq_lens_q"], keys[1:] - keys[:-1]
    return keys, max(longest, 1)


def _every(page, keys, longest):
    """[num_seqs, pages]: which key of all begins each page of each sequence."""
    return keys[:-1, None] + torch.arange(0, longest, page, device=keys.device)


def _full_step(cache, group, window, query, key, step, kind):
    """Of full attention layers: whole blocks in place."""
    now, block = _Step(), cache.block_size
    now.layer, now.rows = _of(cache).layer(query, key, block, **kind), None
    keys, longest = _lengths(now, step, "full_attention")
    if step["block_table"] is not None:  # decodes; -1 where there is no block
        now.table = step["block_table"][group]
        longest, now.slots = now.table.shape[1] * block, None
    else:
        now.slots, read = step["write_index"][group], step["read_index"][group]
        if read.numel() == 0:  # all keys are new
            read = now.slots
        now.table = (read[_every(block, keys, longest).clamp_(max=read.numel() - 1)] // block).int()
    now.most_before = ALL
    now.plan = _of(cache).plan(now.layer, len(keys) - 1, query.shape[2], step["max_seqlen_q"],
                               longest, ALL)
    return now


def _ring_step(cache, group, window, query, key, step, kind):
    """Of sliding layers in a step of decodes. Their blocks are a ring of one window: a new token takes
    the place of the one that leaves the window, and a single query sees all keys in any order."""
    now = _Step()
    now.layer, now.rows = _of(cache).layer(query, key, 1, **kind), None
    keys, longest = _lengths(now, step, "sliding_attention")
    now.slots, read = step["write_index"][group], step["read_index"][group]
    now.table = now.slots[:, None].int()
    if read.numel():
        table = read[_every(1, keys, longest).clamp_(max=read.numel() - 1)].int()
        now.table = torch.where(table == cache.sentinel_index, now.table, table)
    now.most_before = window - 1
    now.plan = _of(cache).plan(now.layer, len(keys) - 1, query.shape[2], 1, longest, window - 1)
    return now


def _rows_step(cache, group, window, query, key, step, kind):
    """Of sliding layers in other steps: new tokens overwrite what older ones of the same step still
    see, so the keys are gathered into rows first, a sequence's new ones behind those of its ring."""
    now = _Step()
    now.layer = _of(cache).layer(query, key, cache.block_size, window_left=window - 1, **kind)
    keys, longest = _lengths(now, step, "sliding_attention")
    now.slots, start = step["write_index"][group], now.query_start
    tokens = torch.arange(query.shape[2], device=keys.device)  # padding goes behind all rows
    seqs = len(start) - 1
    of = torch.searchsorted(start[1:], tokens, right=True).clamp_(max=seqs - 1)
    now.rows = tokens + (keys - start)[1:][of]
    now.most_before = window - 1
    now.plan = _of(cache).plan(now.layer, seqs, len(tokens), step["max_seqlen_q"], longest,
                               window - 1)
    pages = -(-longest // cache.block_size)
    now.table = torch.empty(seqs, pages, dtype=torch.int32, device=keys.device)
    now.layer.page_table(now.plan, now.table, keys)
    return now


def _gathered(cache, new, now, read):
    """K or V of a sliding layer as rows [tokens, heads, head_dim], without pages."""
    if read.numel() == 0:  # all keys are new
        return new
    rows = torch.index_select(cache, 0, read)
    return rows.index_copy_(0, now.rows, new)


def _watch_lengths(ios):
    """Keeps each step's lengths, which only the host knows, for its plan."""
    prepare = ios.prepare_batch_tensors

    @functools.wraps(prepare)
    def watched(self, requests_in_batch, *args, **kwargs):
        prepare(self, requests_in_batch, *args, **kwargs)
        made_up = requests_in_batch[0].state.request_id.startswith("__warmup_")
        _of(self.cache).begins(None if made_up else [
            (r.query_length, r.state.position_offset) for r in requests_in_batch])

    ios.prepare_batch_tensors = watched


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


@functools.cache  # once a process
def register():
    """Makes the names known to Transformers (5.17 and 5.24 were tried). The model is then loaded with
    attn_implementation="flash_attune_3", or set_attn_implementation names it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.generation.continuous_batching import input_outputs
    from transformers.integrations import hub_kernels
    from transformers.integrations.flash_attention import flash_attention_forward
    from transformers.masking_utils import flash_attention_mask

    paged = torch.compiler.disable(_paged)
    for name in (PLAIN, FLASH):
        AttentionInterface.register(f"paged|{name}", paged)
        AttentionInterface.register(name, flash_attention_forward)
        AttentionMaskInterface.register(name, flash_attention_mask)
    _know_functions(hub_kernels)
    _watch_lengths(input_outputs.ContinuousBatchingIOs)
