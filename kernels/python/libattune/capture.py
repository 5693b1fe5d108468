# SPDX-License-Identifier: Apache-2.0
"""capture: writes the lengths of each step into a file, from which attune learns that traffic:

    with libattune.capture("steps.jsonl"):
        ...                                     # the engine serves
    $ make tune STEPS=steps.jsonl

A file has JSON lines of two kinds. One describes layers, once; one is a step of them in vLLM's
grammar, with equal neighbours joined (scenarios/README.md has the keys):

    {"layers": 1, "query_heads": 32, "kv_heads": 8, "head_size": 128, "page_size": 16, ...}
    {"layers": 1, "batch": "q512s2048_32q1s1024"}

Only lengths and shapes are written. With ATTUNE_CAPTURE=steps.jsonl in the environment each process
that plans captures into steps.PID.jsonl, for engines that start their own processes."""

import json
import os
import threading
import warnings
from array import array
from operator import sub

from ._library import Error, ffi, number, whole
from ._shape import keys_of, shape_of

MOST_SEQS, MOST_LEN = 1 << 16, 1 << 24  # that attune reads
LAYOUTS = (
    "nhd", "hnd", "classic", "packed", "lbhnc", "lhbnc", "blnhc", "blhnc", "bhlnc", "paired"
)  # fmt: skip


class capture:
    """Writes each step that Layer.plan plans, of any layer of this process, and those of step().

    path       the file; one that is there is replaced
    every      of so many steps of the same layers one is written
    limit_mb   the file ends there

    A line is written at once and whole, so a process that dies loses none before. Of steps in a
    row with the same layers and the same lengths the first counts: layers that plan for themselves
    repeat them. A full disk ends the capture with a warning and does not disturb the engine. There
    is one capture at a time."""

    active = None  # what Layer.plan asks

    def __init__(self, path, every=1, limit_mb=1024):
        whole(every=every)
        number(limit_mb=limit_mb)
        if every < 1 or not 0 < limit_mb < 2**40:
            raise Error(f"every={every}, limit_mb={limit_mb}: they are 1 or more, and above 0")
        self.path, self.every, self.left = os.fspath(path), every, int(limit_mb * 1e6)
        self.steps = 0  # that were written
        self._fd, self._pid, self._lock = None, os.getpid(), threading.RLock()
        self._forget()

    def _forget(self):
        self._numbers, self._of_shapes = {}, {}  # of layers
        self._last, self._seen = {}, {}  # by number: lengths, and how many steps

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *unused):
        self.stop()

    def start(self):
        if capture.active is not None:
            raise Error(f"{capture.active.path} is being captured; there is one capture at a time")
        self._open()
        capture.active = self

    def stop(self):
        with self._lock:
            if capture.active is self:
                capture.active = None
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def layers(
        self,
        num_qo_heads,
        num_kv_heads,
        head_dim,
        page_size,
        dtype,
        kv_dtype=None,
        window_left=-1,
        logits_soft_cap=0.0,
        sm_scale=None,
        has_sinks=False,
        has_alibi=False,
        has_lse=False,
        causal=True,
        layout="nhd",
    ):
        """Layers of another backend, for step(). The words are Context.prepare's; layout is one of
        scenarios/README.md. Returns their number."""
        if layout not in LAYOUTS:
            raise Error(f"layout={layout!r}: it is one of {', '.join(LAYOUTS)}")
        shape = shape_of(
            num_qo_heads,
            num_kv_heads,
            head_dim,
            page_size,
            dtype,
            kv_dtype,
            window_left,
            logits_soft_cap,
            sm_scale,
            has_sinks,
            has_alibi,
            has_lse,
            causal,
        )
        return self._number(keys_of(shape, layout))

    def step(self, query_start_loc, seq_lens, layers=None):
        """A step of another backend.

        query_start_loc  [num_seqs + 1]  the running sum of query lengths, from 0
        seq_lens         [num_seqs]      tokens in the cache, those of this step included
        layers           what layers() gave; None: attune scenarios --model names them

        Both are lists, or arrays or tensors; one on a GPU waits for it."""
        starts, lens = (
            _integers(name, x)
            for name, x in (("query_start_loc", query_start_loc), ("seq_lens", seq_lens))
        )
        if len(starts) != len(lens) + 1:
            raise Error(
                f"query_start_loc has {len(starts)} entries for {len(lens)} sequences: it must "
                "have one more than seq_lens"
            )
        if layers is not None and layers not in self._numbers.values():
            raise Error(
                f"layers={layers!r}: it must be what layers() of this capture gave, or None"
            )
        self._step(layers, starts, lens)

    def planned(self, shape, batch):
        """What Layer.plan calls: an attune_shape and the attune_batch of a step."""
        with self._lock:
            if not self._is_ready():
                return
            n, key = batch.num_seqs, bytes(ffi.buffer(shape))
            number = self._of_shapes.get(key)
            if number is None:
                number = self._of_shapes[key] = self._number(keys_of(shape))
            starts, lens = ffi.unpack(batch.query_start, n + 1), ffi.unpack(batch.seq_lens, n)
            self._step(number, starts, lens)

    def _number(self, keys):
        """The number of such layers, from 1; writes their line the first time."""
        text = json.dumps(keys)
        with self._lock:
            number = self._numbers.get(text)
            if number is None and self._is_ready():
                number = self._numbers[text] = 1 + len(self._numbers)
                self._write(f'{{"layers": {number}, {text[1:]}')
        return number

    def _step(self, number, starts, lens):
        with self._lock:
            text = self._is_ready() and batch_text(starts, lens)
            if not text or self._last.get(number) == text:
                return
            self._last[number] = text
            seen = self._seen[number] = self._seen.get(number, -1) + 1
            if seen % self.every:
                return
            layers = "" if number is None else f'"layers": {number}, '
            self.steps += self._write(f'{{{layers}"batch": "{text}"}}')

    def _is_ready(self):
        """Not in a child of fork(): the file is its parent's."""
        return os.getpid() == self._pid and self._fd is not None

    def _open(self):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o666)

    def _write(self, line):
        """Whether the line was written. The caller has the lock."""
        line = line.encode() + b"\n"
        if self._fd is None or self.left < len(line):
            return False
        try:
            written = os.write(self._fd, line)
            why = "it is full" if written < len(line) else None
        except OSError as e:
            why = e.strerror
        self.left -= len(line)
        if why:
            self._fail(why)
        return not why

    def _fail(self, why):
        self.left = 0
        warnings.warn(f"{self.path}: {why}; libattune captures no more steps", stacklevel=2)


class _OfProcess(capture):
    """Of ATTUNE_CAPTURE: each process makes its file at its first step."""

    def __init__(self, path):
        super().__init__(path)
        self.given, self._pid = self.path, None

    def start(self):
        capture.active = self

    def _is_ready(self):
        if self._pid != os.getpid():
            stem, kind = os.path.splitext(self.given)
            self._pid, self._fd = os.getpid(), None
            self.path = f"{stem}.{self._pid}{kind}"
            self._forget()
            try:
                self._open()
            except OSError as e:
                self._fail(e.strerror)
        return self._fd is not None


def _integers(name, x):
    """A list of what is a list, an array or a tensor of integers."""
    try:
        return array("q", x if isinstance(x, (list, tuple)) else x.tolist()).tolist()
    except (AttributeError, OverflowError, TypeError) as e:
        raise Error(f"{name}: it must have integers: {e}") from None


def batch_text(starts, lens):
    """'q512s2048_32q1s1024'; '' if attune could not read it. Sequences without query tokens and
    those that are shorter than their queries are padding."""
    pairs = [p for p in zip(map(sub, starts[1:], starts), lens) if 0 < p[0] <= p[1] <= MOST_LEN]
    if len(pairs) > MOST_SEQS:
        return ""
    text, count = [], 0
    for pair, following in zip(pairs, pairs[1:] + [None]):
        count += 1
        if pair != following:
            q, n = pair
            text.append(f"{count}q{q}s{n}" if count > 1 else f"q{q}s{n}")
            count = 0
    return "_".join(text)


if os.environ.get("ATTUNE_CAPTURE"):
    _OfProcess(os.environ["ATTUNE_CAPTURE"]).start()
