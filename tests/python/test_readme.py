# SPDX-License-Identifier: Apache-2.0
"""test_readme.py - what a user types first, as README.md of the package has it."""

import os
import re
import unittest

import torch
from kit import DEVICE

import libattune

README = os.path.join(os.path.dirname(__file__), "../../kernels/python/README.md")


class Readme(unittest.TestCase):
    def test_the_first_lines(self):
        with open(README) as f:
            lines = re.search(r"```python\n(.*?)```", f.read(), re.DOTALL)[1]
        names = {}
        exec(lines.replace("Context()", f"Context({DEVICE!r})"), names)
        out, layer, plan = names["out"], names["layer"], names["plan"]
        self.assertEqual((out.shape, out.dtype), ((21, 32, 128), torch.bfloat16))
        self.assertTrue(out.isfinite().all())
        self.assertIsInstance(layer, libattune.Layer)
        self.assertEqual((plan.num_seqs, plan.num_tokens), (2, 21))
