# SPDX-License-Identifier: Apache-2.0
"""The classes that vLLM asks of an attention backend (vllm/v1/attention/backend.py of 0.33):

    AttuneBackend          what can run; vLLM asks before it builds a model
    AttuneMetadataBuilder  one for layers that share a cache group: prepares kernels, plans steps
    AttuneImpl             one for each layer: attention and its cache's writer
    AttuneDecodeBackend    decodes by these, all other batches by the backend that vLLM would have

A step is planned once for all layers of a shape, from the upper bounds that vLLM has on the host.
Full CUDA graphs of uniform batches (decodes, drafts) replay a plan of maxima, whatever lengths the
device has."""

import os
from dataclasses import dataclass
from typing import ClassVar

import torch
from vllm.config import get_layers_from_vllm_config
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionImpl,
    AttentionMetadataBuilder,
    AttentionType,
    CommonAttentionMetadata,
    MultipleOf,
)

from . import Error
from .context import shared_layer

HEAD_SIZES = [16, 32, 64, 80, 96, 128, 192, 256]
FP8 = ("fp8", "fp8_e4m3")
FP8_PREFILL_HEADS = (64, 96, 128, 192, 256)  # on sm_90


class AttuneBackend(AttentionBackend):
    supported_dtypes: ClassVar = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes: ClassVar = ["auto", "float16", "bfloat16", *FP8]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name():
        return "ATTUNE"

    @staticmethod
    def get_impl_cls():
        return AttuneImpl

    @staticmethod
    def get_builder_cls():
        return AttuneMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        return [MultipleOf(16)]

    @classmethod
    def get_supported_head_sizes(cls):
        return HEAD_SIZES

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def supports_batch_invariance(cls):
        return os.environ.get("ATTUNE_INVARIANT") == "1"

    @classmethod
    def supports_device_cpu_query_lens_mismatch(cls):
        return False  # plans hold for query lengths at or below the host's

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major >= 8

    @classmethod
    def supports_combination(
        cls,
        head_size,
        dtype,
        kv_cache_dtype,
        block_size,
        use_mla,
        has_sink,
        use_sparse,
        use_mm_prefix,
        device_capability,
    ):
        names = {"float16": torch.float16, "bfloat16": torch.bfloat16}
        if kv_cache_dtype in names and names[kv_cache_dtype] != dtype:
            return "a 16-bit cache must have the type of the queries"
        if kv_cache_dtype in FP8:
            return cls.fp8_reason(head_size, device_capability)
        return None

    @classmethod
    def fp8_reason(cls, head_size, capability):
        """Why not with a cache of 8 bits; None: it goes."""
        if capability.major == 9 and head_size in FP8_PREFILL_HEADS:
            return None
        return (
            "prefills with an fp8 cache need compute capability 9.0 and heads of "
            f"{', '.join(map(str, FP8_PREFILL_HEADS))}; ATTUNE_DECODE has decodes of it elsewhere"
        )


@dataclass
class AttuneMetadata:
    """A step, for all layers of a group. Tensors are the runner's own, on the device.

    plans   for each shape among the layers, by its Layer"""

    plans: dict
    num_actual_tokens: int
    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor


class AttuneMetadataBuilder(AttentionMetadataBuilder[AttuneMetadata]):
    _cudagraph_support: ClassVar = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        impls = [
            impl
            for layer in get_layers_from_vllm_config(
                vllm_config, AttentionLayerBase, layer_names
            ).values()
            for impl in layer.impl.get_impl_variants()
            if isinstance(impl, AttuneImpl)
        ]
        dtype = vllm_config.model_config.dtype
        self.max_model_len = vllm_config.model_config.max_model_len
        self.layers = set()
        for impl in impls:
            impl.prepare(str(device), kv_cache_spec.block_size, dtype)
            self.layers.add(impl.attune)

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        c = common_attn_metadata
        if c.seq_lens_cpu_upper_bound is None:
            return self._with_bounds(c, c.max_seq_len)
        starts, lens = c.query_start_loc_cpu, c.seq_lens_cpu_upper_bound
        return self._metadata(c, lambda layer: layer.plan(starts, lens))

    def build_for_cudagraph_capture(self, common_attn_metadata):
        return self._with_bounds(common_attn_metadata, self.max_model_len)

    def _with_bounds(self, c, max_seq_len):
        return self._metadata(
            c,
            lambda layer: layer.plan_bounds(
                c.num_reqs, c.num_actual_tokens, c.max_query_len, max_seq_len
            ),
        )

    def _metadata(self, c: CommonAttentionMetadata, plan):
        if c.causal is not True:
            raise NotImplementedError("ATTUNE: attention that is not causal")
        return AttuneMetadata(
            plans={layer: plan(layer) for layer in self.layers},
            num_actual_tokens=c.num_actual_tokens,
            query_start_loc=c.query_start_loc,
            seq_lens=c.seq_lens,
            block_table=c.block_table_tensor,
            slot_mapping=c.slot_mapping,
        )


class AttuneImpl(AttentionImpl[AttuneMetadata]):
    def __init__(
        self,
        num_heads,
        head_size,
        scale,
        num_kv_heads=None,
        alibi_slopes=None,
        sliding_window=None,
        kv_cache_dtype="auto",
        logits_soft_cap=None,
        attn_type=AttentionType.DECODER,
        kv_sharing_target_layer_name=None,
        sinks=None,
    ):
        if attn_type != AttentionType.DECODER:
            raise NotImplementedError(f"ATTUNE: attention of type {attn_type}")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.kv_cache_dtype, self.sinks = kv_cache_dtype, sinks
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.window, self.softcap = sliding_window or 0, float(logits_soft_cap or 0)
        self.slopes = alibi_slopes
        self.is_fp8 = kv_cache_dtype in FP8
        self.attune = self.writes = None  # the Layer, and a plan of it to write by: of prepare()

    def prepare(self, device, page_size, dtype):
        """Loads the kernels. Layers of one shape get one Layer, so that a step plans it once."""
        self.attune = shared_layer(
            device,
            num_qo_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_size,
            page_size=page_size,
            dtype=dtype,
            kv_dtype="float8_e4m3fn" if self.is_fp8 else dtype,
            window_left=self.window - 1,
            logits_soft_cap=self.softcap,
            sm_scale=self.scale,
            has_sinks=self.sinks is not None,
            sinks_dtype=None if self.sinks is None else self.sinks.dtype,
            has_alibi=self.slopes is not None,
        )
        self.writes = self.attune.plan_bounds(1, 1, 1, 1)
        if self.slopes is not None:
            self.slopes = torch.as_tensor(self.slopes, dtype=torch.float32, device=device)

    def views(self, kv_cache):
        if self.is_fp8 and kv_cache.dtype != torch.float8_e4m3fn:
            kv_cache = kv_cache.view(torch.float8_e4m3fn)
        return kv_cache.transpose(1, 2).chunk(2, -1)  # kv_views, in half of its time

    def forward(
        self,
        layer,
        query,
        key,
        value,
        kv_cache,
        attn_metadata,
        output,
        output_scale=None,
        output_block_scale=None,
    ):
        """query, output [tokens or more, num_heads, head_size]; kv_cache [blocks, num_kv_heads,
        block_size, 2 * head_size], in any order of memory. K and V of the step are in it."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("ATTUNE: output that is quantized")
        m = attn_metadata
        if m is None:  # a run that only measures memory
            return output.fill_(0)
        k_cache, v_cache = self.views(kv_cache)
        self.attune.run(
            m.plans[self.attune],
            query,
            k_cache,
            v_cache,
            m.block_table,
            m.query_start_loc,
            m.seq_lens,
            out=output,
            k_scale=layer._k_scale if self.is_fp8 else None,
            v_scale=layer._v_scale if self.is_fp8 else None,
            sinks=self.sinks,
            alibi_slopes=self.slopes,
        )
        return output

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        """Writes key and value [tokens or more, num_kv_heads, head_size] to slot_mapping
        [tokens]."""
        k_cache, v_cache = self.views(kv_cache)
        self.attune.write_kv(
            self.writes,
            key,
            value,
            k_cache,
            v_cache,
            slots=slot_mapping,
            k_scale=layer._k_scale if self.is_fp8 else None,
            v_scale=layer._v_scale if self.is_fp8 else None,
        )


# ---- decodes alone ----------------------------------------------------------------------------
def decode_routing():
    from vllm.v1.attention.backend import max_decode_query_len

    class DecodeRouting:
        """Variant 1, libattune, for batches whose queries are decodes, drafts included."""

        capture_variant: ClassVar[int] = 1

        def __init__(self, layer_names, vllm_config):
            self.longest = max_decode_query_len(vllm_config)

        def select(self, metadata):
            return int(metadata.max_query_len <= self.longest and metadata.causal is True)

        @staticmethod
        def get_cudagraph_support(vllm_config, kv_cache_spec):
            return AttentionCGSupport.UNIFORM_BATCH

        @staticmethod
        def variant_uses_mm_prefix(variant):
            return variant == 0

    return DecodeRouting


class _Decodes(AttuneBackend):
    """The part of ATTUNE_DECODE that never sees a prefill."""

    @staticmethod
    def get_name():
        return "ATTUNE_DECODE"

    @classmethod
    def fp8_reason(cls, head_size, capability):
        return None


def other_backend():
    """What runs all other batches: ATTUNE_DECODE_WITH, else FLASH_ATTN."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    name = os.environ.get("ATTUNE_DECODE_WITH", "FLASH_ATTN")
    if name not in AttentionBackendEnum.__members__ or name.startswith("ATTUNE"):
        raise Error(f"ATTUNE_DECODE_WITH={name}: it is the name of another backend of vLLM")
    return AttentionBackendEnum[name].get_class()


def __getattr__(name):
    if name != "AttuneDecodeBackend":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from vllm.v1.attention.backends.composite import create_composite_attention_backend

    other = other_backend()
    made = create_composite_attention_backend(
        other,
        _Decodes,
        name=name,
        backend_name="ATTUNE_DECODE",
        module=__name__,
        routing_policy=decode_routing(),
    )
    made.supports_sink = other.supports_sink  # a composite says that it has none
    globals()[name] = made
    return made
