# SPDX-License-Identifier: Apache-2.0
"""Plan: what to launch for one step."""

from ._library import C, check, ffi

PLAN, SIZE = ffi.typeof("attune_plan *"), ffi.sizeof("attune_plan")


class Plan:
    """Made by Layer.plan and Layer.plan_bounds; good for all layers that run on the same Layer. `c`
    is its attune_plan, `tensor` what torch.ops.attune.paged_attention takes."""

    __slots__ = ("c", "layer", "tensor")

    def __init__(self, layer):
        self.layer, self.tensor = layer, None
        self.c = ffi.new(PLAN)
        self.c.size = SIZE

    @property
    def text(self) -> str:
        """Its kernels and parameters: 'prefill: qblock BLOCK_M=128 ... | decode: ...'."""
        room = ffi.new("char[]", 1024)
        check(C.attune_plan_text(self.layer.op, self.c, room, 1024))
        return ffi.string(room).decode()

    @property
    def workspace(self) -> int:
        """Bytes of workspace that a run takes."""
        return self.c.workspace

    @property
    def num_seqs(self) -> int:
        return self.c.num_seqs

    @property
    def num_tokens(self) -> int:
        """Query tokens of the batch: rows of q that are read."""
        return self.c.num_tokens

    def serves(self, wanted: "Plan") -> int:
        """Whether a graph that captured this plan is right for the batch of another: 0: no; 1: yes,
        but the other's own launches may be faster; 2: yes, and it runs the other's launches."""
        return C.attune_plan_serves(self.c, wanted.c)

    def __repr__(self):
        return f"<Plan, num_seqs={self.num_seqs}, num_tokens={self.num_tokens}: {self.text}>"
