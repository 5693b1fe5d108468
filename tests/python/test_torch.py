# SPDX-License-Identifier: Apache-2.0
"""test_torch.py - the operators torch.ops.attune.*: results, errors, fake tensors, torch.compile,
CUDA graphs, threads and memory."""

import gc
import resource
import threading
import unittest
import weakref

import torch
from rows import DEVICE, DTYPE, Batch, attend, error
from torch._subclasses.fake_tensor import FakeTensorMode

import libattune
from libattune import _torch
from libattune._library import C, ffi

torch.set_num_threads(1)
DECODE = [(1, 21), (1, 1), (1, 300), (1, 33)]
MIXED = [(40, 40), (1, 77), (4, 130), (64, 200), (1, 16)]
SHAPE = dict(num_qo_heads=8, num_kv_heads=2, head_dim=64, page_size=16, dtype=DTYPE)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = libattune.Context(DEVICE)
        cls.layer = cls.context.prepare(**SHAPE)

    def plan(self, batch, layer=None):
        return (layer or self.layer).plan(batch.starts.cpu(), batch.lens.cpu())

    def arguments(self, batch, plan=None, q=None):
        """Of torch.ops.attune.paged_attention."""
        plan, none = plan or self.plan(batch), (self.layer.torch.none, self.layer.torch.none_lse)
        q = batch.q if q is None else q
        return [torch.empty_like(q), q, *batch.cached(), plan.tensor, none[1]] + [none[0]] * 6

    def right(self, out, want):
        self.assertEqual(out.shape, want.shape)
        self.assertLess(error(out, want), 1)


class Results(Case):
    def test_plans_of_lengths_and_of_bounds(self):
        for lengths in (DECODE, MIXED):
            batch = Batch(lengths)
            bounds = self.layer.plan_bounds(len(lengths), len(batch.q), max(batch.queries), 400)
            for plan in (self.plan(batch), bounds):
                self.right(self.layer.run(plan, batch.q, *batch.cached()), batch.want()[0])

    def test_strided_tensors_and_a_given_out(self):
        batch = Batch(MIXED)
        qkv = torch.zeros(len(batch.q), 12, 64, dtype=DTYPE, device=DEVICE)
        qkv[:, :8] = batch.q
        out = torch.empty(len(batch.q), 16, 64, dtype=DTYPE, device=DEVICE)[:, ::2]
        got = self.layer.run(self.plan(batch), qkv[:, :8], *batch.cached(), out=out)
        self.assertIs(got, out)
        self.right(out, batch.want()[0])

    def test_a_batch_of_equal_queries(self):
        batch = Batch([(3, 70), (3, 20), (3, 50), (3, 40)])
        plan, want = self.plan(batch), batch.want()[0].unflatten(0, (4, 3))
        qkv = torch.zeros(4, 3, 12, 64, dtype=DTYPE, device=DEVICE)
        qkv[:, :, :8] = batch.q.unflatten(0, (4, 3))
        for q in (qkv[:, :, :8].contiguous(), qkv[:, :, :8]):
            self.right(self.layer.run(plan, q, *batch.cached()), want)
        ones = Batch(DECODE)
        for q in (ones.q[:, None], ones.q[None]):
            out = self.layer.run(self.plan(ones), q, *ones.cached())
            self.right(out, ones.want()[0].view_as(q))
        with self.assertRaisesRegex(
            libattune.Error, r"q has the shape \[3, 4, 8, 64\], it must have \[12 or more, 8, 64\]"
        ):
            self.layer.run(plan, qkv[:, :, :8].transpose(0, 1), *batch.cached())

    def test_sinks_slopes_and_lse(self):
        batch, sinks = Batch(MIXED), torch.linspace(-2, 3, 8, device=DEVICE)
        for dtype in (torch.float32, torch.bfloat16):
            layer = self.context.prepare(**SHAPE, has_sinks=True, sinks_dtype=dtype)
            out = layer.run(
                self.plan(batch, layer), batch.q, *batch.cached(), sinks=sinks.to(dtype)
            )
            self.right(out, batch.want(sinks=sinks.to(dtype))[0])
        layer, slopes = self.context.prepare(**SHAPE, has_alibi=True), sinks.abs() / 9
        out = layer.run(self.plan(batch, layer), batch.q, *batch.cached(), alibi_slopes=slopes)
        self.right(out, batch.want(slopes=slopes)[0])

    @unittest.skipIf(DEVICE == "cpu", "no kernel for CPUs gives an LSE")
    def test_lse_of_any_strides(self):
        batch = Batch(DECODE)
        layer = self.context.prepare(**SHAPE, has_lse=True)
        lse = torch.empty(8, len(batch.q), device=DEVICE)
        layer.run(self.plan(batch, layer), batch.q, *batch.cached(), lse=lse.t())
        self.assertLess((lse.t() - batch.want()[1]).abs().max().item(), 2e-2)

    def test_a_plan_without_queries_runs_nothing(self):
        batch = Batch(DECODE)
        plan = self.layer.plan([0, 0], [0])
        self.layer.run(plan, batch.q[:0], *batch.cached())

    def test_new_tokens_are_written(self):
        batch = Batch(MIXED)
        plan = self.layer.plan(batch.key_starts.cpu(), batch.lens.cpu())
        for where in (
            dict(slots=batch.slots()),
            dict(block_table=batch.table, query_start_loc=batch.key_starts, seq_lens=batch.lens),
        ):
            kv = torch.full_like(batch.kv, 5)
            self.layer.write_kv(plan, batch.k, batch.v, *kv.unbind(1), **where)
            for written, rows in zip(kv.unbind(1), (batch.k, batch.v)):
                slots = written.flatten(0, 1).clone()
                self.assertTrue(torch.equal(slots[batch.slots()], rows))
                slots[batch.slots()] = 5
                self.assertTrue((slots == 5).all())

    def test_lists_of_pages_and_ragged_keys(self):
        batch = Batch(MIXED)
        plan = self.plan(batch)
        starts = torch.tensor([0] + [len(p) for p in batch.pages], device=DEVICE).cumsum(0).int()
        for indices in (torch.cat(batch.pages), torch.cat(batch.pages).long()):
            table = torch.full_like(batch.table, -1)
            self.layer.page_table(plan, table, starts, indices)
            self.assertTrue(torch.equal(table, batch.table))
        self.layer.page_table(plan, table, batch.key_starts)
        out = self.layer.run(plan, batch.q, batch.k, batch.v, table, batch.starts, batch.lens)
        self.right(out, batch.want()[0])
        made, lens = torch.ops.attune.ragged_table(batch.key_starts, plan.tensor, 20)
        self.assertEqual((made.shape, made.dtype), ((len(batch.lens), 20), torch.int32))
        self.assertTrue(torch.equal(lens, batch.lens))
        for row, given, keys in zip(made, table, batch.keys):
            self.assertTrue(torch.equal(row[: -(-keys // 16)], given[: -(-keys // 16)]))

    def test_the_stride_of_a_lone_row_says_nothing(self):
        plan, pages = (
            self.layer.plan([0, 1], [70]),
            torch.tensor([5, 3, 8, 1, 2], device=DEVICE).int(),
        )
        table = torch.zeros(8, 1, device=DEVICE).int().t()
        self.layer.page_table(plan, table, torch.tensor([0, 5], device=DEVICE).int(), pages)
        self.assertEqual(table[0, :5].tolist(), pages.tolist())

    def test_no_slots_and_no_lists(self):
        batch, none = Batch(DECODE), torch.empty(0, device=DEVICE)
        plan, before, table = self.plan(batch), batch.kv.clone(), batch.table.clone()
        self.layer.write_kv(plan, batch.k, batch.v, *batch.kv.unbind(1), none.long())
        self.layer.page_table(plan, batch.table, torch.zeros(5, device=DEVICE).int(), none.int())
        self.assertTrue(torch.equal(batch.kv, before) and torch.equal(batch.table, table))


class Refused(Case):
    def refused(self, line, run):
        with self.assertRaises(libattune.Error) as e:
            run()
        self.assertEqual(str(e.exception), line)

    def test_tensors_that_do_not_fit(self):
        batch = Batch(MIXED)
        plan, q = self.plan(batch), batch.q
        k, v, table, starts, lens = batch.cached()
        at = "cpu" if DEVICE == "cpu" else "cuda:0"
        for line, arguments, more in (
            (f"q must be of torch.{str(DTYPE)[6:]}", (q.double(), k, v, table, starts, lens), {}),
            (
                "q has the shape [109, 8, 64], it must have [110 or more, 8, 64]",
                (q[1:], k, v, table, starts, lens),
                dict(out=torch.empty_like(q)),
            ),
            (
                "v_cache has the shape [34, 8, 2, 64], it must have [0 or more, 16, 2, 64]",
                (q, k, v[:, :8], table, starts, lens),
                {},
            ),
            (
                "the last dimension of k_cache must be contiguous",
                (q, k.transpose(2, 3).contiguous().transpose(2, 3), v, table, starts, lens),
                {},
            ),
            ("block_table must be of torch.int32", (q, k, v, table.long(), starts, lens), {}),
            (
                "block_table has the shape [4, 14], it must have [5 or more, 1 or more]",
                (q, k, v, table[:4], starts, lens),
                {},
            ),
            (
                "seq_lens has the shape [4], it must have [5 or more]",
                (q, k, v, table, starts, lens[:4]),
                {},
            ),
            (
                "sinks is given, but the op was prepared without it",
                (q, k, v, table, starts, lens),
                dict(sinks=torch.zeros(8, device=at)),
            ),
            (
                "k_scale has the shape [3], it must have [2]",
                (q, k, v, table, starts, lens),
                dict(k_scale=torch.ones(3, device=at)),
            ),
        ):
            with self.subTest(line):
                self.refused(
                    f"attune::paged_attention: {line}",
                    lambda: self.layer.run(plan, *arguments, **more),
                )

    @unittest.skipIf(DEVICE != "cpu", "lengths are on the device")
    def test_what_is_not_there_on_the_cpu(self):
        batch = Batch(MIXED)
        plan, (k, v, table, starts, lens) = self.plan(batch), batch.cached()
        run = lambda *more: self.layer.run(plan, batch.q, *more)  # noqa: E731
        write, pages = self.layer.write_kv, torch.zeros(5, 8).int()
        page, more = table[0, 0].item(), starts.clone()
        more[5] += 1
        for op, line, call in (
            (
                "paged_attention",
                "sequence 1 has 400 keys, and its row of block_table 14 pages of 16",
                lambda: run(k, v, table, starts, (lens + (lens == 77) * 323).int()),
            ),
            (
                "paged_attention",
                "query_start_loc goes from 109 to 111 at sequence 4, and q has 110 tokens",
                lambda: run(k, v, table, more, lens),
            ),
            (
                "paged_attention",
                "query_start_loc goes up to 111 at sequence 4, and the plan is for 110 tokens",
                lambda: self.layer.run(
                    plan, torch.zeros(111, 8, 64), k, v, table, more, lens, out=batch.q.clone()
                ),
            ),
            (
                "paged_attention",
                f"block_table[0][0] is {page}, which is not in the cache",
                lambda: run(k[:page], v, table, starts, lens),
            ),
            (
                "paged_attention",
                "out is written, and its elements lie on one another: dimension 0 has a "
                "stride of 0",
                lambda: self.layer.run(
                    plan,
                    batch.q,
                    k,
                    v,
                    table,
                    starts,
                    lens,
                    out=torch.empty(1, 8, 64).expand(110, 8, 64),
                ),
            ),
            (
                "write_kv",
                f"slots[1] is {16 * len(k)}, and the cache has {16 * len(k)}",
                lambda: write(plan, batch.k, batch.v, k, v, torch.tensor([3, 16 * len(k)])),
            ),
            (
                "write_kv",
                "sequence 1 has 400 keys, and its row of block_table 14 pages of 16",
                lambda: write(
                    plan,
                    batch.k,
                    batch.v,
                    k,
                    v,
                    None,
                    table,
                    starts,
                    (lens + (lens == 77) * 323).int(),
                ),
            ),
            (
                "page_table",
                "indptr goes up to 4 at sequence 3, and indices has 3 entries",
                lambda: self.layer.page_table(
                    plan, pages, torch.arange(6).int(), torch.arange(3).int()
                ),
            ),
            (
                "page_table",
                "sequence 0 has 5 pages, and a row of block_table 4 entries",
                lambda: self.layer.page_table(
                    plan, pages[:, :4], torch.arange(0, 30, 5).int(), torch.arange(25).int()
                ),
            ),
        ):
            with self.subTest(line):
                self.refused(f"attune::{op}: {line}", call)
        self.refused(
            "attune_page_table: indices[1] is 4294967296, it must be below 2^31",
            lambda: self.layer.page_table(
                plan, pages, torch.arange(6).int(), torch.arange(5) << 32
            ),
        )

    def test_tensors_without_memory(self):
        batch = Batch(DECODE)
        for i in range(5):
            cached = list(batch.cached())
            cached[i] = cached[i].to("meta")
            self.refused(
                "attune: some tensors are on the device meta, and others are not",
                lambda: self.layer.run(self.plan(batch), batch.q, *cached),
            )

    def test_bytes_that_are_no_plan(self):
        arguments = self.arguments(Batch(DECODE))
        for plan in (torch.zeros_like(arguments[7]), arguments[7][:-1], arguments[7].int()):
            arguments[7] = plan
            with self.assertRaisesRegex(
                RuntimeError, "attune::paged_attention: plan is no plan: it is"
            ):
                torch.ops.attune.paged_attention(*arguments)

    def test_a_plan_keeps_its_layer(self):
        """So does the memory of its tensor, when no object of libattune is held any more."""
        batch = Batch(DECODE)
        layer = libattune.Context(DEVICE).prepare(**SHAPE)
        self.plan(batch)
        arguments, held = self.arguments(batch, self.plan(batch, layer)), weakref.ref(layer)
        arguments[7] = arguments[7].data
        del layer
        gc.collect()
        self.assertIsNotNone(held())
        torch.ops.attune.paged_attention(*arguments)
        self.right(arguments[0], batch.want()[0])
        del arguments
        gc.collect()
        self.assertIsNone(held())

    def test_statuses(self):
        """An operator's line has the status in brackets, which becomes that of Error."""
        arguments = self.arguments(Batch(DECODE))
        arguments[4] = arguments[4].long()
        with self.assertRaisesRegex(RuntimeError, r"block_table must .* \(invalid argument\)\Z"):
            torch.ops.attune.paged_attention(*arguments)
        for status in libattune.Status:
            text = ffi.string(C.attune_status_text(status)).decode()
            error = _torch._refused(RuntimeError(f"attune::write_kv: why (so) ({text})\nmore"))
            self.assertEqual((str(error), error.status), ("attune::write_kv: why (so)", status))
        error = _torch._refused(RuntimeError("torch's own (line)"))
        self.assertEqual((str(error), error.status), ("torch's own (line)", 1))

    def test_what_the_library_refuses(self):
        batch = Batch(DECODE)
        other = self.context.prepare(**dict(SHAPE, head_dim=128))
        self.refused(
            "plan: it was made by another layer; each plan runs on its own",
            lambda: other.run(self.plan(batch), batch.q, *batch.cached()),
        )


class Traced(Case):
    def overloads(self, arguments):
        """(operator, its arguments, whether it returns out) of those of paged_attention."""
        op = torch.ops.attune.paged_attention
        yield op.default, arguments, False
        yield op.plain_out, arguments[:8], False
        yield op.new, arguments[1:], True
        yield op.plain, arguments[1:8], True

    def test_fake_tensors(self):
        batch = Batch(MIXED)
        wide = torch.zeros(len(batch.q), 2, 8, 64, dtype=DTYPE, device=DEVICE)
        for q in (batch.q, wide[:, 1]):
            for op, arguments, gives in self.overloads(self.arguments(batch, q=q)):
                real = op(*arguments)
                with FakeTensorMode() as mode:
                    made = op(*map(mode.from_tensor, arguments))
                if gives:
                    self.assertEqual((made.shape, made.dtype), (real.shape, real.dtype))
                    self.assertEqual((made.stride(), made.device), (real.stride(), real.device))
                self.assertTrue(gives or made is real is None)

    def test_overloads_are_found_by_their_arguments(self):
        batch = Batch(MIXED)
        for _, arguments, gives in self.overloads(self.arguments(batch)):
            made = torch.ops.attune.paged_attention(*arguments)
            self.right(made if gives else arguments[0], batch.want()[0])

    def test_opcheck(self):
        batch, none = Batch(MIXED), torch.empty(0, device=DEVICE)
        plan, ops = self.plan(batch).tensor, torch.ops.attune
        for op, arguments, _ in self.overloads(self.arguments(batch)):
            torch.library.opcheck(op, arguments)
        torch.library.opcheck(
            ops.write_kv.default,
            (*batch.kv.clone().unbind(1), batch.k, batch.v, plan, batch.slots(), *[none] * 5),
        )
        torch.library.opcheck(
            ops.page_table.default, (batch.table.clone(), batch.key_starts, none, plan)
        )
        equal = Batch([(1, 300)] * 3)  # so that each entry of the table is written
        plan = self.plan(equal).tensor
        torch.library.opcheck(ops.ragged_table.default, (equal.key_starts, plan, 19))

    def compiled(self, backend):
        """Layer.run in a function of one graph, which takes the next step's plan as it is."""
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()

        @torch.compile(fullgraph=True, backend=backend)
        def step(plan, q, *cached):
            return self.layer.run(plan, q * 2, *cached) + 1

        for lengths in (DECODE, DECODE[::-1]):
            batch = Batch(lengths)
            out = step(self.plan(batch), batch.q, *batch.cached())
            batch.q *= 2
            self.right(out - 1, batch.want()[0])
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_compile_by_aot_eager(self):
        self.compiled("aot_eager")

    def test_a_plan_of_inference_mode_runs_outside_of_it(self):
        batch, layer = Batch(DECODE), self.context.prepare(**dict(SHAPE, window_left=9))
        with torch.inference_mode():
            plan = self.plan(batch, layer)
        step = torch.compile(
            lambda q, *c: layer.run(plan, q, *c), fullgraph=True, backend="aot_eager"
        )
        self.right(step(batch.q, *batch.cached()), batch.want(left=9)[0])

    @unittest.skipIf(DEVICE == "cpu", "its compiler takes half a minute")
    def test_compile_by_inductor(self):
        self.compiled("inductor")

    def test_compiled_writes_are_seen_by_the_run_behind(self):
        batch = Batch(DECODE)
        layer = self.layer

        @torch.compile(fullgraph=True, backend="aot_eager")
        def step(plan, key_plan, k_cache, v_cache):
            layer.write_kv(key_plan, batch.k, batch.v, k_cache, v_cache, batch.slots())
            return layer.run(plan, batch.q, k_cache, v_cache, *batch.cached()[2:])

        kv = torch.zeros_like(batch.kv)
        key_plan = layer.plan(batch.key_starts.cpu(), batch.lens.cpu())
        self.right(step(self.plan(batch), key_plan, *kv.unbind(1)), batch.want()[0])
        self.assertTrue(torch.equal(kv[:, 0].flatten(0, 1)[batch.slots()], batch.k))

    @unittest.skipIf(DEVICE == "cpu", "CUDA graphs are of GPUs")
    def test_graphs_replay_with_other_lengths(self):
        batch = Batch([(1, 300)] * 8)
        plan = self.layer.plan_bounds(8, 8, 1, 300)
        given, graph = torch.empty_like(batch.q), torch.cuda.CUDAGraph()
        self.layer.run(plan, batch.q, *batch.cached(), out=given)
        with torch.cuda.graph(graph):
            self.layer.run(plan, batch.q, *batch.cached(), out=given)
            made = self.layer.run(plan, batch.q, *batch.cached())
        for keys in ([300] * 8, [1, 2, 3, 299, 150, 16, 17, 0]):
            batch.lens.copy_(torch.tensor(keys))
            given.fill_(7)
            made.fill_(7)
            graph.replay()
            want = torch.zeros_like(batch.q, dtype=torch.float32)
            for i, n in enumerate(keys):
                if n:
                    k, v = batch.of(batch.k, i)[:n], batch.of(batch.v, i)[:n]
                    want[i] = attend(batch.q[i : i + 1], k, v)[0]
            self.right(given, want)
            self.right(made, want)


class Calls(Case):
    def test_threads(self):
        batches = [Batch(MIXED), Batch(DECODE)]
        wants, faults = [b.want()[0] for b in batches], []

        def work(batch, want):
            for _ in range(50):
                faults.append(
                    error(self.layer.run(self.plan(batch), batch.q, *batch.cached()), want)
                )

        threads = [threading.Thread(target=work, args=a) for a in zip(batches * 2, wants * 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(faults), 200)
        self.assertLess(max(faults), 1)

    def test_no_memory_stays_with_a_call(self):
        batch = Batch(DECODE)
        good, empty = self.arguments(batch), self.layer.plan([0, 0], [0])
        nothing, bad = list(good), list(good)
        nothing[7], bad[4] = empty.tensor, batch.table.long()
        op = torch.ops.attune.paged_attention

        def calls(n):
            for _ in range(n):
                op(*nothing)
                op.plain(*nothing[1:8])
            for _ in range(n // 20):
                op(*good)
                for refused, arguments in ((op, bad), (op.plain, bad[1:8])):
                    try:
                        refused(*arguments)
                    except RuntimeError:
                        pass
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        before = calls(20000)
        self.assertLess(
            calls(120000) - before, 1500
        )  # KiB; a tensor's handle a call would be 2 MiB


if __name__ == "__main__":
    unittest.main()
