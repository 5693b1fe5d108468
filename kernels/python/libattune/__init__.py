# SPDX-License-Identifier: Apache-2.0
"""libattune: paged attention by the kernels that were measured to be fastest.

    ctx = libattune.Context()                       # the GPU, else the CPU
    layer = ctx.prepare(num_qo_heads=32, num_kv_heads=8, head_dim=128, page_size=16,
                        dtype=torch.bfloat16)
    plan = layer.plan(query_start_loc_cpu, seq_lens_cpu)      # once a step
    out = layer.run(plan, q, k_cache, v_cache, block_table, query_start_loc, seq_lens)

Arrays are torch tensors, or numpy arrays on the CPU. README.md beside this package is the
reference; attune.h has the terms and limits.
"""

from ._library import Error, Status, __version__, header, library
from .capture import capture
from .context import Context
from .kv import kv_views
from .layer import Layer
from .plan import Plan

__all__ = [
    "Context",
    "Error",
    "Layer",
    "Plan",
    "Status",
    "__version__",
    "capture",
    "header",
    "kv_views",
    "library",
]
