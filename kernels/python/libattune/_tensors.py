# SPDX-License-Identifier: Apache-2.0
"""Writes arrays into an attune_tensors, each checked, with one line for what is wrong."""

from . import _arrays
from ._arrays import INT32, view
from ._library import C, Error, ffi, whole

FLOATS, INT32S = map(ffi.typeof, ("float *", "int32_t *"))
TENSORS, SIZE = ffi.typeof("attune_tensors *"), ffi.sizeof("attune_tensors")


def row_stride(table):
    """Of a view of a block table. That of a lone row says nothing."""
    row = table.strides[0] if table.shape[0] > 1 else table.shape[1]
    whole(the_stride_of_a_row_of_block_table=row)
    return row


class Tensors:
    """An attune_tensors of a layer's arrays, for a batch of `tokens` query tokens and `seqs`
    sequences. c: a struct to fill in, else one of its own."""

    def __init__(self, layer, tokens, seqs, c=None):
        self.shape, self.device = layer.shape, layer.context.device
        self.tokens, self.seqs = tokens, seqs
        self.c = ffi.new(TENSORS) if c is None else c
        self.c.size = SIZE

    def queries(self, q, out):
        self._rows("q", q, self.shape.num_query_heads)
        self._rows("out", out, self.shape.num_query_heads, writes=True)

    def new_keys(self, k_new, v_new):
        self._rows("k_new", k_new, self.shape.num_kv_heads)
        self._rows("v_new", v_new, self.shape.num_kv_heads)

    def caches(self, k_cache, v_cache, writes=False):
        s, c = self.shape, self.c
        if s.kv_layout == C.ATTUNE_KV_CLASSIC:
            x = 16 // _arrays.SIZES[s.kv_dtype]
            k = (None, s.num_kv_heads, s.head_size // x, s.page_size, x)
            v = (None, s.num_kv_heads, s.head_size, s.page_size)
        else:
            k = v = (None, s.page_size, s.num_kv_heads, s.head_size)
        ragged = k is v and all(len(getattr(x, "shape", ())) == 3 for x in (k_cache, v_cache))
        for name, cache, shape in (("k", k_cache, k), ("v", v_cache, v)):
            shape = (None, *shape[2:]) if ragged else shape
            of = view(cache, f"{name}_cache", self.device, s.kv_dtype, shape, writes=writes)
            setattr(c, f"{name}_cache", of.ptr)
            slots = of.shape[0] * (1 if ragged else s.page_size)
            self.slots = slots if name == "k" else min(self.slots, slots)
            self.entry_slots = 1 if ragged else s.page_size
            # Ragged K and V: pages begin at any token.
            strides = of.strides[:1] + of.strides if ragged else of.strides
            setattr(c, f"{name}_page_stride", strides[0])
            if k is v:
                setattr(c, f"{name}_slot_stride", strides[1])
            setattr(c, f"{name}_head_stride", strides[2 if k is v else 1])

    def lengths(self, plan, block_table, query_start, seq_lens, writes=False):
        """Behind caches(). writes: the pages of new tokens alone are of interest."""
        v = view(block_table, "block_table", self.device, INT32, (None, None), self.seqs)
        if v.shape[1] < plan.table_pages < 2**31 - 1:
            raise Error(
                f"block_table has rows of {v.shape[1]} pages, the plan's last sequence has "
                f"{plan.table_pages}"
            )
        self.c.block_table, self.c.block_table_stride = ffi.cast(INT32S, v.ptr), row_stride(v)
        self._list("query_start", query_start, "query_start_loc", self.seqs + 1)
        self._list("seq_lens", seq_lens, "seq_lens", self.seqs)
        if self.seqs and self.tokens and self.device == "cpu":
            table, starts = block_table[: self.seqs], query_start[: self.seqs + 1]
            self._on_host(table, starts, seq_lens[: self.seqs], writes)

    def _on_host(self, table, starts, lens, writes):
        """On the CPU the arrays are looked at, which a GPU's kernels trust."""
        pages = table.shape[1]
        starts, lens = starts.tolist(), lens.tolist()  # numpy is slower for few sequences
        new = [end - start for start, end in zip(starts, starts[1:])]
        rows, of = (self.rows, "given") if writes else (self.tokens, "planned")
        if starts[0] < 0 or min(new) < 0 or starts[-1] > rows:
            raise Error(
                f"query_start_loc must rise from 0 to {rows} at most, the tokens that are {of}"
            )
        room = pages * self.shape.page_size
        most = max([n for n, queries in zip(lens, new) if queries], default=0)
        if most > room:
            raise Error(
                f"seq_lens has {most} tokens, and a row of block_table {pages} pages for {room}"
            )
        if most > 0 and not self._in_cache(table[:, : -(-most // self.shape.page_size)]):
            for i, (end, queries) in enumerate(zip(lens, new)):  # some entries may be of no use
                if queries and end > 0:
                    seen = queries + self.shape.window - 1 if self.shape.window else end
                    self._row_on_host(i, table[i], end, queries if writes else seen)

    def _in_cache(self, entries):
        """Whether whole pages are there."""
        last = self.slots - self.shape.page_size
        return entries.min() >= 0 and int(entries.max()) * self.entry_slots <= last

    def _row_on_host(self, i, row, end, seen):
        """Of sequence i the last `seen` of its keys."""
        page = self.shape.page_size
        first, last = max(end - seen, 0) // page, -(-end // page)
        if self._in_cache(row[first:last]):
            return
        for p, at in enumerate(row[first:last].tolist(), first):
            if at < 0 or at * self.entry_slots + min(end - p * page, page) > self.slots:
                raise Error(f"block_table[{i}][{p}] is {at}, which is not in the cache")

    def optional(self, lse, k_scale, v_scale, sinks, alibi_slopes, k_new, v_new):
        s, heads = self.shape, self.shape.num_query_heads
        for name, x, flag in (
            ("lse", lse, "has_lse"),
            ("sinks", sinks, "has_sinks"),
            ("alibi_slopes", alibi_slopes, "has_alibi"),
            ("k_new", k_new, "has_new_kv"),
            ("v_new", v_new, "has_new_kv"),
        ):
            if (x is not None) != bool(getattr(s, flag)):
                raise Error(
                    f"{name} is {'given' if x is not None else 'missing'}: the layer was prepared "
                    f"{'without' if x is not None else 'with'} {flag}"
                )
        if lse is not None:
            v = view(lse, "lse", self.device, C.ATTUNE_F32, (None, heads), self.tokens, False, True)
            self.c.lse = ffi.cast(FLOATS, v.ptr)
            self.c.lse_token_stride, self.c.lse_head_stride = v.strides
        if sinks is not None:
            v = view(sinks, "sinks", self.device, s.sinks_dtype, (heads,))
            self.c.sinks = v.ptr
        if alibi_slopes is not None:
            v = view(alibi_slopes, "alibi_slopes", self.device, C.ATTUNE_F32, (heads,))
            self.c.alibi_slopes = ffi.cast(FLOATS, v.ptr)
        if k_new is not None:
            self.new_keys(k_new, v_new)
        self.scales(k_scale, v_scale)

    def scales(self, k_scale, v_scale):
        for name, x in (("k_scale", k_scale), ("v_scale", v_scale)):
            if x is None:
                continue
            ptr, by_seq, by_head = self._scale(x, name)
            setattr(self.c, name, ffi.cast(FLOATS, ptr))
            setattr(self.c, f"{name}_seq_stride", by_seq)
            setattr(self.c, f"{name}_head_stride", by_head)

    def _rows(self, name, x, heads, writes=False):
        shape = (None, heads, self.shape.head_size)
        v = view(x, name, self.device, self.shape.dtype, shape, self.tokens, writes=writes)
        self.rows = v.shape[0]
        setattr(self.c, name, v.ptr)
        setattr(self.c, f"{name}_token_stride", v.strides[0])
        setattr(self.c, f"{name}_head_stride", v.strides[1])

    def _list(self, member, x, name, rows):
        v = view(x, name, self.device, INT32, (None,), rows)
        setattr(self.c, member, ffi.cast(INT32S, v.ptr))

    def _scale(self, x, name):
        """(address, stride by sequence, stride by KV head) of a cache's scale."""
        heads, shape = self.shape.num_kv_heads, tuple(getattr(x, "shape", ()))
        if shape == () or shape == (1,):
            return view(x, name, self.device, C.ATTUNE_F32, shape, packed=False).ptr, 0, 0
        if len(shape) == 1:
            v = view(x, name, self.device, C.ATTUNE_F32, (heads,), packed=False)
            return v.ptr, 0, v.strides[0]
        wide = 1 if shape[1:] == (1,) else heads
        v = view(x, name, self.device, C.ATTUNE_F32, (None, wide), self.seqs, packed=False)
        return v.ptr, v.strides[0], v.strides[1] if wide > 1 else 0
