# SPDX-License-Identifier: Apache-2.0
"""What the functions of flash_attn_interface refuse, in one line each."""

from operator import index

from torch import Tensor

from . import Error

ALL = 1 << 30  # more keys than a sequence may have


def refuse(call, **given):
    for name, value in given.items():
        if value is not None and (isinstance(value, Tensor) or value):
            raise Error(f"{call}: {name} is given, which libattune does not know: leave it out")


def tensors(call, needed, **others):
    """others: None where they are not given."""
    for name, x in needed.items():
        if not isinstance(x, Tensor):
            raise _no_tensor(call, name, x)
    for name, x in others.items():
        if x is not None and not isinstance(x, Tensor):
            raise _no_tensor(call, name, x)


def _no_tensor(call, name, x):
    return Error(f"{call}: {name} is of type {type(x).__name__}: it must be a torch tensor")


def same_shape(call, k_name, k, v_name, v):
    if k.shape != v.shape:
        raise Error(
            f"{call}: {k_name} has the shape {list(k.shape)} and {v_name} {list(v.shape)}: they "
            "must be equal"
        )


def no_gradients(call, *given):
    if any(x is not None and x.requires_grad for x in given):
        raise Error(f"{call}: there is no backward pass: call it under torch.no_grad()")


def one_each(call, name, x, starts, lens):
    """starts: of x, as `name` gives them or its shape; lens: of the keys. Returns how many."""
    of_starts, of_lens = starts.shape, lens.shape
    if len(of_lens) != 1 or of_starts != (of_lens[0] + 1,):
        raise Error(
            f"{call}: {name} has the shape {list(of_starts)} and lengths of keys {list(of_lens)}: "
            f"it must have one more than they, and {x} without it a batch of as many"
        )
    return of_lens[0]


def whole(call, name, n):
    try:
        return index(n)
    except TypeError:
        raise Error(f"{call}: {name}={n!r}: it must be an integer") from None


def mask(call, causal, window_size, alibi_slopes):
    """(causal, keys in front of itself that a token sees or -1)."""
    try:
        left, right = (-1, -1) if window_size is None else map(index, window_size)
    except (TypeError, ValueError):
        raise Error(f"{call}: window_size={window_size!r}: it must be (left, right)") from None
    causal = bool(causal) or right == 0
    if not causal and 0 < right < ALL:
        raise Error(
            f"{call}: window_size=({left}, {right}): behind a token are seen no keys (0, or "
            "causal=True) or all (-1)"
        )
    if alibi_slopes is not None and not causal:
        raise Error(f"{call}: alibi_slopes need causal=True")
    return causal, left if 0 <= left < ALL else -1
