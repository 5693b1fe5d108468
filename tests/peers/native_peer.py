# SPDX-License-Identifier: Apache-2.0
"""Attention by attend.c, through ctypes: a peer without packages. FAULT is what it does wrong."""
import ctypes
import os
import time

FAULT = ""
NAMES = ("q k v out table q_token q_head out_token out_head k_page k_slot k_head v_page v_slot v_head "
         "queries keys heads group size page causal").split()  # fmt: skip


class Attend(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in NAMES] + [("scale", ctypes.c_double)]


class Peer:
    name = "native"
    about = "attend.c by ctypes"
    backends = ("cpu",)
    dtypes = ("bf16",)
    axes = {"STEPS": (1, 2)}

    def prepare(self, shape, STEPS):
        if FAULT == "prepare":
            raise MemoryError("it has no room")
        self.shape = shape
        self.library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attend.so"))

    def plan(self, batch, tensors):
        return batch

    def launch(self, batch, t):
        if FAULT == "launch":
            raise ValueError("it launches nothing,\non no card")
        while FAULT == "hang" and batch.seq_lens != [20, 20]:  # the first batch has the long time limit
            time.sleep(1)
        if FAULT == "crash":
            os.abort()
        s = self.shape
        for i, (m, n) in enumerate(zip(batch.query_lens, batch.seq_lens)):
            at = batch.query_start[i]
            self.library.attend(ctypes.byref(Attend(
                t.q.address + 2 * at * t.q.strides[0], t.k_cache.address, t.v_cache.address,
                t.out.address + 2 * at * t.out.strides[0],
                t.block_table.address + 4 * i * t.block_table.strides[0],
                *t.q.strides[:2], *t.out.strides[:2], *t.k_cache.strides[:3], *t.v_cache.strides[:3],
                m, n, s.num_query_heads, s.group, s.head_size, s.page_size, s.causal,
                s.scale * (1.1 if FAULT == "scale" else 1),
            )))  # fmt: skip
