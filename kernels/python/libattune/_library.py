# SPDX-License-Identifier: Apache-2.0
"""Finds libattune.so with its attune.h, and opens it by cffi.

The library is the first of these; `library` and `header` say which it is:

    LIBATTUNE_LIBRARY    a file, such as PREFIX/lib/libattune.so or build/libattune.so
    the wheel's own      libattune/lib/libattune.so in this package
    an installed one     by attune.pc in PKG_CONFIG_PATH, /usr/local, /usr

cffi reads the functions and structs in attune.h and attune_settle.h, so none is written down here.
"""

import os
import re
from enum import IntEnum
from math import isfinite
from operator import index
from pathlib import Path

try:
    import cffi
except ImportError as e:
    raise ImportError("libattune needs the package cffi: pip install cffi") from e

HEADERS = ("attune.h", "attune_settle.h")


def _header_of(lib):
    """attune.h beside a library: installed, or in the tree that it was built in."""
    pc = lib.absolute().parent / "pkgconfig" / "attune.pc"
    if pc.is_file() and (_pc_variables(pc)[1] / HEADERS[0]).is_file():
        return _pc_variables(pc)[1]
    for folder in list(lib.absolute().parents)[:4]:
        for include in (folder / "include", folder / "kernels"):
            if (include / HEADERS[0]).is_file():
                return include
    raise ImportError(
        f"{lib}: no attune.h was found beside it, in include/ or kernels/ of the "
        "folders above; LIBATTUNE_LIBRARY names the library of an installation, "
        "such as /usr/local/lib/libattune.so"
    )


def _pc_variables(file):
    """libdir and includedir of attune.pc."""
    value = {}
    for line in file.read_text(errors="replace").splitlines():
        m = re.match(r"(\w+)\s*=\s*(.*)", line)
        if m:
            value[m[1]] = re.sub(r"\$\{(\w+)\}", lambda v: value.get(v[1], ""), m[2]).strip()
    prefix = value.get("prefix", "")
    folders = value.get("libdir", prefix + "/lib"), value.get("includedir", prefix + "/include")
    return [Path(folder.replace("\\ ", " ")) for folder in folders]  # blanks are escaped


def _installed():
    folders = [Path(p) for p in os.environ.get("PKG_CONFIG_PATH", "").split(":") if p]
    for prefix in ("/usr/local", "/usr"):
        folders += [
            Path(prefix, "lib", "pkgconfig"),
            Path(prefix, "lib64", "pkgconfig"),
            *sorted(Path(prefix, "lib").glob("*-linux-gnu/pkgconfig")),
        ]
    for folder in folders:
        if (folder / "attune.pc").is_file():
            lib, include = _pc_variables(folder / "attune.pc")
            if (lib / "libattune.so").is_file():
                return lib / "libattune.so", include
    raise ImportError(
        "no libattune.so was found: this package has none inside, and no attune.pc "
        "is in PKG_CONFIG_PATH, /usr/local or /usr. Install the wheel, or set "
        "LIBATTUNE_LIBRARY=PREFIX/lib/libattune.so"
    )


def _find():
    asked = os.environ.get("LIBATTUNE_LIBRARY")
    own = Path(__file__).parent / "lib" / "libattune.so"
    if asked:
        if not Path(asked).is_file():
            raise ImportError(f"LIBATTUNE_LIBRARY={asked}: no such file")
        return Path(asked).absolute(), _header_of(Path(asked))
    if own.is_file():
        return own, Path(__file__).parent / "include"
    return _installed()


def declarations(text):
    """A header without comments, its preprocessor's lines, and what is for C++ alone."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    kept, of_cpp = [], False
    for line in text.splitlines():
        if line.startswith("#"):
            of_cpp = line.split() == ["#ifdef", "__cplusplus"]
        elif not of_cpp:
            kept.append(line)
    return "\n".join(kept)


def _version_of(text):
    return ".".join(
        re.search(rf"#define ATTUNE_VERSION_{part} (\d+)", text)[1]
        for part in ("MAJOR", "MINOR", "PATCH")
    )


def _open():
    lib, include = _find()
    texts = []
    for name in HEADERS:
        if not (include / name).is_file():
            raise ImportError(f"{include / name}: not found; it comes with {lib}")
        texts.append((include / name).read_text())
    ffi = cffi.FFI()
    try:
        ffi.cdef("\n".join(map(declarations, texts)))
    except Exception as e:  # cffi's, and its parser's
        why = " ".join(str(e).split())
        raise ImportError(f"{include / HEADERS[0]}: cffi cannot read it: {why}") from e
    try:
        c = ffi.dlopen(str(lib))
        version = ffi.string(c.attune_version()).decode()
    except (OSError, AttributeError) as e:
        raise ImportError(f"{lib}: {e}") from e
    if version != _version_of(texts[0]):
        raise ImportError(
            f"{include / HEADERS[0]} is of version {_version_of(texts[0])}, {lib} of "
            f"{version}: they must come from one installation"
        )
    return ffi, c, version, str(lib), str(include / HEADERS[0])


ffi, C, __version__, library, header = _open()

# OK, INVALID, UNSUPPORTED ... of enum attune_status
Status = IntEnum(
    "Status",
    {
        name[len("ATTUNE_") :]: value
        for value, name in ffi.typeof("enum attune_status").elements.items()
    },
)


class Error(RuntimeError):
    """What the library, or this package, refuses. `status` says why: UNSUPPORTED is sensible but no
    kernel here can do it, INVALID makes no sense. What torch itself refuses is INVALID, too."""

    def __init__(self, line, status=Status.INVALID):
        super().__init__(line)
        self.status = Status(status)


def whole(**numbers):
    """Refuses what is no int of C. numpy's integers are taken, too."""
    for name, n in numbers.items():
        try:
            fits = -(2**31) <= index(n) < 2**31
        except TypeError:
            fits = False
        if not fits:
            raise Error(f"{name}={n!r}: it must be an integer below 2^31")


def number(**numbers):
    """Refuses what is neither None nor a finite number."""
    for name, x in numbers.items():
        try:
            fits = x is None or isfinite(x)
        except (OverflowError, TypeError):
            fits = False
        if not fits:
            raise Error(f"{name}={x!r}: it must be a finite number")


def check(status):
    """Raises the library's line of this thread where a call failed."""
    if status:
        raise Error(ffi.string(C.attune_last_error()).decode(errors="replace"), status)
