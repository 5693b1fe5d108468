# SPDX-License-Identifier: Apache-2.0
"""test_errors.py - the one line for each thing that is wrong, and its status."""

import unittest
from functools import partial

import kit
import numpy as np
from kit import Batch, put

import libattune
from libattune import Error, Status

MIXED = [(20, 20), (1, 77)]


numpy_alone = unittest.skipIf(kit.TORCH, "tensors are checked by torch's operators")


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = libattune.Context(kit.DEVICE)
        cls.batch = Batch(MIXED)
        cls.layer = cls.context.prepare(**cls.batch.shape())
        cls.plan = cls.layer.plan(cls.batch.starts, cls.batch.seq_lens)

    def refused(self, text, call, status=Status.INVALID):
        with self.assertRaises(Error) as caught:
            call()
        line = str(caught.exception)
        self.assertIn(text, line)
        self.assertNotIn("\n", line)
        self.assertEqual(caught.exception.status, status)

    def run_with(self, **other):
        b = self.batch
        arrays = dict(
            q=b.q,
            k_cache=b.k,
            v_cache=b.v,
            block_table=b.table_there,
            query_start_loc=b.starts_there,
            seq_lens=b.lens_there,
        )
        return lambda: self.layer.run(self.plan, **{**arrays, **other})

    def test_shapes_of_a_layer(self):
        def prepare(**other):
            return lambda: self.context.prepare(**{**self.batch.shape(), **other})

        for text, call in (
            ("num_query_heads must be a multiple", prepare(num_kv_heads=3)),
            ("dtype=int32: it is one of float32,", prepare(dtype=np.int32)),
            ("kv_dtype=half", prepare(kv_dtype="half")),
            ("window_left=-2: it is -1, or from 0", prepare(window_left=-2)),
            ("window_left=2147483647: it is", prepare(window_left=2**31 - 1)),
            ("sm_scale=0.0: it must be above 0", prepare(sm_scale=0.0)),
            ("sm_scale=1e-60: it must be above 0", prepare(sm_scale=1e-60)),
            ("sm_scale=[]: it must be a finite number", prepare(sm_scale=[])),
            ("logits_soft_cap=1e-60: it must be 0", prepare(logits_soft_cap=1e-60)),
            ("has_lse='no': it must be an integer", prepare(has_lse="no")),
            ("kv_layout='nhd': it is 'strided' or", prepare(kv_layout="nhd")),
            ("page_size", prepare(page_size=0)),
            ("num_qo_heads=3000000000", prepare(num_qo_heads=3_000_000_000)),
            ("head_dim=64.0", prepare(head_dim=64.0)),
        ):
            with self.subTest(text):
                self.refused(text, call)
        self.refused("head size 40", prepare(head_dim=40), Status.UNSUPPORTED)

    def test_devices(self):
        self.refused('device "tpu"', lambda: libattune.Context("tpu"))
        status = Status.NO_DEVICE if kit.TORCH else Status.INVALID
        self.refused("cuda", lambda: libattune.Context("cuda:99"), status)

    def test_lengths(self):
        plan = self.layer.plan
        for text, call in (
            ("query_start_loc_cpu has 2 entries for 2 sequences", lambda: plan([0, 1], [1, 1])),
            ("query_start must not decrease", lambda: plan([0, 2, 1], [1, 1])),
            ("seq_lens_cpu: integer 2147483648", lambda: plan([0, 1], [2**31])),
            ("seq_lens_cpu: integer 2147483648", lambda: plan([0, 1], np.array([2**31]))),
            ("seq_lens_cpu is of float32 and 1", lambda: plan([0, 1], np.ones(1, np.float32))),
            ("seq_lens_cpu is of int32 and 2", lambda: plan([0, 1], np.ones((1, 1), np.int32))),
            ("seq_lens_cpu is of type str", lambda: plan([0, 1], "5")),
            ("seq_lens_cpu: ", lambda: plan([0, 1], ["5"])),
            ("max_keys", lambda: self.layer.plan_bounds(1, 1, 1, -10)),
            ("num_seqs=1.5", lambda: self.layer.plan_bounds(1.5, 1, 1, 10)),
        ):
            with self.subTest(text):
                self.refused(text, call)

    @numpy_alone
    def test_arrays(self):
        b, other = self.batch, self.context.prepare(**self.batch.shape())
        wide = put(np.zeros((21, 8, 128), np.float32), b.dtype)
        beyond, many = b.table.copy(), put(np.zeros(21, np.int32))
        beyond[0, 1] = len(b.k)
        for text, call in (
            (
                "q has the shape [21, 4, 64], it must have [21 or more, 8, 64]",
                self.run_with(q=b.q[:, :4]),
            ),
            ("q has the shape [20, 8, 64]", self.run_with(q=b.q[:20])),
            (
                "q: its last dimension must be contiguous, it has a stride of 2",
                self.run_with(q=wide[:, :, ::2]),
            ),
            ("q is of int32, its layer takes", self.run_with(q=b.table_there)),
            ("q is of type list", self.run_with(q=[1], out=b.q)),
            ("q is of type list", self.run_with(q=[1])),
            ("out has the shape", self.run_with(out=b.q[:3])),
            ("k_cache has the shape", self.run_with(k_cache=b.k[:, :8])),
            ("v_cache has the shape", self.run_with(v_cache=b.v[0])),
            (
                "block_table is of int64, it must be int32",
                self.run_with(block_table=put(b.table.astype(np.int64))),
            ),
            (
                "block_table has the shape [1, 5], it must have [2 or more, any]",
                self.run_with(block_table=b.table_there[:1]),
            ),
            (
                "query_start_loc has the shape [2], it must have [3 or more]",
                self.run_with(query_start_loc=b.starts_there[:2]),
            ),
            (
                "seq_lens has the shape [1], it must have [2 or more]",
                self.run_with(seq_lens=b.lens_there[:1]),
            ),
            (
                "seq_lens has 700 tokens, and a row of block_table",
                self.run_with(seq_lens=put(np.array([700, 77], np.int32))),
            ),
            (
                "query_start_loc must rise from 0 to 21",
                self.run_with(query_start_loc=put(np.array([0, 20, 40], np.int32))),
            ),
            (
                "query_start_loc must rise from 0 to 21",
                self.run_with(query_start_loc=put(np.array([0, -1, 21], np.int32))),
            ),
            (
                "query_start_loc must rise from 0 to 21",
                self.run_with(
                    q=put(np.zeros((30, 8, 64), np.float32), b.dtype),
                    out=put(np.zeros((30, 8, 64), np.float32), b.dtype),
                    query_start_loc=put(np.array([0, 20, 22], np.int32)),
                ),
            ),
            (
                "slots goes up to 99999, and the cache has",
                lambda: self.layer.write_kv(
                    self.plan, b.q[:, :2], b.q[:, :2], b.k, b.v, put(np.array([1, 99999]))
                ),
            ),
            (
                f"block_table[0][1] is {len(b.k)}, which is not in the cache",
                self.run_with(block_table=put(beyond)),
            ),
            (
                f"block_table[0][1] is {len(b.k)}, which is not in the cache",
                lambda: self.layer.write_kv(
                    self.plan,
                    b.q[:, :2],
                    b.q[:, :2],
                    b.k,
                    b.v,
                    None,
                    put(beyond),
                    b.starts_there,
                    b.lens_there,
                ),
            ),
            (
                "a sequence has 20 pages, and a row of block_table",
                lambda: self.layer.page_table(
                    self.plan, b.table_there[:, :1], put(np.array([0, 20, 21], np.int32)), many
                ),
            ),
            (
                "indptr goes beyond indices, which has 2 entries",
                lambda: self.layer.page_table(
                    self.plan, b.table_there, b.starts_there, b.lens_there
                ),
            ),
            ("q is of type NoneType", self.run_with(q=None)),
            ("sinks is given: the layer was prepared without has_sinks", self.run_with(sinks=b.q)),
            ("lse is given: the layer was prepared without has_lse", self.run_with(lse=b.q)),
            (
                "plan: it was made by another layer",
                lambda: other.page_table(self.plan, b.table_there, b.starts_there),
            ),
            (
                "plan: it was made by another layer",
                lambda: other.write_kv(self.plan, b.q[:, :2], b.q[:, :2], b.k, b.v, b.starts),
            ),
            (
                "plan: it was made by another layer",
                lambda: other.run(
                    self.plan, b.q, b.k, b.v, b.table_there, b.starts_there, b.lens_there
                ),
            ),
        ):
            with self.subTest(text):
                self.refused(text, call)

    @numpy_alone
    def test_arrays_that_a_shape_announces(self):
        sinks = Batch(MIXED, has_sinks=True)
        layer = self.context.prepare(**sinks.shape())
        self.refused(
            "sinks is missing: the layer was prepared with has_sinks", lambda: sinks.run(layer)
        )
        self.refused(
            "sinks has the shape [3], it must have [8]",
            lambda: sinks.run(layer, sinks=put(np.ones(3, np.float32))),
        )

    @numpy_alone
    def test_read_only_arrays(self):
        out = kit.empty((21, 8, 64), self.batch.dtype)
        out.flags.writeable = False
        self.refused("out is read-only", self.run_with(out=out))

    @numpy_alone
    def test_scales(self):
        self.refused("k_scale is of type float: it must be", self.run_with(k_scale=0.5))
        self.refused("v_scale is of type list: it must be", self.run_with(v_scale=[0.5]))
        self.refused(
            "v_scale has the shape [5], it must have [2]",
            self.run_with(v_scale=put(np.ones(5, np.float32))),
        )

    @numpy_alone
    def test_elements_that_c_does_not_read(self):
        b = self.batch
        self.refused("seq_lens is of >i4", self.run_with(seq_lens=b.lens_there.astype(">i4")))
        self.refused("seq_lens_cpu is of >i8", lambda: self.layer.plan([0, 1], np.ones(1, ">i8")))
        odd = np.zeros(b.lens_there.nbytes + 1, np.uint8)[1:].view(np.int32)
        self.refused(
            "seq_lens: its elements of 4 bytes are not aligned", self.run_with(seq_lens=odd)
        )
        mixed = np.zeros((21, 8, 64), [("q", np.float32), ("flag", np.uint8)])["q"]
        self.refused("q: its elements of 4 bytes are not aligned", self.run_with(q=mixed, out=b.q))

    def test_views_of_caches(self):
        kv = np.zeros((4, 2, 16, 3, 64), np.float32)
        self.refused(
            "layout='nchw': it is one of vllm, vllm_legacy, nhd, hnd",
            lambda: libattune.kv_views(kv, "nchw"),
        )
        self.refused(
            "kv_cache has the shape (4, 2, 16, 3, 64), the layout 'vllm' is [pages, heads,",
            lambda: libattune.kv_views(kv),
        )
        self.refused(
            "the layout 'vllm_legacy' is [2,", lambda: libattune.kv_views(kv, "vllm_legacy")
        )
        self.refused("the layout 'vllm' is", lambda: libattune.kv_views(np.zeros((4, 2, 16, 65))))

    def test_settling(self):
        batch = self.batch
        zeros = put(np.zeros((9, 16, 2, 64), np.float32), batch.dtype)
        for text, caches in (("num_layers must be 1", []), ("all zeros", [(zeros, zeros)])):
            with self.subTest(text):
                settle = partial(self.layer.settle, batch.starts, batch.seq_lens, caches)
                self.refused(text, settle)
        load = partial(self.context.settled_load, __file__)
        self.refused(f"{__file__}: line 1: ", load)
