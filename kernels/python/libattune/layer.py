# SPDX-License-Identifier: Apache-2.0
"""Layer: the kernels of one shape, and what runs on them."""

from functools import partial

from . import _arrays
from ._arrays import INT32, INT64, NAMES, Lengths, view
from ._library import C, Error, check, ffi, whole
from ._tensors import Tensors, row_stride
from .capture import capture
from .plan import Plan

BATCH, BATCH_SIZE = ffi.typeof("attune_batch *"), ffi.sizeof("attune_batch")


class Layer:
    """What Context.prepare gives. Layers of a model that have the same shape share one. Several
    threads may plan and run on it at a time."""

    def __init__(self, context, shape):
        self.context, self.shape = context, shape
        made = ffi.new("attune_op **")
        check(C.attune_prepare(context.handle, shape, made))
        self.op = made[0]
        context.opened.owned_by(self, partial(C.attune_release, self.op))
        self.most_workspace = 0
        self.torch = None  # torch's operators, where torch is imported

    def __repr__(self):
        s = self.shape
        return (
            f"<Layer of {s.num_query_heads} query and {s.num_kv_heads} KV heads of {s.head_size}, "
            f"pages of {s.page_size}, {NAMES[s.dtype]}, cache of {NAMES[s.kv_dtype]}>"
        )

    def __copy__(self):
        """A copy is the layer itself, whose kernels are released once."""
        return self

    def __deepcopy__(self, memo):
        return self

    def max_workspace(self, max_num_seqs: int, max_num_tokens: int) -> int:
        """Bytes of workspace that are enough for all batches within these sizes."""
        whole(max_num_seqs=max_num_seqs, max_num_tokens=max_num_tokens)
        n = ffi.new("size_t *")
        check(C.attune_max_workspace(self.op, max_num_seqs, max_num_tokens, n))
        return n[0]

    def plan(self, query_start_loc_cpu, seq_lens_cpu) -> Plan:
        """The plan of a step, from lengths in host memory: lists, or numpy arrays or CPU tensors of
        int32 or int64.

        query_start_loc_cpu  [num_seqs + 1]  the running sum of query lengths, from 0
        seq_lens_cpu         [num_seqs]      tokens in the cache, those of this step included

        It is right for all lengths at or below these, so they may be upper bounds."""
        batch, _keep = self._batch(query_start_loc_cpu, seq_lens_cpu)
        plan = Plan(self)
        check(C.attune_plan_batch(self.op, batch, plan.c))
        if capture.active is not None:
            capture.active.planned(self.shape, batch)
        return self._for_torch(plan)

    def plan_bounds(
        self, num_seqs: int, num_tokens: int, max_query_len: int, max_seq_len: int
    ) -> Plan:
        """A plan from maxima, for lengths that only the device knows. num_seqs is exact: a step
        with fewer sequences gives the others query and sequence length 0."""
        whole(
            num_seqs=num_seqs,
            num_tokens=num_tokens,
            max_query_len=max_query_len,
            max_seq_len=max_seq_len,
        )
        plan = Plan(self)
        check(
            C.attune_plan_bounds(self.op, num_seqs, num_tokens, max_query_len, max_seq_len, plan.c)
        )
        return self._for_torch(plan)

    def run(
        self,
        plan: Plan,
        q,
        k_cache,
        v_cache,
        block_table,
        query_start_loc,
        seq_lens,
        out=None,
        lse=None,
        k_scale=None,
        v_scale=None,
        sinks=None,
        alibi_slopes=None,
        k_new=None,
        v_new=None,
    ):
        """Attention of one layer's step; returns `out`. All arrays are on the context's device, and
        each may be a strided view whose last dimension is contiguous. Tensors go through the
        operator torch.ops.attune.paged_attention, on torch's current stream: torch.compile takes it
        as one node, and a CUDA graph may be captured. An `out` that is not given is contiguous.

        q, out           [num_tokens or more, num_qo_heads, head_dim]; tensors also
                         [batch, tokens of each, num_qo_heads, head_dim]
        k_cache, v_cache [pages, page_size, num_kv_heads, head_dim]   libattune.kv_views makes these
        block_table      [num_seqs or more, pages of a sequence]      int32
        query_start_loc  [num_seqs + 1 or more]                       int32
        seq_lens         [num_seqs or more]                           int32
        lse              [num_tokens or more, num_qo_heads]           float32, with has_lse
        k_scale, v_scale [] or [1], [num_kv_heads], [num_seqs or more, num_kv_heads or 1]   float32
        sinks, alibi_slopes [num_qo_heads]               sinks_dtype, float32
        k_new, v_new     [num_tokens or more, num_kv_heads, head_dim] with has_new_kv"""
        self._check_own(plan)
        if plan.tensor is None and _arrays.is_tensor(q):
            self._for_torch(plan, asked=True)
        if plan.tensor is None or not isinstance(q, self.torch.Tensor):
            if out is None:
                out = _arrays.empty_like(q, "q")
            t = Tensors(self, plan.c.num_tokens, plan.c.num_seqs)
            t.queries(q, out)
            t.caches(k_cache, v_cache)
            t.lengths(plan.c, block_table, query_start_loc, seq_lens)
            t.optional(lse, k_scale, v_scale, sinks, alibi_slopes, k_new, v_new)
            workspace, size = self.context.workspace(plan.c.workspace, self.most_workspace)
            check(C.attune_run(self.op, plan.c, t.c, workspace, size, ffi.NULL))
            return out
        attend = self.torch
        operands = q, k_cache, v_cache, block_table, query_start_loc, seq_lens, plan.tensor
        try:
            if lse is k_scale is v_scale is sinks is alibi_slopes is k_new is v_new is None:
                if out is None:
                    return attend.plain(*operands)
                attend.plain_out(out, *operands)
                return out
            more = self.torch.given(lse, k_scale, v_scale, sinks, alibi_slopes, k_new, v_new)
            if out is None:
                return attend.new(*operands, *more)
            attend.default(out, *operands, *more)
        except RuntimeError as e:
            raise self.torch.refused(e) from None
        return out

    def write_kv(
        self,
        plan: Plan,
        k_new,
        v_new,
        k_cache,
        v_cache,
        slots=None,
        block_table=None,
        query_start_loc=None,
        seq_lens=None,
        k_scale=None,
        v_scale=None,
    ):
        """Writes K and V of new tokens into the cache, by one launch.

        k_new, v_new  [num_tokens or more, num_kv_heads, head_dim]   of q's dtype; an E4M3 cache
                      gets them by its scales; tensors also [batch, tokens of each, ...]
        slots         [num_tokens] int64: page * page_size + slot in it, vLLM's slot_mapping; one
                      below 0 is not written. None: token i of a query goes to position
                      seq_len - query_len + i, by block_table, query_start_loc and seq_lens
        The others are as in run."""
        self._check_own(plan)
        if slots is not None and len(slots) == 0:
            return None
        if plan.tensor is None and _arrays.is_tensor(k_new):
            self._for_torch(plan, asked=True)
        if plan.tensor is not None and isinstance(k_new, self.torch.Tensor):
            return self.torch.write_kv(
                plan.tensor,
                k_new,
                v_new,
                k_cache,
                v_cache,
                slots,
                block_table,
                query_start_loc,
                seq_lens,
                k_scale,
                v_scale,
            )
        tokens, seqs, where = len(k_new), plan.c.num_seqs, ffi.NULL
        if slots is not None:
            v = view(slots, "slots", self.context.device, INT64, (None,))
            tokens, seqs, where = v.shape[0], 0, ffi.cast("int64_t *", v.ptr)
        t = Tensors(self, tokens, seqs)
        t.new_keys(k_new, v_new)
        t.caches(k_cache, v_cache, writes=True)
        t.scales(k_scale, v_scale)
        if slots is None:
            t.lengths(plan.c, block_table, query_start_loc, seq_lens, writes=True)
        elif slots.max() >= t.slots:
            raise Error(f"slots goes up to {slots.max()}, and the cache has {t.slots}")
        check(C.attune_write_kv(self.op, seqs, tokens, t.c, where, ffi.NULL))

    def page_table(self, plan: Plan, block_table, indptr, indices=None):
        """Writes the block_table [num_seqs or more, pages] int32 of a step from lists of pages, by
        one launch for all layers.

        indptr   [num_seqs + 1] int32: sequence i has the pages indices[indptr[i]:indptr[i + 1]]
        indices  int32 or int64; None: K and V are ragged, [tokens, num_kv_heads, head_dim], and
                 indptr is their cu_seqlens_k. run then takes them as k_cache and v_cache"""
        self._check_own(plan)
        if indices is not None and len(indices) == 0:  # of no pages
            return None
        if plan.tensor is None and _arrays.is_tensor(block_table):
            self._for_torch(plan, asked=True)
        if plan.tensor is not None and isinstance(block_table, self.torch.Tensor):
            return self.torch.page_table(plan.tensor, block_table, indptr, indices)
        device, seqs = self.context.device, plan.c.num_seqs
        table = view(block_table, "block_table", device, INT32, (None, None), seqs, writes=True)
        starts = view(indptr, "indptr", device, INT32, (None,), seqs + 1)
        lists = ffi.new("attune_page_lists *", {"size": ffi.sizeof("attune_page_lists")})
        lists.indptr = ffi.cast("int32_t *", starts.ptr)
        if indices is not None:
            wide = getattr(indices, "dtype", None) == INT64
            of = view(indices, "indices", device, INT64 if wide else INT32, (None,))
            lists.indices, lists.index_bytes = of.ptr, 8 if wide else 4
            if indptr[: seqs + 1].max() > of.shape[0]:
                raise Error(f"indptr goes beyond indices, which has {of.shape[0]} entries")
        page = 1 if indices is not None else self.shape.page_size
        counts = indptr[1 : seqs + 1] - indptr[:seqs]
        if seqs and -(-int(counts.max()) // page) > table.shape[1]:
            raise Error(
                f"a sequence has {-(-int(counts.max()) // page)} pages, and a row of block_table "
                f"{table.shape[1]} entries"
            )
        check(
            C.attune_page_table(
                self.op, seqs, lists, ffi.cast("int32_t *", table.ptr), row_stride(table), ffi.NULL
            )
        )

    def _check_own(self, plan):
        if plan.layer is not self:
            raise Error("plan: it was made by another layer; each plan runs on its own")

    def _for_torch(self, plan, asked=False):
        """Makes what a plan is for torch's operators, where torch is imported: when it is planned,
        so that a compiled function finds it made. Returns the plan."""
        if plan.tensor is not None or (_arrays.torch_or_none() is None and not asked):
            return plan
        try:
            from . import _torch
        except Error:  # numpy works beside a torch that is too old
            if asked:
                raise
            return plan
        if self.torch is None:  # first, for other threads that find plan.tensor made
            self.torch = _torch.Operators(self.context.device)
        plan.tensor = _torch.plan_tensor(plan)
        return plan

    def settle(
        self,
        query_start_loc_cpu,
        seq_lens_cpu,
        kv_caches,
        q=None,
        out=None,
        lse=None,
        k_scale=None,
        v_scale=None,
        sinks=None,
        alibi_slopes=None,
        k_new=None,
        v_new=None,
        most_ms: float = 0.0,
        eager: bool = False,
    ) -> float:
        """Times the few plans that are close for this batch over the layers' caches, in warm-up.
        Returns the milliseconds that it took. Context.settled_commit() makes it count.

        kv_caches   [(k_cache, v_cache), ...], one for each layer of the model; not zeros
        most_ms     gives up after it; 0: 20 for decodes, else 200
        eager       timed as single calls, not as graph replays

        The other arrays are as in run; what is not given is made up for the call."""
        batch, _keep = self._batch(query_start_loc_cpu, seq_lens_cpu)
        tokens, seqs = batch.query_start[batch.num_seqs], batch.num_seqs
        made = self._made_up(tokens)
        new = made(self.shape.num_kv_heads, k_new), made(self.shape.num_kv_heads, v_new)
        if not self.shape.has_new_kv:
            new = None, None
        q = made(self.shape.num_query_heads, q)
        out = made(self.shape.num_query_heads, out)
        heads = [self.shape.num_query_heads]
        if sinks is None and self.shape.has_sinks:
            sinks = self.context.empty(heads, _arrays.NAMES[self.shape.sinks_dtype], 0)
        if alibi_slopes is None and self.shape.has_alibi:
            alibi_slopes = self.context.empty(heads, "float32", 0)
        if lse is None and self.shape.has_lse:
            lse = self.context.empty([tokens] + heads, "float32")
        layers = ffi.new("attune_tensors[]", len(kv_caches))
        for t, (k_cache, v_cache) in zip(layers, kv_caches):
            filled = Tensors(self, tokens, seqs, ffi.addressof(t))
            filled.queries(q, out)
            filled.caches(k_cache, v_cache)
            filled.optional(lse, k_scale, v_scale, sinks, alibi_slopes, *new)
        how = ffi.new(
            "attune_settle_how *",
            {
                "size": ffi.sizeof("attune_settle_how"),
                "num_layers": len(kv_caches),
                "eager": eager,
                "num_pages": min((len(c) for kv in kv_caches for c in kv), default=0),
                "most_ms": most_ms,
            },
        )
        need, ms = ffi.new("size_t *"), ffi.new("double *")
        check(C.attune_settle_sizes(self.op, batch, how, need))
        workspace = self.context.empty([need[0]], "uint8")
        check(
            C.attune_settle(
                self.op,
                batch,
                layers,
                how,
                _arrays.View(workspace, "workspace").ptr,
                need[0],
                ffi.cast("void *", self.context.stream()),
                ms,
            )
        )
        return ms[0]

    def _batch(self, query_start, seq_lens):
        starts = Lengths(query_start, "query_start_loc_cpu")
        lens = Lengths(seq_lens, "seq_lens_cpu")
        if starts.count != lens.count + 1:
            raise Error(
                f"query_start_loc_cpu has {starts.count} entries for {lens.count} sequences: "
                "it must have one more than seq_lens_cpu"
            )
        batch = ffi.new(BATCH, (BATCH_SIZE, lens.count, starts.ptr, lens.ptr))
        return batch, (starts, lens)

    def _made_up(self, tokens):
        name = _arrays.NAMES[self.shape.dtype]
        return lambda heads, given: (
            given
            if given is not None
            else self.context.random([tokens, heads, self.shape.head_size], name)
        )
