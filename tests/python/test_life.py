# SPDX-License-Identifier: Apache-2.0
"""test_life.py - threads, contexts, memory over many calls, fork, and the order of closing."""

import copy
import gc
import os
import threading
import unittest

import kit
from kit import Batch, get

import libattune


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Life(unittest.TestCase):
    def test_threads_share_a_layer(self):
        """Each with lengths of its own, workspaces included."""
        context = libattune.Context(kit.DEVICE)
        batches = [Batch([(1, 4000 + 900 * i), (1, 50)], heads=(8, 1), seed=i) for i in range(4)]
        layer = context.prepare(**batches[0].shape())
        wrong = []

        def work(batch):
            want = batch.reference()[0]
            for _ in range(20):
                error = kit.largest_error(batch.run(layer), want, batch.dtype)
                if not error < 1:
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(b,)) for b in batches]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_two_contexts(self):
        batch = Batch([(30, 30), (1, 99)])
        layers = [libattune.Context(kit.DEVICE).prepare(**batch.shape()) for _ in range(2)]
        outs = [get(batch.run(layer)) for layer in layers]
        self.assertTrue((outs[0] == outs[1]).all())
        with self.assertRaisesRegex(libattune.Error, "another layer"):
            batch.run(layers[0], layers[1].plan(batch.starts, batch.seq_lens))

    def test_a_copy_of_a_layer_is_the_layer(self):
        """Else its kernels would be released with the first of the two."""
        batch = Batch([(30, 30), (1, 99)])
        context = libattune.Context(kit.DEVICE)
        layer = context.prepare(**batch.shape())
        self.assertIs(copy.deepcopy(context), context)
        for copied in (copy.copy, copy.deepcopy):
            self.assertIs(copied(layer), layer)

    def test_many_calls_keep_no_memory(self):
        batch = Batch([(1, 20)], heads=(1, 1))
        layer = libattune.Context(kit.DEVICE).prepare(**batch.shape())
        out, sizes = kit.empty((1, 1, 64), batch.dtype), []
        for _ in range(3):
            for _ in range(33_000):
                batch.run(layer, out=out)
            gc.collect()
            sizes.append(resident())
        self.assertLess(sizes[2] - sizes[0], 1 << 20)  # 16 bytes a call

    def test_contexts_that_are_garbage_are_closed(self):
        """In a circle Python may finalize a context before its layers."""
        before = len(os.listdir("/proc/self/task"))
        for _ in range(20):
            context = libattune.Context(kit.DEVICE)
            layer = context.prepare(**Batch([(1, 1)]).shape())
            layer.circle, context.circle = context, layer
            del context, layer
            gc.collect()
        self.assertLessEqual(len(os.listdir("/proc/self/task")), before + 1)

    def test_a_layer_outlives_its_context(self):
        batch = Batch([(1, 99)])
        layer = libattune.Context(kit.DEVICE).prepare(**batch.shape())
        gc.collect()
        self.assertLess(kit.largest_error(batch.run(layer), batch.reference()[0], batch.dtype), 1)

    @unittest.skipIf(kit.DEVICE != "cpu", "a GPU's context does not survive fork()")
    def test_a_child_of_fork_opens_its_own(self):
        batch = Batch([(1, 99)])
        layer = libattune.Context("cpu").prepare(**batch.shape())
        batch.run(layer)
        child = os.fork()
        if not child:
            code = 1
            try:
                try:
                    batch.run(layer)
                except libattune.Error as e:
                    own = libattune.Context("cpu").prepare(**batch.shape())
                    error = kit.largest_error(batch.run(own), batch.reference()[0], batch.dtype)
                    code = 0 if "fork" in str(e) and error < 1 else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_the_device_is_named(self):
        context = libattune.Context(kit.DEVICE)
        self.assertTrue(context.name and context.heuristic)
        self.assertEqual(context.device.partition(":")[0], kit.DEVICE.partition(":")[0])
