# SPDX-License-Identifier: Apache-2.0
"""host.py - the Python side of attune's peers (README.md in this folder). It runs in two places.

`python3 -I host.py FILE` loads the file and prints what its class Peer says of itself (peers.c reads it).
In the worker process python.c runs this same text after it has set `attune_calls` and `attune_fields`;
then serve() hands C the functions that prepare, plan and launch.
"""
import contextlib
import ctypes
import hashlib
import importlib.metadata
import io
import os
import sys
import sysconfig
import tokenize
import types
from operator import index, lt

BYTES = {"f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "i32": 4}


def load(path):
    """The class Peer of a file. The file cannot import from its own folder."""
    module = types.ModuleType("attune_peer")
    module.__file__ = path
    sys.modules["attune_peer"] = module
    with open(path, "rb") as f:  # not from __pycache__, which may hold an older text
        exec(compile(f.read(), path, "exec"), module.__dict__)
    if not isinstance(getattr(module, "Peer", None), type):
        raise TypeError("it has no class Peer")
    return module.Peer


def tokens(path):
    """A file's code without comments: an edit of a comment does not make times stale."""
    with open(path, "rb") as f:
        data = f.read()
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING)
    return " ".join(t.string for t in tokenize.tokenize(io.BytesIO(data).readline) if t.type not in skip)


def version(peer, path):
    """The releases of the peer's packages, and a hash of its file."""
    releases = []
    for package in getattr(peer, "packages", ()):
        try:
            releases.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            raise ImportError(f"{sys.executable} has no package {package}") from None
    return " ".join([*releases, hashlib.sha256(tokens(path).encode()).hexdigest()[:8]])


def whole(what, values):
    """The values as integers. Raises if one does not fit in C's int."""
    for v in values:
        if not -(2**31) <= index(v) < 2**31:
            raise ValueError(f"{what}: {v} does not fit in 32 bits")
    return [index(v) for v in values]


def describe(path):
    peer = load(path)
    lines = [("python", sys.version_info[0], sys.version_info[1]), ("executable", sys.executable)]
    lines.append(("name", peer.name))
    lines.append(("version", version(peer, path)))
    lines.append(("about", getattr(peer, "about", "a peer in Python")))
    backends = getattr(peer, "backends", ("cuda",))
    if not backends:
        raise ValueError("backends: it names none")
    if {"cuda", "hip"} <= set(backends):
        raise ValueError("backends: it names cuda and hip, which should be one of them")
    lines += [("backend", b) for b in backends]
    for name, values in getattr(peer, "axes", {}).items():
        lines.append(("axis", name, *whole("axes", values)))
    for what in ("head_sizes", "page_sizes"):
        lines += [(what, size) for size in whole(what, getattr(peer, what, ()))]
    for what in ("features", "needs", "dtypes", "kv_dtypes"):
        lines += [(what, word) for word in getattr(peer, what, ())]
    lines.append(("max_query", *whole("max_query", (getattr(peer, "max_query", 0),))))
    for method in ("prepare", "plan", "launch"):
        if not callable(getattr(peer, method, None)):
            raise TypeError(f"its class Peer has no {method}")
    folder, library = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise OSError(f"{sys.executable} was built without a shared libpython")
    # LIBDIR is wrong if the interpreter was moved after it was built, so its own prefix comes first.
    places = [os.path.join(place, library) for place in (os.path.join(sys.base_prefix, "lib"), folder)]
    found = [place for place in places if os.path.exists(place)]
    if not found:
        raise OSError(f"{places[-1]} is not there; Debian has it in libpython3.{sys.version_info[1]}")
    lines.append(("library", found[0]))
    return lines


def message(error):
    """An exception in one line of printable characters."""
    try:
        text = " ".join(str(error).split()) or "no reason given"
    except BaseException:  # its __str__ may fail
        text = "no reason given"
    line = text if isinstance(error, ImportError) else f"{type(error).__name__}: {text}"
    return line.encode("ascii", "backslashreplace").decode()[:190]


class Array:
    """A tensor in the harness's memory. Strides are in elements."""

    def __init__(self, address, shape, strides, dtype, backend):
        self.address, self.shape, self.strides = address, tuple(shape), tuple(strides)
        self.dtype, self.backend = dtype, backend

    def _interface(self, letter):
        size = BYTES[self.dtype]
        return {"data": (self.address, False), "shape": self.shape, "version": 3,
                "strides": tuple(size * s for s in self.strides), "typestr": letter}  # fmt: skip

    def numpy(self):
        """numpy has no bf16 and no e4m3: they are uint16 (the upper half of an f32) and uint8."""
        import numpy

        letter = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "e4m3": "|u1", "i32": "<i4"}[self.dtype]
        holder = types.SimpleNamespace(__array_interface__=self._interface(letter))
        return numpy.asarray(holder)

    def torch(self):
        import torch

        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
                 "e4m3": torch.float8_e4m3fn, "i32": torch.int32}[self.dtype]  # fmt: skip
        span = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        if self.backend == "cpu":
            memory = (ctypes.c_char * (span * BYTES[self.dtype])).from_address(self.address)
            flat = torch.frombuffer(memory, dtype=dtype)
        else:
            letter = {1: "|u1", 2: "<i2", 4: "<i4"}[BYTES[self.dtype]]
            line = Array(self.address, (span,), (1,), self.dtype, self.backend)
            holder = types.SimpleNamespace(__cuda_array_interface__=line._interface(letter))
            flat = torch.as_tensor(holder, device="cuda").view(dtype)
        return flat.as_strided(self.shape, self.strides)


def host_ints(address, n):
    return list((ctypes.c_int32 * n).from_address(address))


class Op:
    """A peer, prepared for a shape and values of its axes."""

    def __init__(self, path, fields, axes):
        shape = {k: float(v) if "." in v or "e" in v or "inf" in v else int(v)
                 for k, v in (w.split("=") for w in fields.split())}  # fmt: skip
        shape["dtype"] = ("f32", "f16", "bf16", "e4m3")[shape["dtype"]]
        shape["kv_dtype"] = ("f32", "f16", "bf16", "e4m3")[shape["kv_dtype"]]
        self.backend = ("cpu", "cuda", "hip")[shape.pop("backend")]
        self.ordinal = shape.pop("ordinal")
        shape["group"] = shape["num_query_heads"] // shape["num_kv_heads"]
        shape["scale"] = shape["scale"] or shape["head_size"] ** -0.5
        shape["device"] = "cpu" if self.backend == "cpu" else f"cuda:{self.ordinal}"
        self.shape, self.streams = types.SimpleNamespace(**shape), {}
        if self.backend == "cpu":  # as many threads as attune's own kernels
            os.environ["OMP_NUM_THREADS"] = str(shape["units"])
        else:
            import torch

            torch.cuda.set_device(self.ordinal)
        peer = load(path)
        names = list(getattr(peer, "axes", {}))
        self.peer = peer()
        self.peer.prepare(self.shape, **dict(zip(names, axes)))

    def call(self, function, stream, *arguments, pool=None):
        """Calls the function with the harness's stream as torch's current one."""
        if self.backend == "cpu":
            return function(*arguments)
        import torch

        if stream not in self.streams:
            self.streams[stream] = torch.cuda.ExternalStream(stream)
        kept = torch.cuda.use_mem_pool(pool) if pool else contextlib.nullcontext()
        with torch.cuda.stream(self.streams[stream]), kept, torch.no_grad():
            return function(*arguments)

    def tensors(self, f, seqs, first, tokens, pages, entries):
        """The members of an attune_tensors. q, out and lse begin at the batch's first token."""
        s, make = self.shape, lambda *a: Array(*a, self.backend)
        heads, kv, d, page = s.num_query_heads, s.num_kv_heads, s.head_size, s.page_size
        size = BYTES[s.dtype]
        t = types.SimpleNamespace(
            q=make(f.q + first * f.q_token_stride * size, (tokens, heads, d),
                   (f.q_token_stride, f.q_head_stride, 1), s.dtype),
            out=make(f.out + first * f.out_token_stride * size, (tokens, heads, d),
                     (f.out_token_stride, f.out_head_stride, 1), s.dtype),
            k_cache=make(f.k_cache, (pages, page, kv, d),
                         (f.k_page_stride, f.k_slot_stride, f.k_head_stride, 1), s.kv_dtype),
            v_cache=make(f.v_cache, (pages, page, kv, d),
                         (f.v_page_stride, f.v_slot_stride, f.v_head_stride, 1), s.kv_dtype),
            block_table=make(f.block_table, (seqs, entries), (f.block_table_stride, 1), "i32"),
            seq_lens=make(f.seq_lens, (seqs,), (1,), "i32"),
        )  # fmt: skip
        for name in ("sinks", "alibi_slopes"):
            t.__dict__[name] = make(getattr(f, name), (heads,), (1,), "f32") if getattr(f, name) else None
        for name in ("k_scale", "v_scale"):
            strides = getattr(f, name + "_seq_stride"), getattr(f, name + "_head_stride")
            t.__dict__[name] = make(getattr(f, name), (seqs, kv), strides, "f32") if getattr(f, name) else None
        lse = f.lse + first * f.lse_token_stride * 4
        t.lse = make(lse, (tokens, heads), (f.lse_token_stride, f.lse_head_stride), "f32") if f.lse else None
        return t


class Plan:
    def __init__(self, op, f):
        starts = host_ints(f.host_query_start, f.num_seqs + 1)
        lens = host_ints(f.host_seq_lens, f.num_seqs)
        self.op, self.known, self.pages = op, {}, 1
        self.batch = types.SimpleNamespace(
            num_seqs=f.num_seqs, num_tokens=starts[-1] - starts[0], seq_lens=lens,
            query_lens=[b - a for a, b in zip(starts, starts[1:])],
            query_start=[s - starts[0] for s in starts], max_seq=max(lens, default=0),
        )  # fmt: skip
        self.batch.max_query = max(self.batch.query_lens, default=0)
        self.first = starts[0]
        if "no_keys" not in getattr(op.peer, "features", ()) and any(map(lt, lens, self.batch.query_lens)):
            raise ValueError("a query is longer than its sequence: its first rows see no key")
        self.plan, self.pool = op.call(op.peer.plan, f.stream, self.batch, self.tensors(f)), None
        if op.backend != "cpu":
            import torch

            # Of its launches: memory that a captured graph uses must not go to another peer or plan.
            self.pool = torch.cuda.MemPool()

    def tensors(self, f):
        b = self.batch
        entries = -(-b.max_seq // self.op.shape.page_size)
        return self.op.tensors(f, b.num_seqs, self.first, b.num_tokens, self.pages, entries)

    def warm(self, f):
        """Launches once, before any launch is timed or captured: here kernels compile and memory is allocated."""
        size = self.op.shape.page_size
        table = self.tensors(f).block_table
        if self.op.backend == "cpu":
            rows = [host_ints(table.address + 4 * i * table.strides[0], -(-n // size))
                    for i, n in enumerate(self.batch.seq_lens)]  # fmt: skip
        else:  # on the harness's stream, which fills the table
            entries = self.op.call(lambda: table.torch().tolist(), f.stream)
            rows = [row[: -(-n // size)] for row, n in zip(entries, self.batch.seq_lens)]
        self.pages = 1 + max((max(row) for row in rows if row), default=0)
        self.go(f.stream, self.tensors(f))

    def go(self, stream, tensors):
        self.op.call(self.op.peer.launch, stream, self.plan, tensors, pool=self.pool)

    def launch(self, fields):
        """Keeps the tensors it makes: the harness launches the same ones again and again."""
        key = bytes(fields)
        if key not in self.known:
            f = types.SimpleNamespace(**dict(zip(FIELDS, fields)))
            self.known[key] = self.tensors(f), f.stream
        tensors, stream = self.known[key]
        self.go(stream, tensors)


OPS, PLANS, FIELDS, COUNT = {}, {}, (), [0]


def answer(error, function, *arguments):
    """What the function returns, or 1 for None. If it raises: 0, and the reason is in `error`."""
    try:
        return function(*arguments) or 1
    except BaseException as e:  # no exception may reach C
        text = message(e).encode()
        ctypes.memmove(error, text + b"\0", len(text) + 1)
        return 0


def keep(things, thing):
    COUNT[0] += 1
    things[COUNT[0]] = thing
    return COUNT[0]


def as_fields(address):
    return (ctypes.c_int64 * len(FIELDS)).from_address(address)


def prepare(path, shape, axes, num_axes, error):
    values = host_ints(axes, num_axes) if num_axes else []
    return answer(error, lambda: keep(OPS, Op(path.decode(), shape.decode(), values)))


def plan(op, fields, error):
    f = types.SimpleNamespace(**dict(zip(FIELDS, as_fields(fields))))
    return answer(error, lambda: keep(PLANS, Plan(OPS[op], f)))


def warm(plan, fields, error):
    f = types.SimpleNamespace(**dict(zip(FIELDS, as_fields(fields))))
    return answer(error, lambda: PLANS[plan].warm(f))


def launch(plan, fields, error):
    return answer(error, lambda: PLANS[plan].launch(as_fields(fields)))


def drop(number):
    p = PLANS.pop(number, None)
    OPS.pop(number, None)
    if p and p.pool:  # torch would keep memory that the harness needs for the next batch
        import torch

        del p
        torch.cuda.empty_cache()


def serve(address, names):
    """Writes the addresses of the functions above to C's table (struct python_calls)."""
    global FIELDS, KEPT
    FIELDS = tuple(names.split())
    long, pointer, text = ctypes.c_longlong, ctypes.c_void_p, ctypes.c_char_p
    KEPT = [
        ctypes.CFUNCTYPE(long, text, text, pointer, long, pointer)(prepare),
        ctypes.CFUNCTYPE(long, long, pointer, pointer)(plan),
        ctypes.CFUNCTYPE(long, long, pointer, pointer)(warm),
        ctypes.CFUNCTYPE(long, long, pointer, pointer)(launch),
        ctypes.CFUNCTYPE(None, long)(drop),
    ]
    table = (ctypes.c_void_p * len(KEPT)).from_address(address)
    for i, function in enumerate(KEPT):
        table[i] = ctypes.cast(function, ctypes.c_void_p).value
    sys.stdout = sys.stderr


if "attune_calls" in globals():
    serve(attune_calls, attune_fields)
elif __name__ == "__main__":
    try:
        for line in describe(sys.argv[1]):
            print("attune:", *line)
    except BaseException as e:
        print("attune: error", message(e))
