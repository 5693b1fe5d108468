# SPDX-License-Identifier: Apache-2.0
"""test_run.py - what Layer.plan and Layer.run compute, against attention in fp64."""

import unittest

import kit
import numpy as np
from kit import Batch, get, largest_error, put

import libattune

PREFILL = [(20, 20), (9, 50), (130, 300)]
DECODE = [(1, 21), (1, 1), (1, 700), (1, 33)]
SPECULATIVE = [(4, 40), (3, 3), (5, 129)]
MIXED = [(40, 40), (1, 77), (4, 130), (64, 200), (1, 16)]
BATCHES = {"prefill": PREFILL, "decode": DECODE, "speculative": SPECULATIVE, "mixed": MIXED}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = libattune.Context(kit.DEVICE)

    def right(self, batch, out, **reference):
        self.assertLess(largest_error(out, batch.reference(**reference)[0], batch.dtype), 1)

    def check(self, batch, **arrays):
        layer = self.context.prepare(**batch.shape())
        self.right(
            batch,
            batch.run(layer, **{n: put(a) for n, a in arrays.items()}),
            **{{"alibi_slopes": "alibi"}.get(n, n): a for n, a in arrays.items()}
        )


class Results(Case):
    def test_phases_and_types(self):
        for dtype in kit.DTYPES:
            for name, lengths in BATCHES.items():
                with self.subTest(dtype=dtype, batch=name):
                    self.check(Batch(lengths, dtype))

    def test_masks_and_scores(self):
        for more in (
            dict(window_left=0),
            dict(window_left=30),
            dict(logits_soft_cap=2.0),
            dict(sm_scale=0.3),
            dict(causal=False),
            dict(window_left=17, logits_soft_cap=5.0),
        ):
            with self.subTest(**more):
                self.check(Batch(MIXED, **more))

    def test_sinks(self):
        sinks = np.linspace(-2, 3, 8, dtype=np.float32)
        self.check(Batch(MIXED, has_sinks=True), sinks=sinks)

    def test_alibi(self):
        slopes = np.linspace(0.01, 0.5, 8, dtype=np.float32)
        self.check(Batch(MIXED, has_alibi=True), alibi_slopes=slopes)

    def test_heads_and_pages(self):
        for heads, dim, page in (
            ((4, 4), 128, 32),
            ((12, 1), 80, 16),
            ((6, 2), 96, 1),
            ((8, 8), 256, 64),
        ):
            with self.subTest(heads=heads, dim=dim, page=page):
                self.check(Batch(MIXED, heads=heads, dim=dim, page=page))

    def test_all_layouts_of_a_cache(self):
        for layout in ("vllm", "vllm_legacy", "nhd", "hnd"):
            with self.subTest(layout=layout):
                self.check(Batch(MIXED, layout=layout))

    def test_queries_that_are_longer_than_their_sequences(self):
        self.check(Batch([(5, 3), (20, 10), (1, 0), (0, 40)]))

    def test_empty_batches(self):
        batch = Batch(DECODE)
        layer = self.context.prepare(**batch.shape())
        for starts, lens in (([0], []), ([0, 0, 0], [5, 0])):
            plan = layer.plan(starts, lens)
            self.assertEqual((plan.num_tokens, plan.workspace), (0, 0))
            out = kit.empty((3, 8, 64), batch.dtype)
            batch.run(layer, plan, q=batch.q[:3], out=out)
            self.assertTrue((get(out) == 7.5).all())
            none, zeros = kit.empty((0, 8, 64), batch.dtype), put(np.zeros(3, np.int32))
            got = layer.run(plan, none, batch.k, batch.v, batch.table_there, zeros, zeros)
            self.assertEqual(tuple(got.shape), (0, 8, 64))


class Arrays(Case):
    def test_strided_views(self):
        batch = Batch(MIXED)
        n, heads, dim = batch.tokens, *batch.heads[:1], batch.dim
        layer = self.context.prepare(**batch.shape())
        qkv = kit.empty((n, heads + 4, dim), batch.dtype)
        qkv[:, 2:-2] = batch.q
        out = kit.empty((n, 2, heads, dim), batch.dtype)
        table = put(np.full((len(MIXED), 40), -1, np.int32))
        table[:, : batch.table.shape[1]] = batch.table_there
        batch.table_there = table
        got = batch.run(layer, q=qkv[:, 2:-2], out=out[:, 1])
        self.right(batch, got)
        self.right(batch, out[:, 1])
        self.assertTrue((get(out[:, 0]) == 7.5).all())

    def test_padded_arrays(self):
        """Engines give arrays of their largest step; only the plan's rows are written."""
        batch = Batch(MIXED)
        layer = self.context.prepare(**batch.shape())
        plan = layer.plan(batch.starts, batch.seq_lens)
        q, out = (kit.empty((batch.tokens + 9, 8, 64), batch.dtype) for _ in "qo")
        q[: batch.tokens] = batch.q
        more = 3
        batch.table_there = put(np.pad(batch.table, ((0, more), (0, 0))))
        batch.starts_there = put(np.pad(batch.starts, (0, more), mode="edge"))
        batch.lens_there = put(np.array(batch.seq_lens + [0] * more, np.int32))
        batch.run(layer, plan, q=q, out=out)
        self.right(batch, out[: batch.tokens])
        self.assertTrue((get(out[batch.tokens :]) == 7.5).all())

    def test_lengths_of_all_kinds(self):
        batch = Batch(MIXED)
        layer = self.context.prepare(**batch.shape())
        want = layer.plan(batch.starts, batch.seq_lens).text
        lens = np.array(batch.seq_lens)
        kinds = [
            (batch.starts.tolist(), tuple(batch.seq_lens)),
            (batch.starts.astype(np.int64), lens),
            (np.repeat(batch.starts, 2)[::2], np.repeat(lens.astype(np.int32), 3)[::3]),
        ]
        if kit.TORCH:
            kinds += [
                tuple(kit.torch.tensor(np.array(x), dtype=getattr(kit.torch, t)) for x in kinds[0])
                for t in ("int32", "int64")
            ]
        for starts, lens in kinds:
            plan = layer.plan(starts, lens)
            self.assertEqual(plan.text, want)
            self.assertEqual((plan.num_seqs, plan.num_tokens), (len(MIXED), batch.tokens))

    def test_new_keys_beside_the_cache(self):
        batch = Batch(MIXED, has_new_kv=True)
        k, v = get(batch.k), get(batch.v)
        new = [np.zeros((batch.tokens, 2, 64), np.float32) for _ in "kv"]
        for i, keys in enumerate(batch.seq_lens):
            at = np.arange(keys - batch.queries[i], keys)
            for rows, cache in zip(new, (k, v)):
                rows[batch.starts[i] : batch.starts[i + 1]] = cache[
                    batch.table[i, at // 16], at % 16
                ]
        layer = self.context.prepare(**batch.shape())
        new = [put(rows, batch.dtype) for rows in new]
        self.right(batch, batch.run(layer, k_new=new[0], v_new=new[1]))


class Plans(Case):
    def test_lengths_that_are_upper_bounds(self):
        batch = Batch(MIXED)
        layer = self.context.prepare(**batch.shape())
        plan = layer.plan(batch.starts, [3 * n for n in batch.seq_lens])
        self.assertTrue(plan.serves(layer.plan(batch.starts, batch.seq_lens)))
        self.right(batch, batch.run(layer, plan))

    def test_a_plan_of_bounds(self):
        for lengths in (DECODE, MIXED):
            batch = Batch(lengths)
            layer = self.context.prepare(**batch.shape())
            plan = layer.plan_bounds(len(lengths), 300, max(batch.queries), 1000)
            self.assertEqual(plan.num_seqs, len(lengths))
            q = kit.empty((300, 8, 64), batch.dtype)
            q[: batch.tokens] = batch.q
            self.right(batch, batch.run(layer, plan, q=q)[: batch.tokens])

    def test_what_a_plan_serves(self):
        layer = self.context.prepare(**Batch(DECODE).shape())
        short, long = layer.plan([0, 1], [100]), layer.plan([0, 1], [9000])
        self.assertEqual(short.serves(layer.plan([0, 1], [100])), 2)
        self.assertEqual(short.serves(layer.plan([0, 9], [100])), 0)
        self.assertIn("num_seqs=1", repr(long))

    def test_what_is_printed(self):
        layer = self.context.prepare(
            num_qo_heads=8, num_kv_heads=2, head_dim=64, page_size=16, dtype="float16"
        )
        self.assertIn(self.context.name, repr(self.context))
        self.assertIn(
            "8 query and 2 KV heads of 64, pages of 16, float16, cache of float16", repr(layer)
        )

    def test_long_decodes_use_the_workspace(self):
        batch = Batch([(1, 9000)], heads=(8, 1))
        layer = self.context.prepare(**batch.shape(), max_num_seqs=4, max_num_tokens=64)
        plan = layer.plan(batch.starts, batch.seq_lens)
        self.assertGreaterEqual(layer.max_workspace(4, 64), plan.workspace)
        self.right(batch, batch.run(layer, plan))


class Writing(Case):
    def rows_of(self, batch):
        """K and V of the step's tokens, as rows, and the cache without them."""
        k, v = get(batch.k), get(batch.v)
        rows = np.zeros((2, batch.tokens, batch.heads[1], batch.dim), np.float32)
        slots = np.zeros(batch.tokens, np.int64)
        for i, keys in enumerate(batch.seq_lens):
            at = np.arange(keys - batch.queries[i], keys)
            pages, slot = batch.table[i, at // batch.page], at % batch.page
            here = slice(batch.starts[i], batch.starts[i + 1])
            rows[0, here], rows[1, here] = k[pages, slot], v[pages, slot]
            slots[here] = pages * batch.page + slot
            k[pages, slot] = v[pages, slot] = 0
        return [put(x, batch.dtype) for x in (*rows, k, v)] + [put(slots)]

    def test_new_tokens_are_written_into_the_cache(self):
        for dtype in kit.DTYPES:
            batch = Batch(MIXED, dtype)
            layer = self.context.prepare(**batch.shape())
            plan = layer.plan(batch.starts, batch.seq_lens)
            k_new, v_new, k, v, slots = self.rows_of(batch)
            by_table = (batch.table_there, batch.starts_there, batch.lens_there)
            for where in ((slots,), (None, *by_table)):
                caches = [put(get(c), dtype) for c in (k, v)]
                layer.write_kv(plan, k_new, v_new, *caches, *where)
                for cache, want in zip(caches, (batch.k, batch.v)):
                    self.assertTrue((get(cache) == get(want)).all())

    def test_a_block_table_from_lists(self):
        batch = Batch(MIXED)
        layer = self.context.prepare(**batch.shape())
        plan = layer.plan(batch.starts, batch.seq_lens)
        counts = [-(-n // batch.page) for n in batch.seq_lens]
        indptr = put(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        indices = np.concatenate([row[:n] for row, n in zip(batch.table, counts)])
        for kind in (np.int32, np.int64):
            batch.table_there = put(np.full_like(batch.table, -1))
            layer.page_table(plan, batch.table_there, indptr, put(indices.astype(kind)))
            self.assertTrue((get(batch.table_there) == batch.table).all())
        self.right(batch, batch.run(layer, plan))

    def test_a_block_table_of_one_row(self):
        batch = Batch([(1, 70)])
        layer = self.context.prepare(**batch.shape())
        table = put(np.zeros(8, np.int32))[None]  # its stride of rows is 0
        pages = put(np.array([5, 3, 8, 1, 2], np.int32))
        layer.page_table(layer.plan([0, 1], [70]), table, put(np.array([0, 5], np.int32)), pages)
        self.assertEqual(get(table)[0, :5].tolist(), get(pages).tolist())
        if not kit.TORCH:
            rows = np.lib.stride_tricks.as_strided(batch.table_there, strides=(2**40, 4))
            batch.table_there = rows
            self.right(batch, batch.run(layer))

    def test_ragged_keys_and_values(self):
        batch = Batch(MIXED)
        layer = self.context.prepare(**batch.shape())
        plan = layer.plan(batch.starts, batch.seq_lens)
        parts = [[], []]
        for i, keys in enumerate(batch.seq_lens):
            at = np.arange(keys)
            for part, cache in zip(parts, (batch.k, batch.v)):
                part.append(get(cache)[batch.table[i, at // 16], at % 16])
        k, v = (put(np.concatenate(p).astype(np.float32), batch.dtype) for p in parts)
        starts = put(np.concatenate([[0], np.cumsum(batch.seq_lens)]).astype(np.int32))
        table = put(np.zeros_like(batch.table))
        layer.page_table(plan, table, starts)
        out = layer.run(plan, batch.q, k, v, table, batch.starts_there, batch.lens_there)
        self.right(batch, out)


class Settling(Case):
    def test_settled_plans_are_kept_in_a_file(self):
        import os
        import tempfile

        batch = Batch([(1, 900), (1, 1500)])
        context = libattune.Context(kit.DEVICE)
        layer = context.prepare(**batch.shape())
        self.assertEqual(context.settled_digest, 0)
        layer.settle(batch.starts, batch.seq_lens, [(batch.k, batch.v)] * 2, most_ms=2000)
        context.settled_commit()
        self.right(batch, batch.run(layer))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "settled")
            context.settled_save(file)
            other = libattune.Context(kit.DEVICE)
            self.assertEqual(other.settled_load(file)[1], 0)
        self.assertEqual(other.settled_digest, context.settled_digest)
        plan = other.prepare(**batch.shape()).plan(batch.starts, batch.seq_lens)
        self.assertEqual(plan.text, layer.plan(batch.starts, batch.seq_lens).text)
