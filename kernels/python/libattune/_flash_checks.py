"""What the functions of flash_attn_interface refuse, in one line each."""

from operator import index

import torch

from . import Error

ALL = 1 << 30  # more keys than a sequence may have


def refuse(call, **given):
    for name, value in given.items():
        if value is not None and (isinstance(value, torch.Tensor) or value):
            raise Error(f"{call}: {name} is given, which libattune does not know: leave it out")


def tensors(call, needed, **others):
    """others: None where they are not given."""
    for name, x in needed.items():
        if not isinstance(x, torch.Tensor):
            raise _no_tensor(call, name, x)
    for name, x in others.items():
        if x is not None and not isinstance(x, torch.Tensor):
            raise _no_tensor(call, name, x)


def _no_tensor(call, name, x):
    return Error(f"{call}: {name} is of type {type(x).__name__}: it must be a torch tensor")


def same_shape(call, k_name, k, v_name, v):
    if k.shape != v.shape:
        raise Error(
            f"{call}: {k_name} has the shape {list(k.shape)} and {v_name} {list(v.shape)}: they "
            "must be equal"
        )


def one_each(call, name, x, starts, lens):
    """starts: of x, as `name` gives them or its shape; lens: of the keys."""
    if lens.dim() != 1 or starts.shape != (len(lens) + 1,):
        raise Error(
            f"{call}: {name} has the shape {list(starts.shape)} and lengths of keys "
            f"{list(lens.shape)}: it must have one more than they, and {x} without it a batch of as many"
        )


def whole(call, name, n):
    try:
        return index(n)
    except TypeError:
        raise Error(f"{call}: {name}={n!r}: it must be an integer") from None


def mask(call, causal, window_size, alibi_slopes):
    """(causal, keys in front of itself that a token sees or -1)."""
    window = (-1, -1) if window_size is None else window_size
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise Error(f"{call}: window_size={window!r}: it must be (left, right)")
    left, right = (whole(call, "window_size", n) for n in window)
    left, right = (n if n < ALL else -1 for n in (left, right))
    causal = bool(causal) or right == 0
    if not causal and right > 0:
        raise Error(
            f"{call}: window_size=({left}, {right}): behind a token are seen no keys (0, or "
            "causal=True) or all (-1)"
        )
    if alibi_slopes is not None and not causal:
        raise Error(f"{call}: alibi_slopes need causal=True")
    return causal, max(left, -1)
