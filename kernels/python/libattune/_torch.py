"""The operators torch.ops.attune.*, which libattune registers in plain C, and their fake kernels, by which
torch.compile traces them."""

import torch

from ._library import C, Error, check, ffi

check(C.attune_torch_register())
_attend = torch.ops.attune.paged_attention.default
_write = torch.ops.attune.write_kv.default
_table = torch.ops.attune.page_table.default


def _fake(*arguments):
    """None of them gives a new tensor."""


for _name in ("paged_attention", "write_kv", "page_table"):
    torch.library.register_fake(f"attune::{_name}", _fake)


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
        _attend(
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


def write_kv(nothing, plan, k_new, v_new, k_cache, v_cache, *others):
    """Layer.write_kv for tensors."""
    try:
        _write(
            k_cache, v_cache, k_new, v_new, plan, *[nothing[0] if x is None else x for x in others]
        )
    except RuntimeError as e:
        raise Error(str(e)) from None


def page_table(nothing, plan, block_table, indptr, indices):
    """Layer.page_table for tensors."""
    try:
        _table(block_table, indptr, nothing[0] if indices is None else indices, plan)
    except RuntimeError as e:
        raise Error(str(e)) from None
