# SPDX-License-Identifier: Apache-2.0
"""test_capture.py - libattune.capture: what it writes, when, and that an engine does not notice it.
`attune scenarios --steps` reads such files in t_python.sh."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np

import libattune

SHAPE = dict(num_qo_heads=8, num_kv_heads=2, head_dim=64, page_size=16, dtype="float32")


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


class Capture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "steps.jsonl")
        self.layer = libattune.Context("cpu").prepare(**SHAPE)

    def test_steps_of_all_layers(self):
        window = self.layer.context.prepare(**SHAPE, window_left=127, sm_scale=0.25)
        with libattune.capture(self.path) as c:
            for layer in self.layer, window, self.layer, window:
                layer.plan([0, 3, 4, 5], [10, 2048, 2048])
            self.layer.plan(np.array([0, 512], np.int64), np.array([512], np.int32))
            self.assertEqual(len(lines(self.path)), 5, "each line is there at once")
        self.layer.plan([0, 1], [1])
        self.assertIsNone(libattune.capture.active)
        self.assertEqual(c.steps, 3, "layers that plan the same lengths in a row count once")
        got = lines(self.path)
        self.assertEqual(got[0]["query_heads"], 8)
        self.assertEqual(got[0]["page_size"], 16)
        self.assertEqual((got[2]["window"], got[2]["scale"]), (128, 0.25))
        self.assertEqual([g["layers"] for g in got], [1, 1, 2, 2, 1])
        self.assertEqual(
            [g["batch"] for g in got if "batch" in g],
            ["q3s10_2q1s2048", "q3s10_2q1s2048", "q512s512"],
        )

    def test_what_attune_could_not_read_is_refused_at_once(self):
        def layers(**more):
            return lambda: c.layers(**{**SHAPE, **more})

        with libattune.capture(self.path) as c:
            n = c.layers(**{**SHAPE, "num_qo_heads": np.int64(8)})
            for text, call in (
                ("num_qo_heads='8': it must be an integer", layers(num_qo_heads="8")),
                ("layout='nh': it is one of nhd, hnd, classic,", layers(layout="nh")),
                ("window_left=-2: it is -1, or from 0", layers(window_left=-2)),
                ("logits_soft_cap='x': it must be a finite", layers(logits_soft_cap="x")),
                ("sm_scale=inf: it must be a finite", layers(sm_scale=float("inf"))),
                ("layers=2: it must be what layers()", lambda: c.step([0, 1], [1], 2)),
                ("layers=[1]: it must be what layers()", lambda: c.step([0, 1], [1], [1])),
                ("query_start_loc: it must have integers", lambda: c.step([0, 1.5], [2], n)),
                ("seq_lens: it must have integers", lambda: c.step([0, 1], np.ones(1), n)),
                ("seq_lens: it must have integers", lambda: c.step([0, 1], None, n)),
            ):
                with self.subTest(text), self.assertRaises(libattune.Error) as e:
                    call()
                self.assertIn(text, str(e.exception))
        self.assertEqual(len(lines(self.path)), 1)
        for text, more in (
            ("every=1.5: it must", dict(every=1.5)),
            ("limit_mb=inf", dict(limit_mb=float("inf"))),
        ):
            with self.assertRaisesRegex(libattune.Error, text):
                libattune.capture(self.path, **more)

    def test_windows_beyond_all_keys(self):
        layer = self.layer.context.prepare(**SHAPE, window_left=2**31 - 2)
        with libattune.capture(self.path):
            layer.plan([0, 1], [1])
        self.assertNotIn("window", lines(self.path)[0])

    def test_other_backends(self):
        with libattune.capture(self.path) as c:
            self.layer.plan([0, 2], [2])
            same = c.layers(**SHAPE)
            self.assertEqual(same, 1, "layers of the same shape have the same number")
            other = c.layers(16, 16, 128, 32, "bfloat16", kv_dtype="float8_e4m3fn", layout="packed")
            c.step(np.array([0, 1, 2]), [7, 7], other)
            c.step([0, 0, 4, 5, 9], [9, 4, 0, 2], same)  # padding, and lengths that no engine has
            c.step([0, 1], [1])
            with self.assertRaisesRegex(libattune.Error, "3 entries for 3 sequences"):
                c.step([0, 1, 2], [1, 1, 1], same)
        got = lines(self.path)
        self.assertEqual(got[2]["kv_dtype"], "e4m3")
        self.assertEqual(
            got[3:],
            [{"layers": 2, "batch": "2q1s7"}, {"layers": 1, "batch": "q4s4"}, {"batch": "q1s1"}],
        )

    def test_the_same_layers_by_either_way(self):
        words = dict(SHAPE, sm_scale=0.1, logits_soft_cap=30.1, window_left=0)
        with libattune.capture(self.path) as c:
            self.layer.context.prepare(**words).plan([0, 1], [3])
            self.assertEqual(c.layers(**words), 1)

    def test_limits(self):
        with libattune.capture(self.path, every=3, limit_mb=0.00025) as c:
            for i in range(30):
                self.layer.plan([0, 1], [5 + i])
        self.assertLessEqual(os.path.getsize(self.path), 250)
        got = [g["batch"] for g in lines(self.path) if "batch" in g]
        self.assertEqual(got, [f"q1s{5 + 3 * i}" for i in range(c.steps)])
        self.assertGreater(c.steps, 1)
        with self.assertRaisesRegex(libattune.Error, "every=0"):
            libattune.capture(self.path, every=0)

    def test_one_at_a_time(self):
        with libattune.capture(self.path):
            with self.assertRaisesRegex(libattune.Error, "is being captured"):
                libattune.capture(self.path + ".2").start()
        with self.assertRaises(OSError):
            libattune.capture(self.path + "/none").start()
        self.assertIsNone(libattune.capture.active)

    def test_a_full_disk(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with libattune.capture("/dev/full"):
                for i in range(3):
                    self.assertTrue(self.layer.plan([0, 1], [5 + i]).num_seqs)
        self.assertEqual(len(said), 1)
        self.assertRegex(str(said[0].message), "/dev/full: No space left.*captures no more steps")

    def test_threads(self):
        with libattune.capture(self.path) as c:

            def plan(n):
                for i in range(50):
                    self.layer.plan([0, 1], [100 * n + i + 1])

            threads = [threading.Thread(target=plan, args=(n,)) for n in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        got = {g["batch"] for g in lines(self.path) if "batch" in g}
        self.assertEqual((c.steps, len(got)), (200, 200))

    def test_processes(self):
        """ATTUNE_CAPTURE: a file a process, a child of fork() too; a killed one loses no step."""
        program = (
            "import os, libattune\n"
            "def go(k):\n"
            f"    layer = libattune.Context('cpu').prepare(**{SHAPE!r})\n"
            "    for i in range(k): layer.plan([0, 1], [5 + i])\n"
            "    print(os.getpid(), k, flush=True)\n"
            "if os.fork() == 0:\n"
            "    go(3); os.kill(os.getpid(), 9)\n"
            "os.wait(); go(2)\n"
        )
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "ATTUNE_CAPTURE": self.path, "ATTUNE_THREADS": "1"},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        stem = self.path[: -len(".jsonl")]
        for line in run.stdout.splitlines():
            pid, steps = line.split()
            self.assertEqual(len(lines(f"{stem}.{pid}.jsonl")), 1 + int(steps))


if __name__ == "__main__":
    unittest.main()
