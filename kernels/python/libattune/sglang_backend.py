# SPDX-License-Identifier: Apache-2.0
"""The attention backend that SGLang asks for (sglang/srt/layers/attention/base_attn_backend.py of
0.5.23): plans a step once for all layers of a shape, and attends over SGLang's pools of tokens.

SGLang writes K and V into its pool. A token's slot divided by the page size is its page, so a block
table is every page_size-th column of the request's row of req_to_token. Graphs of decodes replay a
plan of maxima over tables and lengths that are refilled in front of each replay."""

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.mem_cache.memory_pool import KVWriteLoc
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from . import Error
from .context import shared_layer


class Step:
    """What the layers of a step share. Tensors are on the device.

    query_start  [num_seqs + 1]   seq_lens  [num_seqs]
    table        [num_seqs, pages] of each pool: full attention, sliding
    slots        [num_tokens] where the sliding pool gets K and V; None: it is the only pool
    plan         makes a plan for a Layer
    plans        those that were made, by Layer"""

    def __init__(self, query_start, seq_lens, tables, plan):
        self.query_start, self.seq_lens, self.tables = query_start, seq_lens, tables
        self.plan, self.plans, self.slots = plan, {}, None

    def plan_of(self, layer):
        if layer not in self.plans:
            self.plans[layer] = self.plan(layer)
        return self.plans[layer]


class AttuneBackend(AttentionBackend):
    def __init__(self, runner):
        super().__init__()
        if runner.use_mla_backend:
            raise Error("attune: a model with latent attention (MLA) has no kernel here")
        self.token_to_kv_pool = runner.token_to_kv_pool  # SGLang reads both, too
        self.req_to_token_pool = runner.req_to_token_pool
        self.page, self.device = runner.page_size, str(runner.device)
        self.max_context = runner.model_config.context_len
        self.has_two_pools = isinstance(self.token_to_kv_pool, SWAKVPool)
        self.layers = {}  # by layer_id
        self.graphs, self.forward_metadata = {}, None  # graphs: the Step of each number of decodes

    # ---- steps ----------------------------------------------------------------------------------
    def init_forward_metadata(self, forward_batch):
        """An eager step."""
        b, mode = forward_batch, forward_batch.forward_mode
        if mode.is_idle():
            self.forward_metadata = None
            return
        if b.spec_info is not None:
            raise NotImplementedError("attune: speculative decoding in SGLang")
        if mode.is_decode():
            starts = list(range(b.batch_size + 1))
            query_start = torch.arange(b.batch_size + 1, dtype=torch.int32, device=self.device)
        else:
            starts = [0]
            for n in b.extend_seq_lens_cpu:
                starts.append(starts[-1] + n)
            query_start = torch.nn.functional.pad(b.extend_seq_lens.cumsum(0), (1, 0)).int()
        lens = b.seq_lens_cpu.tolist()
        tables = self._tables(b.req_pool_indices, max(lens))
        self.forward_metadata = Step(
            query_start, b.seq_lens.int(), tables, lambda layer: layer.plan(starts, lens)
        )
        self.init_forward_metadata_in_graph(b)

    def init_cuda_graph_state(self, max_bs, max_num_tokens):
        new = dict(dtype=torch.int32, device=self.device)
        wide = -(-self.max_context // self.page)
        self.graph_lens = torch.ones(max_bs, **new)
        self.graph_starts = torch.arange(max_bs + 1, **new)
        self.graph_tables = [
            torch.zeros(max_bs, wide, **new) for _ in range(1 + self.has_two_pools)
        ]

    def get_cuda_graph_seq_len_fill_value(self):
        return 1

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        """In front of a capture or a replay of decodes: what the graph reads is refilled."""
        b, n = forward_batch, forward_batch.batch_size
        if not b.forward_mode.is_decode_or_idle() or b.spec_info is not None:
            raise NotImplementedError("attune: a CUDA graph of other batches than decodes")
        if n not in self.graphs:
            self.graphs[n] = Step(
                self.graph_starts[: n + 1],
                self.graph_lens[:n],
                [t[:n] for t in self.graph_tables],
                lambda layer: layer.plan_bounds(n, n, 1, self.max_context),
            )
        step = self.forward_metadata = self.graphs[n]
        step.seq_lens.copy_(b.seq_lens[:n])
        longest = self.max_context if b.seq_lens_cpu is None else int(b.seq_lens_cpu[:n].max())
        for mine, live in zip(step.tables, self._tables(b.req_pool_indices[:n], longest)):
            mine[:, : live.shape[1]].copy_(live)

    def init_forward_metadata_in_graph(self, forward_batch):
        """Where the sliding pool gets this step's K and V; recorded in a graph."""
        if self.has_two_pools and self.forward_metadata is not None:
            self.forward_metadata.slots = self.token_to_kv_pool.translate_loc_from_full_to_swa(
                forward_batch.out_cache_loc
            )

    def _tables(self, requests, longest):
        """[num_seqs, pages] int32 of each pool."""
        tokens = self.req_to_token_pool.req_to_token[:, : longest : self.page][requests]
        tables = [tokens // self.page]
        if self.has_two_pools:
            swa = self.token_to_kv_pool.translate_loc_from_full_to_swa(tokens)
            tables.append((swa // self.page).clamp(min=0).int())
        return tables

    # ---- layers ---------------------------------------------------------------------------------
    def _layer(self, layer, dtype, kv_dtype, sinks):
        """The Layer of a RadixAttention; those of one shape share it."""
        made = self.layers.get(layer.layer_id)
        if made is not None:
            return made
        if (
            layer.is_cross_attention
            or layer.attn_type != AttentionType.DECODER
            or layer.xai_temperature_len > 0
            or layer.qk_head_dim != layer.v_head_dim
        ):
            raise NotImplementedError(
                f"attune: layer {layer.layer_id} is not causal, or has values of another size "
                "than keys, or a temperature by length"
            )
        made = self.layers[layer.layer_id] = shared_layer(
            self.device,
            num_qo_heads=layer.tp_q_head_num,
            num_kv_heads=layer.tp_k_head_num,
            head_dim=layer.qk_head_dim,
            page_size=self.page,
            dtype=dtype,
            kv_dtype=kv_dtype,
            window_left=layer.sliding_window_size,
            logits_soft_cap=layer.logit_cap or 0.0,
            sm_scale=layer.scaling,
            has_sinks=sinks is not None,
            sinks_dtype=None if sinks is None else sinks.dtype,
        )
        return made

    def _forward(self, q, k, v, layer, forward_batch, save_kv_cache=True, sinks=None, **unknown):
        if unknown:
            raise NotImplementedError(f"attune: {', '.join(unknown)} of a layer")
        step = self.forward_metadata
        if save_kv_cache and k is not None:
            scales = (layer.k_scale, layer.v_scale) if layer.k_scale is not None else ()
            where = KVWriteLoc(forward_batch.out_cache_loc, step.slots)
            self.token_to_kv_pool.set_kv_buffer(layer, where, k, v, *scales)
        k_cache, v_cache = (
            c.view(-1, self.page, *c.shape[1:])
            for c in (
                self.token_to_kv_pool.get_key_buffer(layer.layer_id),
                self.token_to_kv_pool.get_value_buffer(layer.layer_id),
            )
        )
        attune = self._layer(layer, q.dtype, k_cache.dtype, sinks)
        is_fp8 = k_cache.dtype == torch.float8_e4m3fn
        in_sliding = self.has_two_pools and self.token_to_kv_pool.layers_mapping[layer.layer_id][1]
        q = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = attune.run(
            step.plan_of(attune),
            q,
            k_cache,
            v_cache,
            step.tables[in_sliding],
            step.query_start,
            step.seq_lens,
            k_scale=layer.k_scale if is_fp8 else None,
            v_scale=layer.v_scale if is_fp8 else None,
            sinks=sinks,
        )
        return out.view(-1, layer.tp_q_head_num * layer.v_head_dim)

    forward_decode = forward_extend = _forward

    def support_triton(self):
        return not self.device.startswith("cpu")
