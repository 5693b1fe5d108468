# SPDX-License-Identifier: Apache-2.0
"""test_flash.py - FlashAttention's functions against attention in fp64."""

import inspect
import os
import unittest
from unittest.mock import patch

import torch
from rows import DEVICE, DTYPE, Batch, attend, error

from torch._subclasses.fake_tensor import FakeTensorMode

from libattune import Error, _flash_plans, context
from libattune.flash_attn_interface import (
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
)

torch.set_num_threads(1)
MIXED = [(1, 70), (20, 20), (3, 50), (9, 40)]
SLOPES, SINKS = torch.linspace(0.01, 0.4, 8, device=DEVICE), torch.linspace(-2, 3, 8, device=DEVICE)
# What FlashAttention calls it, and rows.attend.
MASKS = (
    (dict(causal=True), dict()),
    (dict(), dict(causal=False)),
    (dict(causal=True, window_size=(10, 0)), dict(left=10)),
    (dict(causal=True, window_size=(10, -1)), dict(left=10)),
    (dict(window_size=(-1, 0)), dict()),
    (dict(window_size=(10, -1)), dict(causal=False, left=10)),
    (
        dict(causal=True, window_size=None, softcap=3.0, softmax_scale=0.2),
        dict(softcap=3.0, scale=0.2),
    ),
    (dict(causal=True, alibi_slopes=SLOPES), dict(slopes=SLOPES)),
    (dict(causal=True, s_aux=SINKS), dict(sinks=SINKS)),
    (dict(causal=True, s_aux=SINKS.bfloat16()), dict(sinks=SINKS.bfloat16())),
)


class Case(unittest.TestCase):
    def right(self, out, want):
        self.assertEqual(out.shape, want.shape)
        self.assertLess(error(out, want), 1)

    def refused(self, line, function, *arguments, **more):
        with self.assertRaises(Error) as e:
            function(*arguments, **more)
        self.assertEqual(str(e.exception), f"{function.__name__}: {line}")


class Varlen(Case):
    def setUp(self):
        self.batch = b = Batch(MIXED)
        self.ragged = (b.q, b.k, b.v, b.starts, b.key_starts, 20, 70)
        self.paged = (b.q, b.k_cache, b.v_cache, b.starts)

    def test_masks_and_scores(self):
        for flash, mask in MASKS:
            with self.subTest(**flash):
                self.right(
                    flash_attn_varlen_func(*self.ragged, **flash), self.batch.want(**mask)[0]
                )

    def test_paged(self):
        b, want = self.batch, self.batch.want()[0]
        more = dict(max_seqlen_q=20, max_seqlen_k=70, block_table=b.table, causal=True)
        for lens in (dict(seqused_k=b.lens), dict(cu_seqlens_k=b.key_starts)):
            self.right(flash_attn_varlen_func(*self.paged, **lens, **more), want)

    def test_keys_that_are_not_used(self):
        b, used = self.batch, [60, 20, 30, 40]
        want = [
            attend(b.of(b.q, i), b.of(b.k, i)[:n], b.of(b.v, i)[:n])[0] for i, n in enumerate(used)
        ]
        seqused_k = torch.tensor(used, device=DEVICE).int()
        out = flash_attn_varlen_func(*self.ragged, seqused_k=seqused_k, causal=True)
        self.right(out, torch.cat(want))

    def test_a_given_out(self):
        out = torch.empty_like(self.batch.q)
        self.assertIs(flash_attn_varlen_func(*self.ragged, causal=True, out=out), out)
        self.right(out, self.batch.want()[0])

    @unittest.skipIf(DEVICE == "cpu", "no kernel for CPUs gives an LSE")
    def test_lse(self):
        for name in ("return_softmax_lse", "return_attn_probs"):
            out, lse = flash_attn_varlen_func(*self.ragged, causal=True, **{name: True})
            want = self.batch.want()
            self.right(out, want[0])
            self.assertEqual(lse.shape, (8, len(out)))
            self.assertLess((lse - want[1].t()).abs().max().item(), 2e-2)

    def test_refused(self):
        for line, more in (
            (
                "dropout_p is given, which libattune does not know: leave it out",
                dict(dropout_p=0.1),
            ),
            ("qv is given, which libattune does not know: leave it out", dict(qv=self.batch.q)),
            (
                "window_size=(3, 4): behind a token are seen no keys (0, or causal=True) or all (-1)",
                dict(window_size=(3, 4)),
            ),
            ("alibi_slopes need causal=True", dict(alibi_slopes=SLOPES)),
        ):
            self.refused(line, flash_attn_varlen_func, *self.ragged, **more)
        k, v, starts, ends = self.ragged[1:5]
        shapes = f"has the shape {list(k.shape)} and v {list(v[1:].shape)}: they must be equal"
        for line, arguments, more in (
            ("window_size=3: it must be (left, right)", (k, v, starts, ends), dict(window_size=3)),
            (f"k {shapes}", (k, v[1:], starts, ends), {}),
            (
                f"k has the shape {list(k[None].shape)}: it must be [tokens, kv_heads, head_dim]",
                (k[None], v[None], starts, ends),
                {},
            ),
            (
                f"k has the shape {list(k.shape)}: it must be [pages, page_size, kv_heads, head_dim]",
                (k, v, starts, ends),
                dict(block_table=self.batch.table),
            ),
            ("k is of type NoneType: it must be a torch tensor", (None, v, starts, ends), {}),
            (
                "cu_seqlens_q has the shape [5] and lengths of keys [3]: it must have one more than they, "
                "and q without it a batch of as many",
                (k, v, starts, ends[1:]),
                {},
            ),
        ):
            self.refused(line, flash_attn_varlen_func, self.batch.q, *arguments, 20, 70, **more)
        self.refused(
            "cu_seqlens_k is missing (with block_table, seqused_k is enough)",
            flash_attn_varlen_func,
            *self.ragged[:4],
        )
        q = self.batch.q.clone().requires_grad_()
        self.refused(
            "there is no backward pass: call it under torch.no_grad()",
            flash_attn_varlen_func,
            q,
            *self.ragged[1:],
        )
        with torch.no_grad():
            flash_attn_varlen_func(q, *self.ragged[1:])

    def test_a_scale_of_zero_and_sinks_with_gradients_are_refused(self):
        with self.assertRaisesRegex(Error, "sm_scale=0.0: it must be above 0"):
            flash_attn_varlen_func(*self.ragged, softmax_scale=0.0)
        self.refused(
            "there is no backward pass: call it under torch.no_grad()",
            flash_attn_varlen_func,
            *self.ragged,
            s_aux=SINKS.clone().requires_grad_(),
        )

    def test_windows_beyond_all_keys(self):
        for window in ((2**31 - 1, 0), (2**40, 0)):
            self.right(
                flash_attn_varlen_func(*self.ragged, window_size=window), self.batch.want()[0]
            )
        out = flash_attn_varlen_func(*self.ragged, window_size=(-1, 2**31 - 1))
        self.right(out, self.batch.want(causal=False)[0])

    @unittest.skipIf(DEVICE != "cpu", "lengths are on the device")
    def test_lengths_that_do_not_fit_on_the_cpu(self):
        b = self.batch
        rows, lens = (b.q, b.k, b.v, b.starts, b.key_starts), torch.tensor([5, 5, 5, 5]).int()
        want = [attend(b.of(b.q, i), b.of(b.k, i)[:5], b.of(b.v, i)[:5])[0] for i in range(4)]
        self.right(flash_attn_varlen_func(*rows, seqused_k=lens, causal=True), torch.cat(want))
        self.refused(
            "seqused_k has a length above that of cu_seqlens_k, or another number of them",
            flash_attn_varlen_func,
            *rows,
            seqused_k=lens * 5,
        )
        with self.assertRaisesRegex(Error, "which is not in the cache"):
            flash_attn_varlen_func(b.q, b.k[:100], b.v[:100], b.starts, b.key_starts)
        with self.assertRaisesRegex(
            Error, "sequence 0 has 70 keys, and its row of block_table 3 pages"
        ):
            flash_attn_varlen_func(*self.paged, seqused_k=b.lens, block_table=b.table[:, :3])

    def test_inside_torch_compile(self):
        @torch.compile(backend="aot_eager")
        def f(q, *more):
            return flash_attn_varlen_func(q * 2, *more, causal=True) + 1

        out = f(*self.ragged)
        self.batch.q *= 2
        self.right(out - 1, self.batch.want()[0])

    def test_torch_compile_compiles_nothing_of_a_plan(self):
        """What is kept would be memory of a graph, which its next replay writes again."""
        from torch._C._dynamo.eval_frame import get_eval_frame_callback

        seen, x = [], torch.ones(3, 2, 2, 64, device=DEVICE, dtype=DTYPE)

        def look(f):
            return lambda *x, **more: seen.append(get_eval_frame_callback()) or f(*x, **more)

        with (
            patch.object(_flash_plans, "shared_layer", look(context.shared_layer)),
            patch.object(torch, "arange", look(torch.arange)),
        ):
            f = torch.compile(lambda x: flash_attn_func(x * 2, x, x, 0.3), backend="eager")
            self.right(f(x), x)
        self.assertGreater(len(seen), 1)
        self.assertEqual(set(seen), {None})

    def test_a_mode_that_makes_no_memory(self):
        """It is refused, and nothing is kept of it."""
        q, k = (torch.ones(*n, 64, device=DEVICE, dtype=DTYPE) for n in ((3, 5, 4), (3, 21, 2)))
        with FakeTensorMode():
            fake_q, fake_k = (torch.empty(x.shape, device=DEVICE, dtype=DTYPE) for x in (q, k))
            with self.assertRaisesRegex(Error, "makes tensors without memory: plan and call"):
                flash_attn_func(fake_q, fake_k, fake_k)
            layer = context.shared_layer(
                DEVICE, num_qo_heads=4, num_kv_heads=2, head_dim=64, page_size=8, dtype=DTYPE
            )
            with self.assertRaisesRegex(Error, "makes tensors without memory"):
                layer.plan([0, 1], [5])
        with self.assertRaisesRegex(Error, "makes tensors without memory"):
            torch.func.functionalize(flash_attn_func)(q, k, k)
        self.right(flash_attn_func(q, k, k), q)


class Processes(Case):
    @unittest.skipIf(DEVICE != "cpu", "a GPU's context does not survive fork()")
    def test_a_child_of_fork_has_layers_of_its_own(self):
        x = torch.ones(1, 3, 2, 64)
        flash_attn_func(x, x, x)
        child = os.fork()
        if not child:
            try:
                out = flash_attn_func(x, x, x)
                code = int(not torch.equal(out, x))
            except BaseException:
                code = 2
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


class Dense(Case):
    """Sequences of one length, K and V token by token, head by head, and of unlike layouts."""

    def test_layouts_and_masks(self):
        q = torch.randn(3, 7, 8, 64, device=DEVICE).to(DTYPE)
        k, v = torch.randn(2, 3, 85, 2, 64, device=DEVICE).to(DTYPE)
        by_head = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v)]
        room = torch.cat([v, v], 1)[:, :85]
        for name, kv in dict(
            token=(k, v), head=by_head, mixed=(k, by_head[1]), room=(k, room)
        ).items():
            for flash, mask in MASKS:
                with self.subTest(layout=name, **flash):
                    want = [attend(q[i], k[i], v[i], **mask)[0] for i in range(3)]
                    self.right(flash_attn_func(q, *kv, **flash), torch.stack(want))

    def test_no_keys_and_one(self):
        q = torch.randn(3, 1, 8, 64, device=DEVICE).to(DTYPE)
        # Strides of a dimension of size 1 say nothing: here that of keys.
        k, v = torch.randn(2, 1, 3, 2, 64, device=DEVICE).to(DTYPE).transpose(1, 2)
        want = torch.stack([attend(q[i], k[i], v[i])[0] for i in range(3)])
        self.right(flash_attn_func(q, k, v), want)
        self.right(flash_attn_func(q, k[:, :0], v[:, :0]), torch.zeros_like(q))
        more = k.expand(3, 5, 2, 64)
        self.right(flash_attn_func(q, more, more), v_of_one(k))

    def test_no_sequences(self):
        q, k = torch.zeros(0, 3, 8, 64, device=DEVICE), torch.zeros(0, 96, 2, 64, device=DEVICE)
        for call in (flash_attn_func, flash_attn_with_kvcache):
            out, lse = call(q.to(DTYPE), k.to(DTYPE), k.to(DTYPE), return_softmax_lse=True)
            self.assertEqual((out.shape, lse.shape), (q.shape, (0, 8, 3)))

    def test_refused(self):
        q, k = torch.zeros(3, 1, 8, 64, device=DEVICE), torch.zeros(3, 5, 2, 64, device=DEVICE)
        for line, k, v in (
            ("k has the shape [3, 5, 2, 64] and v [3, 4, 2, 64]: they must be equal", k, k[:, :4]),
            (
                "k has the shape [2, 5, 2, 64]: it must be [3, keys, kv_heads, head_dim]",
                k[:2],
                k[:2],
            ),
        ):
            self.refused(line, flash_attn_func, q, k, v)


def v_of_one(v):
    """Attention over one key, however often it is there."""
    return v.repeat_interleave(4, 2)


class Cache(Case):
    """Decodes of one token and of three: the cache takes the new tokens first."""

    def world(self, new):
        b = Batch([(new, n) for n in (70, 20, 50, 40)])
        b.new = [
            torch.stack([b.of(x, i)[-new:] for i in range(4)]) for x in (b.k, b.v)
        ]  # [batch, new, ...]
        for i, n in enumerate(b.keys):  # as it is in front of the step
            at = torch.arange(n - new, n, device=DEVICE)
            b.kv[b.table[i].long()[at // 16], :, at % 16] = 9
        b.before, b.q4 = b.lens - new, b.q.unflatten(0, (4, new))
        return b, b.want()[0].unflatten(0, (4, new))

    def test_a_paged_cache_takes_new_tokens(self):
        for new in (1, 3):
            for name in ("block_table", "page_table"):
                b, want = self.world(new)
                out = flash_attn_with_kvcache(
                    b.q4,
                    b.k_cache,
                    b.v_cache,
                    *b.new,
                    cache_seqlens=b.before,
                    causal=True,
                    **{name: b.table},
                )
                self.right(out, want)
                written = b.k_cache.flatten(0, 1)[b.slots()]
                self.assertTrue(torch.equal(written, b.k))

    def test_tokens_as_rows(self):
        b, want = self.world(3)
        out = flash_attn_with_kvcache(
            b.q,
            b.k_cache,
            b.v_cache,
            *(x.flatten(0, 1) for x in b.new),
            cache_seqlens=b.before,
            page_table=b.table,
            cu_seqlens_q=b.starts,
            cu_seqlens_k_new=b.starts,
            max_seqlen_q=3,
            causal=True,
        )
        self.right(out, want.flatten(0, 1))

    def dense(self, b, slots=96):
        """The cache as [batch, slots, heads, head_dim]: contiguous, and with heads in front."""
        shape = (4, slots, *b.k.shape[1:])
        caches = [torch.full(shape, 9.0, device=DEVICE).to(DTYPE) for _ in range(2)]
        for i, n in enumerate(b.before.tolist()):
            for cache, x in zip(caches, (b.k, b.v)):
                cache[i, :n] = b.of(x, i)[:n]
        yield caches
        yield [x.transpose(1, 2).contiguous().transpose(1, 2) for x in caches]
        yield [torch.cat([x, x], 1)[:, :slots] for x in caches]

    def test_a_cache_without_pages(self):
        for slots in (96, 73):
            for number in range(3):
                b, want = self.world(1)
                k, v = list(self.dense(b, slots))[number]
                out = flash_attn_with_kvcache(
                    b.q4, k, v, *b.new, cache_seqlens=b.before, causal=True
                )
                self.right(out, want)
                self.assertTrue(torch.equal(k[1, 19], b.new[0][1, 0]))

    def test_rows_of_a_cache_by_their_index(self):
        b, want = self.world(1)
        k, v = (x.flip(0) for x in next(self.dense(b)))
        out = flash_attn_with_kvcache(
            b.q4,
            k,
            v,
            *b.new,
            cache_seqlens=b.before,
            causal=True,
            cache_batch_idx=torch.tensor([3, 2, 1, 0], device=DEVICE),
        )
        self.right(out, want)

    def test_lengths_as_a_number(self):
        b, _ = self.world(1)
        k, v = next(self.dense(b))
        for lens, n in ((None, 96), (40, 40)):
            want = torch.stack([attend(b.q4[i], k[i, :n], v[i, :n])[0] for i in range(4)])
            self.right(flash_attn_with_kvcache(b.q4, k, v, cache_seqlens=lens), want)

    def test_queries_of_any_strides(self):
        for order in ((0, 1, 2, 3), (1, 0, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)):
            b, want = self.world(3)
            back = sorted(range(4), key=lambda d: order[d])
            q = b.q4.permute(order).contiguous().permute(back)
            more = dict(cache_seqlens=b.before, block_table=b.table, causal=True)
            out = flash_attn_with_kvcache(q, b.k_cache, b.v_cache, *b.new, **more)
            self.right(out, want)

    def test_an_out_of_any_strides(self):
        b, want = self.world(3)
        out = torch.empty(3, 4, 8, 64, device=DEVICE, dtype=DTYPE).transpose(0, 1)
        self.right(
            flash_attn_with_kvcache(
                b.q4,
                b.k_cache,
                b.v_cache,
                *b.new,
                cache_seqlens=b.before,
                block_table=b.table,
                causal=True,
                out=out,
            ),
            want,
        )
        self.right(out, want)

    def test_arrays_that_do_not_fit(self):
        b, _ = self.world(1)
        k, v = next(self.dense(b))
        new = b.new[0]
        for line, more in (
            (
                "k_cache has the shape [4, 96, 2, 64] and v_cache [4, 64, 2, 64]: they must be equal",
                dict(v_cache=v[:, :64]),
            ),
            (
                "k has the shape [4, 1, 2, 64] and v [3, 1, 2, 64]: they must be equal",
                dict(k=new, v=new[:3]),
            ),
            ("k_cache has 3 rows for 4 sequences", dict(k_cache=k[:3], v_cache=v[:3])),
            (
                "k_cache has no slots: its shape is [4, 0, 2, 64]",
                dict(k_cache=k[:, :0], v_cache=v[:, :0]),
            ),
            ("cache_seqlens=5.5: it must be an integer", dict(cache_seqlens=5.5)),
            *[
                (
                    f"96 slots have no room for 1 tokens of k behind {n or 96}",
                    dict(cache_seqlens=n, k=new, v=new),
                )
                for n in (None, 96)
            ],
            (
                f"k has the shape {list(k[0].shape)}: it must be [pages, page_size, kv_heads, head_dim]",
                dict(k_cache=k[0], v_cache=v[0], block_table=b.table),
            ),
            (
                "block_table has the shape [4]: it must be [sequences, pages of one]",
                dict(block_table=b.table[:, 0]),
            ),
            (
                f"out is of torch.float64 on {b.q4.device}: it must be as q",
                dict(out=torch.zeros(4, 2, 8, 64, dtype=torch.float64, device=DEVICE)[:, ::2]),
            ),
            (
                "cache_seqlens=97: it must be from 0 to 96, the slots of each",
                dict(cache_seqlens=97),
            ),
            (
                "cache_batch_idx must be int32 or int64 of the shape [4]",
                dict(cache_batch_idx=torch.tensor([1], device=DEVICE)),
            ),
            (
                "out has the shape [3, 1, 8, 64] and q [4, 1, 8, 64]: they must be equal",
                dict(out=b.q4[:3]),
            ),
            (
                "page_table and block_table are two names of one: give one of them",
                dict(page_table=b.table, block_table=b.table),
            ),
        ):
            arguments = {**dict(k_cache=k, v_cache=v, cache_seqlens=b.before), **more}
            self.refused(line, flash_attn_with_kvcache, b.q4, **arguments)

    @unittest.skipIf(DEVICE != "cpu", "lengths are on the device")
    def test_what_does_not_fit_on_the_cpu(self):
        b, _ = self.world(1)
        k, v = next(self.dense(b))
        before, full = k.clone(), torch.tensor([96, 0, 0, 0]).int()
        with self.assertRaisesRegex(
            Error, "sequence 0 has 97 keys, and its row of block_table 3 pages"
        ):
            flash_attn_with_kvcache(b.q4, k, v, *b.new, cache_seqlens=full)
        self.assertTrue(torch.equal(k, before))
        with self.assertRaisesRegex(Error, "sequence 0 has 150 keys"):
            flash_attn_with_kvcache(b.q4, k, v, cache_seqlens=torch.tensor([150, 1, 1, 1]).int())
        self.refused(
            "cache_batch_idx must be from 0 to 3, the rows of k_cache",
            flash_attn_with_kvcache,
            b.q4,
            k,
            v,
            cache_seqlens=b.before,
            cache_batch_idx=torch.tensor([-1, 0, 1, 2]),
        )

    @unittest.skipIf(DEVICE == "cpu", "no kernel for CPUs gives an LSE")
    def test_lse(self):
        b, want = self.world(3)
        out, lse = flash_attn_with_kvcache(
            b.q4,
            b.k_cache,
            b.v_cache,
            *b.new,
            cache_seqlens=b.before,
            causal=True,
            block_table=b.table,
            return_softmax_lse=True,
        )
        self.right(out, want)
        self.assertEqual(lse.shape, (4, 8, 3))
        want = b.want()[1].unflatten(0, (4, 3)).transpose(1, 2)
        self.assertLess((lse - want).abs().max().item(), 2e-2)

    @unittest.skipIf(DEVICE == "cpu", "a GPU has the types")
    def test_a_cache_of_8_bits(self):
        b, want = self.world(1)
        scale = torch.full((1,), 0.05, device=DEVICE)
        kv = (b.kv.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        out = flash_attn_with_kvcache(
            b.q4,
            *kv.unbind(1),
            *b.new,
            cache_seqlens=b.before,
            causal=True,
            block_table=b.table,
            k_descale=scale,
            v_descale=scale,
        )
        self.assertLess((out.float() - want).abs().max().item(), 0.2)

    @unittest.skipIf(DEVICE == "cpu", "CUDA graphs are of GPUs")
    def test_a_captured_decode(self):
        b, want = self.world(1)

        def step():
            return flash_attn_with_kvcache(
                b.q4,
                b.k_cache,
                b.v_cache,
                *b.new,
                cache_seqlens=b.before,
                causal=True,
                block_table=b.table,
            )

        step()
        b, want = self.world(1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step()
        graph.replay()
        self.right(out, want)

    def test_refused(self):
        b, _ = self.world(1)
        cache = (b.q4, b.k_cache, b.v_cache)
        self.refused(
            "rotary_cos is given, which libattune does not know: leave it out",
            flash_attn_with_kvcache,
            *cache,
            rotary_cos=b.q,
        )
        self.refused(
            "k and v are given both or not at all", flash_attn_with_kvcache, *cache, k=b.new[0]
        )
        self.refused(
            "without cu_seqlens_q the tokens are [batch, tokens, heads, head_dim]",
            flash_attn_with_kvcache,
            b.q,
            *cache[1:],
        )


class Signatures(unittest.TestCase):
    def test_names_that_engines_look_for(self):
        varlen = inspect.signature(flash_attn_varlen_func).parameters
        self.assertEqual(
            list(varlen)[:7],
            ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"],
        )
        for name in (
            "window_size",
            "softcap",
            "deterministic",
            "s_aux",
            "block_table",
            "dropout_p",
        ):
            self.assertIn(name, varlen)
        self.assertIn("block_table", inspect.signature(flash_attn_with_kvcache).parameters)


if __name__ == "__main__":
    unittest.main()
