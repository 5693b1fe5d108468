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


def tensors(call, names, needed, *given):
    """The first `needed` are there, others may be None. names: of all."""
    for i, x in enumerate(given):
        if not isinstance(x, Tensor) and (i < needed or x is not None):
            raise Error(
                f"{call}: {names.split()[i]} is of type {type(x).__name__}: it must be a torch tensor"
            )


def same_shape(call, k_name, k, v_name, v):
    """k, v: shapes."""
    if k != v:
        raise Error(
            f"{call}: {k_name} has the shape {list(k)} and {v_name} {list(v)}: they must be equal"
        )


def no_gradients(call, *given):
    if any(x is not None and x.requires_grad for x in given):
        raise Error(f"{call}: there is no backward pass: call it under torch.no_grad()")


def one_each(call, name, x, starts, lens):
    """How many sequences there are, by two shapes that must agree: that of starts, which are called
    `name` and begin the sequences of x, and that of the lengths of keys."""
    if len(lens) != 1 or starts != (lens[0] + 1,):
        raise Error(
            f"{call}: {name} has the shape {list(starts)} and lengths of keys {list(lens)}: "
            f"it must have one more than they, and {x} without it a batch of as many"
        )
    return lens[0]


def whole(call, name, n):
    try:
        return index(n)
    except TypeError:
        raise Error(f"{call}: {name}={n!r}: it must be an integer") from None


def window(call, window_size):
    """(left, right) as ints."""
    if window_size is None or window_size == (-1, -1):
        return -1, -1
    try:
        left, right = map(index, window_size)
    except (TypeError, ValueError):
        raise Error(f"{call}: window_size={window_size!r}: it must be (left, right)") from None
    return left, right


def mask(call, causal, window_size, has_alibi):
    """(causal, keys in front of itself that a token sees or -1)."""
    left, right = window_size
    causal = causal or right == 0
    if not causal and 0 < right < ALL:
        raise Error(
            f"{call}: window_size=({left}, {right}): behind a token are seen no keys (0, or "
            "causal=True) or all (-1)"
        )
    if has_alibi and not causal:
        raise Error(f"{call}: alibi_slopes need causal=True")
    return causal, left if 0 <= left < ALL else -1
