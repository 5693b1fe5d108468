# SPDX-License-Identifier: Apache-2.0
"""test_gpu.py - what only a GPU has: streams, graphs that replay other lengths, workspaces under
capture, caches of 8 bits, LSE."""

import unittest

import kit
import numpy as np
import torch
from kit import Batch, get, largest_error, put

import libattune

DECODE = [(1, 21), (1, 1), (1, 700), (1, 33)]
MIXED = [(40, 40), (1, 77), (4, 130), (64, 200), (1, 16)]


def replay_of(call):
    """A graph that captured a call, after a warm-up on a stream of its own."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


@unittest.skipIf(kit.DEVICE == "cpu", "needs a GPU")
class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = libattune.Context(kit.DEVICE)

    def right(self, batch, out, **more):
        self.assertLess(largest_error(out, batch.reference(**more)[0], batch.dtype), 1)

    def test_streams(self):
        """Each call is behind what its own stream did, and streams share no workspace."""
        batches = [Batch([(1, 9000 + i), (64, 500)], heads=(8, 1), seed=i) for i in range(4)]
        layer = self.context.prepare(**batches[0].shape())
        streams = [torch.cuda.Stream() for _ in batches]
        torch.cuda.synchronize()
        outs = []
        for turn in range(5):
            for batch, stream in zip(batches, streams):
                with torch.cuda.stream(stream):
                    q = batch.q * 0
                    q += batch.q
                    out = batch.run(layer, q=q)
                if not turn:
                    outs.append(out)
        torch.cuda.synchronize()
        for batch, out in zip(batches, outs):
            self.right(batch, out)

    def test_one_graph_of_bounds_for_all_lengths(self):
        largest = Batch([(1, 3000)] * 6)
        layer = self.context.prepare(**largest.shape())
        plan = layer.plan_bounds(6, 6, 1, 3000)
        q, out = torch.empty_like(largest.q), torch.empty_like(largest.q)
        table, starts, lens = (
            torch.zeros_like(x)
            for x in (largest.table_there, largest.starts_there, largest.lens_there)
        )
        graph = replay_of(
            lambda: layer.run(plan, q, largest.k, largest.v, table, starts, lens, out=out)
        )
        rng = np.random.default_rng(3)
        for live in (6, 1, 4, 6):
            batch = Batch(
                [(1, int(n)) for n in rng.integers(1, 3000, live)] + [(0, 0)] * (6 - live)
            )
            largest.kv[: len(batch.kv)] = batch.kv
            table[:, : batch.table.shape[1]] = batch.table_there
            q[: batch.tokens] = batch.q
            starts.copy_(batch.starts_there)
            lens.copy_(batch.lens_there)
            graph.replay()
            self.right(batch, out[: batch.tokens])

    def test_graphs_outlive_larger_workspaces(self):
        """Runs of larger plans between a capture and its replay take none of its memory."""
        small, large = Batch([(1, 6000)], heads=(8, 1)), Batch([(1, 60000)] * 3, heads=(8, 1))
        layer = self.context.prepare(**small.shape())
        plan = layer.plan(small.starts, small.seq_lens)
        out = torch.empty_like(small.q)
        graph = replay_of(lambda: small.run(layer, plan, out=out))
        first = out.clone()
        for _ in range(3):
            large.run(layer)
            torch.cuda.empty_cache()
            taken = [torch.full((1 << 22,), 7.0, device=kit.DEVICE) for _ in range(8)]
            out.zero_()
            graph.replay()
            self.assertTrue((out == first).all())
            self.assertTrue(all((x == 7).all() for x in taken))
        self.right(small, out)

    def test_a_graph_for_each_plan_that_comes_up(self):
        layer = self.context.prepare(**Batch(DECODE).shape())
        graphs = []
        for keys in (300, 320, 20000, 310, 20100):
            batch = Batch([(1, keys)] * 4)
            plan = layer.plan(batch.starts, batch.seq_lens)
            graphs += [plan] if not any(p.serves(plan) == 2 for p in graphs) else []
            self.right(batch, batch.run(layer, plan))
        self.assertLess(len(graphs), 5)

    def test_caches_of_8_bits(self):
        for dtype in kit.DTYPES:
            for lengths in (DECODE, MIXED):
                batch = Batch(lengths, dtype, kv_dtype="float8_e4m3fn", heads=(8, 2), dim=128)
                layer = self.context.prepare(**batch.shape())
                batch.kv = batch.kv.to(torch.float8_e4m3fn)
                stored = [c.float() for c in libattune.kv_views(batch.kv, "nhd")]
                scales = {
                    "one": [np.float32(0.5), np.float32(2)],
                    "of heads": [np.array([0.5, 1], np.float32), np.array([2, 3], np.float32)],
                }
                for kind, (k_scale, v_scale) in scales.items():
                    with self.subTest(dtype=dtype, batch=lengths, scale=kind):
                        k_there, v_there = (put(np.atleast_1d(x)) for x in (k_scale, v_scale))
                        # The reference reads the values, the run the bytes.
                        values = (
                            c * put(s)[..., None] if np.ndim(s) else c * float(s)
                            for c, s in zip(stored, (k_scale, v_scale))
                        )
                        batch.k, batch.v = values
                        want = batch.reference()[0]
                        for bytes_of in (lambda c: c, lambda c: c.view(torch.uint8)):
                            batch.k, batch.v = map(bytes_of, libattune.kv_views(batch.kv, "nhd"))
                            out = batch.run(layer, k_scale=k_there, v_scale=v_there)
                            error = np.abs(get(out) - want).max() / (0.1 * (1 + np.abs(want).max()))
                            self.assertLess(error, 1)

    def test_new_rows_beside_a_cache_of_8_bits(self):
        """They have q's type."""
        batch = Batch(DECODE, kv_dtype="float8_e4m3fn", heads=(8, 2), dim=128, has_new_kv=True)
        layer = self.context.prepare(**batch.shape())
        batch.k, batch.v = libattune.kv_views(batch.kv.to(torch.float8_e4m3fn), "nhd")
        new = put(np.zeros((batch.tokens, 2, 128), np.float32), batch.dtype)
        self.assertTrue(batch.run(layer, k_new=new, v_new=new).isfinite().all())

    def test_lse(self):
        for lengths in (DECODE, MIXED):
            batch = Batch(lengths, has_lse=True)
            layer = self.context.prepare(**batch.shape())
            lse = torch.empty(8, batch.tokens, device=kit.DEVICE).t()
            try:
                out = batch.run(layer, lse=lse)
            except libattune.Error as e:  # prefills where the library has no warpgroup
                self.assertEqual(e.status, libattune.Status.UNSUPPORTED)
                continue
            want = batch.reference()
            self.assertLess(largest_error(out, want[0], batch.dtype), 1)
            self.assertLess(np.abs(get(lse) - want[1]).max(), 0.01)

    def test_a_tensor_elsewhere(self):
        batch = Batch(DECODE)
        layer = self.context.prepare(**batch.shape())
        with self.assertRaisesRegex(
            libattune.Error, "q must be on cuda:0, as the op of the plan is"
        ):
            batch.run(layer, q=batch.q.cpu())
        with self.assertRaisesRegex(
            libattune.Error, "seq_lens_cpu is on cuda:0: lengths are in host"
        ):
            layer.plan(batch.starts, batch.lens_there)
