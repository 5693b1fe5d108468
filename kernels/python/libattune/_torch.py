"""The operator torch.ops.attune.paged_attention, which libattune registers in plain C, and its fake
kernel, by which torch.compile and torch.export trace it."""

import torch

from ._library import C, Error, check, ffi

check(C.attune_torch_register())
op = torch.ops.attune.paged_attention.default


@torch.library.register_fake("attune::paged_attention")
def _(out, q, k_cache, v_cache, block_table, query_start_loc, seq_lens, plan, lse, *others):
    return None


def plan_tensor(plan):
    """The uint8 tensor that the operator takes as `plan`. It keeps the layer's kernels loaded."""
    size = ffi.new("size_t *")
    check(C.attune_torch_plan(plan.layer.op, plan.c, ffi.NULL, 0, size))
    made = torch.empty(size[0], dtype=torch.uint8, device="cpu")
    check(
        C.attune_torch_plan(
            plan.layer.op, plan.c, ffi.cast("void *", made.data_ptr()), size[0], size
        )
    )
    made.layer = plan.layer
    return made


def nothing(device):
    """What stands for tensors that are not given, on a device: those that are read, and lse. Two,
    since torch holds what is read and what is written apart."""
    return torch.empty(0, device=device), torch.empty(0, device=device)


def run(
    nothing, plan, out, q, k_cache, v_cache, block_table, query_start_loc, seq_lens, lse, *others
):
    """Layer.run for tensors. `plan`: of plan_tensor."""
    none, none_lse = nothing
    if out is None:
        out = torch.empty_like(q)
    try:
        op(
            out,
            q,
            k_cache,
            v_cache,
            block_table,
            query_start_loc,
            seq_lens,
            plan,
            none_lse if lse is None else lse,
            *[none if x is None else x for x in others],
        )
    except RuntimeError as e:
        raise Error(str(e)) from None
    return out
