# SPDX-License-Identifier: Apache-2.0
"""Context: a device with its rules, its workspaces and what was settled on it."""

import functools
import os
import threading
from typing import Optional, Tuple

from . import _arrays
from ._handles import Opened
from ._library import C, Error, check, ffi
from ._shape import shape_of
from .layer import Layer


class Context:
    """A device.

    device   None: torch's current GPU, without one the CPU; else "cpu", "cuda", "cuda:1", or a
             torch.device. AMD's GPUs have the names that torch gives them.

    Several threads may use it at a time. A child of fork() opens one of its own. The environment
    sets CPU threads, rules of a file and batch invariance, as attune.h says: ATTUNE_THREADS,
    ATTUNE_HEURISTICS, ATTUNE_INVARIANT."""

    def __init__(self, device=None):
        self.device, name = _names(device)
        self.opened = Opened(name)
        self.opened.owned_by(self)
        self.handle = self.opened.handle
        self._of_thread = threading.local()

    def __copy__(self):
        """A copy is the context itself, which is closed once."""
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def name(self) -> str:
        """Such as 'NVIDIA H200 (sm_90, 132 SMs)'."""
        return ffi.string(C.attune_device_name(self.handle)).decode()

    @property
    def heuristic(self) -> str:
        """Where plans come from: 'h200', 'portable', 'untuned', 'invariant' or a path."""
        return ffi.string(C.attune_heuristic(self.handle)).decode()

    def __repr__(self):
        return f"<Context of {self.name}, rules: {self.heuristic}>"

    def prepare(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        dtype,
        kv_dtype=None,
        window_left: int = -1,
        logits_soft_cap: Optional[float] = 0.0,
        sm_scale: Optional[float] = None,
        has_sinks: bool = False,
        has_alibi: bool = False,
        has_new_kv: bool = False,
        has_lse: bool = False,
        causal: bool = True,
        kv_layout: str = "strided",
        max_num_seqs: Optional[int] = None,
        max_num_tokens: Optional[int] = None,
        sinks_dtype=None,
    ) -> Layer:
        """Loads the kernels of one shape; returns a Layer.

        dtype, kv_dtype   of q and out, and of the cache (None: as dtype): torch or numpy types, or
                          "float32", "float16", "bfloat16", "float8_e4m3fn". Arrays of the
                          bits do for the last two: of uint16, uint8
        window_left       keys that a token sees in front of itself; -1: all
        logits_soft_cap   0 or None: none
        sm_scale          None: 1 / sqrt(head_dim)
        has_...           the array will be given to run
        kv_layout         "strided", or "classic": K [pages, heads, head_dim / x, page_size, x]
                          with x = 16 bytes, V [pages, heads, head_dim, page_size]
        sinks_dtype       None: float32; or float16, bfloat16
        max_num_seqs, max_num_tokens   of a step: the workspace of numpy arrays is then
                          allocated once
        """
        shape = shape_of(
            num_qo_heads,
            num_kv_heads,
            head_dim,
            page_size,
            dtype,
            kv_dtype,
            window_left,
            logits_soft_cap,
            sm_scale,
            has_sinks,
            has_alibi,
            has_lse,
            causal,
            has_new_kv,
            kv_layout,
            sinks_dtype,
        )
        layer = Layer(self, shape)
        if max_num_seqs is not None and max_num_tokens is not None:
            layer.most_workspace = layer.max_workspace(max_num_seqs, max_num_tokens)
        return layer

    def settled_commit(self) -> None:
        """Makes what Layer.settle found count for plans; then capture graphs."""
        check(C.attune_settled_commit(self.handle))

    def settled_save(self, path) -> None:
        """Writes what was committed into a file."""
        need = ffi.new("size_t *")
        check(C.attune_settled_text(self.handle, ffi.NULL, 0, need))
        text = ffi.new("char[]", need[0] + 1)
        check(C.attune_settled_text(self.handle, text, need[0], need))
        with open(path, "wb") as f:
            f.write(ffi.buffer(text, need[0]))

    def settled_load(self, path) -> Tuple[int, int]:
        """Reads such a file and commits it. (cells taken, cells dropped: their kernels changed)"""
        with open(path, "rb") as f:
            text = f.read()
        taken, dropped = ffi.new("int *"), ffi.new("int *")
        try:
            check(C.attune_settled_read(self.handle, text, len(text), taken, dropped))
        except Error as e:
            raise Error(f"{path}: {e}", e.status) from None
        self.settled_commit()
        return taken[0], dropped[0]

    @property
    def settled_digest(self) -> int:
        """A number for what was committed: ranks with equal ones plan alike."""
        return C.attune_settled_digest(self.handle)

    def stream(self):
        """The handle of torch's current stream on this device; 0 on the CPU."""
        if self.device == "cpu":
            return 0
        return _arrays.torch_or_none().cuda.current_stream(self.device).cuda_stream

    def workspace(self, need, most):
        """(address, bytes) of memory for this thread's calls on numpy arrays: of `need` bytes or
        more, and of `most` where it must be made. Tensors take theirs from torch's allocator."""
        if not need:
            return ffi.NULL, 0
        held = getattr(self._of_thread, "held", None)
        if held is None or len(held) < need:
            held = self._of_thread.held = self.empty([max(need, most)], "uint8")
        return ffi.from_buffer(held), len(held)

    def empty(self, shape, dtype, fill=None):
        """An array on this device, of `fill`."""
        if self.device == "cpu":
            import numpy

            made = numpy.empty(
                shape, {"bfloat16": "uint16", "float8_e4m3fn": "uint8"}.get(dtype, dtype)
            )
            if fill is not None:
                made.fill(fill)
            return made
        torch = _arrays.torch_or_none()
        made = torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)
        return made if fill is None else made.fill_(fill)

    def random(self, shape, dtype):
        """Normal numbers on this device, of 16 or 32 bits."""
        if self.device != "cpu":
            return self.empty(shape, dtype).normal_()
        import numpy

        made = numpy.random.default_rng(1).standard_normal(shape, "float32")
        return (
            (made.view("uint32") >> 16).astype("uint16")
            if dtype == "bfloat16"
            else made.astype(dtype)
        )


@functools.lru_cache(maxsize=None)
def _shared_context(device, process):
    return Context(device)


@functools.lru_cache(maxsize=None)
def _shared_layer(context, **shape):
    return context.prepare(**shape)


def shared_layer(device, **shape) -> Layer:
    """The Layer of a shape, by Context.prepare's words, for all in this process that are not given
    one. A child of fork() gets others."""
    return _shared_layer(_shared_context(str(device), os.getpid()), **shape)


def _names(device):
    """The name of a device as torch gives it, and as attune_open takes it."""
    torch = _arrays.torch_or_none()
    if device is None:
        try:
            import torch

            device = "cuda" if torch.cuda.is_available() else "cpu"
        except ImportError:
            device = "cpu"
    kind, _, index = str(device).partition(":")
    if kind != "cuda" and kind != "hip":
        return kind, str(device)
    if torch is None:
        raise Error(f"device={device}: arrays on a GPU are torch's, so import torch first")
    index = index or (torch.cuda.current_device() if torch.cuda.is_available() else 0)
    return f"cuda:{index}", f"{'hip' if torch.version.hip else 'cuda'}:{index}"
