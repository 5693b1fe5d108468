# SPDX-License-Identifier: Apache-2.0
"""attention.py - attention of one sequence in fp64, which all tests here compare with."""

import numpy as np


def attend(q, k, v, causal=True, left=-1, softcap=0.0, scale=None, slopes=None, sinks=None):
    """(out, lse [heads, queries]) of arrays of fp64: q [queries, heads, head_dim], k and v
    [keys, KV heads, head_dim]; the queries are the last tokens. slopes, sinks: [heads]."""
    k, v = (x.repeat(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = np.einsum("qhd,khd->hqk", q, k, optimize=True) * (scale or q.shape[2] ** -0.5)
    s = softcap * np.tanh(s / softcap) if softcap else s
    at = np.arange(len(k))
    position = np.arange(len(k) - len(q), len(k))[:, None]
    if slopes is not None:
        s = s + slopes[:, None, None] * (at - position)
    hidden = (at > position) & bool(causal)
    if left >= 0:
        hidden |= at < position - left
    s = np.where(hidden, -np.inf, s)
    if sinks is not None:
        s = np.concatenate([s, np.broadcast_to(sinks[:, None, None], (*s.shape[:2], 1))], 2)
    top = s.max(2, initial=-1e30, keepdims=True)
    w = np.exp(s - top)
    total = w.sum(2, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[:, :, 0]
    w = np.divide(w, total, out=np.zeros_like(w), where=total > 0)
    return np.einsum("hqk,khd->qhd", w[:, :, : len(k)], v, optimize=True), lse
