# SPDX-License-Identifier: Apache-2.0
"""wheel.py - writes the wheel of libattune: the package, the library and its headers, in one file.

    python3 kernels/python/wheel.py LIBRARY FOLDER [STRIP]

Prints the path. The same library and sources give the same bytes. The platform's tag is the oldest
manylinux whose glibc has the symbols that the library needs, 2_34 at least. STRIP is the program
that takes the debugging information off a copy of the library.
"""

import base64
import hashlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

OLDEST_GLIBC = 34
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of an ELF file

here = Path(__file__).resolve().parent
root = here.parent.parent


def version():
    text = (here.parent / "attune.h").read_text()
    return ".".join(
        re.search(rf"#define ATTUNE_VERSION_{part} (\d+)", text)[1]
        for part in ("MAJOR", "MINOR", "PATCH")
    )


def platform_of(library):
    is_elf = library[:4] == b"\x7fELF" and len(library) >= 20
    machine = struct.unpack_from("<H", library, 18)[0] if is_elf else 0
    if machine not in MACHINES:
        sys.exit(
            f"wheel.py: {sys.argv[1]}: not a shared object for {' or '.join(MACHINES.values())}"
        )
    glibc = max(map(int, re.findall(rb"\0GLIBC_2\.(\d+)", library)), default=0)
    if not glibc:
        sys.exit(f"wheel.py: {sys.argv[1]}: it does not use glibc, and a manylinux wheel does")
    return f"manylinux_2_{max(glibc, OLDEST_GLIBC)}_{MACHINES[machine]}"


def stripped(path, strip):
    if not strip:
        return path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        try:
            subprocess.run([strip, "--strip-unneeded", "-o", copy, path], check=True)
        except (OSError, subprocess.CalledProcessError) as e:
            sys.exit(f"wheel.py: {path}: {strip} cannot strip it: {e}")
        return copy.read_bytes()


def metadata():
    return f"""Metadata-Version: 2.1
Name: libattune
Version: {version()}
Summary: Paged attention by the kernels that were measured to be fastest
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: cffi
Description-Content-Type: text/markdown

{(here / "README.md").read_text()}"""


def contents(library, tag):
    """{path in the wheel: bytes}, RECORD left out."""
    info = f"libattune-{version()}.dist-info"
    files = {
        f"libattune/{p.relative_to(here / 'libattune')}": p.read_bytes()
        for p in (here / "libattune").rglob("*.py")
    }
    for header in ("attune.h", "attune_settle.h"):
        files[f"libattune/include/{header}"] = (here.parent / header).read_bytes()
    files["libattune/lib/libattune.so"] = library
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: attune {version()}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    files[f"{info}/licenses/LICENSE"] = (root / "LICENSE").read_bytes()
    if (here / "entry_points.txt").exists():
        files[f"{info}/entry_points.txt"] = (here / "entry_points.txt").read_bytes()
    return info, files


def main(path, folder, strip=None):
    if not Path(path).is_file():
        sys.exit(f"wheel.py: {path}: no such file: `make lib` builds it")
    library = stripped(Path(path), strip)
    tag = f"py3-none-{platform_of(library)}"
    info, files = contents(library, tag)
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(files[name])}\n"
    wheel = Path(folder, f"libattune-{version()}-{tag}.whl")
    with zipfile.ZipFile(wheel, "w") as z:
        for name, data in [
            *sorted(files.items()),
            (f"{info}/RECORD", f"{record}{info}/RECORD,,\n"),
        ]:
            entry = zipfile.ZipInfo(name)  # of 1980, so that time is not in it
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except OSError as e:
        sys.exit(f"wheel.py: {e}")
