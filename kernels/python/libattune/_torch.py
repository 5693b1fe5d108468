# SPDX-License-Identifier: Apache-2.0
"""The operators torch.ops.attune.*, which libattune registers in plain C, and their fake kernels, by
which torch.compile traces them."""

import torch

from ._library import C, Error, Status, check, ffi

check(C.attune_torch_register())
_attend = torch.ops.attune.paged_attention
_write = torch.ops.attune.write_kv.default
_table = torch.ops.attune.page_table.default
_ragged = torch.ops.attune.ragged_table.default


def _fake(*arguments):
    """For operators that return nothing. With one tensor on the device meta torch calls this
    instead of the operator, which would then not write the other tensors."""
    written = arguments[:2]
    if any(x.is_meta for x in arguments) and not all(x.is_meta for x in written):
        raise RuntimeError("attune: some tensors are on the device meta, and others are not")


def _fake_new(q, *others):
    _fake(q, *others)
    return q.new_empty(q.shape)


def _fake_ragged(starts, plan, pages):
    _fake(starts)
    seqs = starts.shape[0] - 1
    return starts.new_empty(seqs, pages), starts.new_empty(seqs)


torch.library.register_fake(_ragged.name(), _fake_ragged)
for _op in (_attend.default, _attend.plain_out, _write, _table):
    torch.library.register_fake(_op.name(), _fake)
for _op in (_attend.new, _attend.plain):
    torch.library.register_fake(_op.name(), _fake_new)


def real(made):
    """`made`, if its tensors have memory and so may be kept. Under some modes and transforms of
    torch they have none."""
    for x in made if isinstance(made, tuple) else (made,):
        if type(x) is not torch.Tensor or torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise Error(
                "a mode or a transform of torch is on that makes tensors without memory: plan and "
                "call outside of it"
            )
    return made


_PLAN_BYTES = ffi.new("size_t *")


def plan_tensor(plan):
    """The uint8 tensor that the operators take as `plan`. It and its memory, which views of it
    have, keep the layer's kernels loaded."""
    op, size = plan.layer.op, _PLAN_BYTES
    if not size[0]:
        check(C.attune_torch_plan(op, plan.c, ffi.NULL, 0, size))
    made = real(torch.empty(size[0], dtype=torch.uint8, device="cpu"))
    check(C.attune_torch_plan(op, plan.c, ffi.cast("void *", made.data_ptr()), size[0], size))
    made.layer = made.untyped_storage().layer = plan.layer
    return made


_STATUS = {f"{ffi.string(C.attune_status_text(s)).decode()})": s for s in Status}


def _refused(e):
    """torch's exception as Error: the first line is the library's, with the status in brackets."""
    said = str(e).partition("\n")[0]
    line, _, status = said.rpartition(" (")
    status = _STATUS.get(status)
    return Error(said) if status is None else Error(line, status)


class Operators:
    """The operators for tensors of a device. What is not given is a tensor without elements:
    `none`, and `none_lse` for what is written, since torch holds these apart from what is read."""

    Tensor, refused = torch.Tensor, staticmethod(_refused)
    plain, plain_out, new, default = (
        getattr(_attend, name) for name in ("plain", "plain_out", "new", "default")
    )

    def __init__(self, device):
        with torch.inference_mode(False):  # also for calls outside of the mode that may be on now
            self.none, self.none_lse = real(tuple(torch.empty(0, device=device) for _ in range(2)))

    def given(self, lse, *others):
        """Operands behind the plan."""
        none = self.none
        return (
            self.none_lse if lse is None else lse,
            *[none if x is None else x for x in others],
        )

    def write_kv(self, plan, k_new, v_new, k_cache, v_cache, *others):
        """Layer.write_kv."""
        others = [self.none if x is None else x for x in others]
        try:
            _write(k_cache, v_cache, k_new, v_new, plan, *others)
        except RuntimeError as e:
            raise _refused(e) from None

    def page_table(self, plan, block_table, indptr, indices):
        """Layer.page_table."""
        try:
            _table(block_table, indptr, self.none if indices is None else indices, plan)
        except RuntimeError as e:
            raise _refused(e) from None

    def ragged_table(self, plan, starts, pages):
        """(block table, lengths) of ragged K and V whose sequences have at most `pages` pages.
        starts: cu_seqlens_k."""
        try:
            return _ragged(starts, plan, pages)
        except RuntimeError as e:
            raise _refused(e) from None
