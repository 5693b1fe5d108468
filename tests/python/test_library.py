# SPDX-License-Identifier: Apache-2.0
"""test_library.py - which library and header the package opens, and its line where it cannot."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import libattune

SHOW = "import libattune as a; print(a.library, a.header, a.__version__)"


class Finding(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        package = os.path.dirname(libattune.__file__)
        self.package = os.path.join(self.folder.name, "site", "libattune")
        shutil.copytree(
            package, self.package, ignore=shutil.ignore_patterns("lib", "include", "_*_")
        )
        self.prefix = os.path.join(self.folder.name, "a prefix")
        os.makedirs(os.path.join(self.prefix, "lib", "pkgconfig"))
        os.makedirs(os.path.join(self.prefix, "include"))
        self.library = os.path.join(self.prefix, "lib", "libattune.so")
        shutil.copy(libattune.library, self.library)
        for name in ("attune.h", "attune_settle.h"):
            shutil.copy(
                os.path.join(os.path.dirname(libattune.header), name),
                os.path.join(self.prefix, "include"),
            )
        self.header = os.path.join(self.prefix, "include", "attune.h")
        self.pkg_config = os.path.join(self.prefix, "lib", "pkgconfig")
        with open(os.path.join(self.pkg_config, "attune.pc"), "w") as f:
            f.write(
                "prefix=" + self.prefix.replace(" ", "\\ ") + "\nName: attune\n"
                "libdir=${prefix}/lib\nincludedir=${prefix}/include\n"
                "Libs: -L${libdir} -lattune\n"
            )

    def show(self, **environment):
        """(exit status, stdout, last line of stderr) of a process that imports the copy."""
        keep = {
            k: v
            for k, v in os.environ.items()
            if k not in ("LIBATTUNE_LIBRARY", "PKG_CONFIG_PATH", "PYTHONPATH")
        }
        done = subprocess.run(
            [sys.executable, "-c", SHOW],
            text=True,
            capture_output=True,
            env={**keep, "PYTHONPATH": os.path.dirname(self.package), **environment},
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip().split("\n")[-1]

    def opens(self, library, header, **environment):
        self.assertEqual(
            self.show(**environment), (0, f"{library} {header} {libattune.__version__}", "")
        )

    def refused(self, text, **environment):
        code, _, line = self.show(**environment)
        self.assertEqual(code, 1)
        self.assertTrue(line.startswith("ImportError: "), line)
        self.assertIn(text, line)

    def test_an_installed_one(self):
        self.opens(self.library, self.header, PKG_CONFIG_PATH=self.pkg_config)
        with open(os.path.join(self.pkg_config, "attune.pc"), "w") as f:
            f.write(
                f"prefix=/nowhere\nroot={self.prefix}\nlibdir=${{root}}/lib\n"
                "includedir=${root}/include\n"
            )
        self.opens(self.library, self.header, PKG_CONFIG_PATH="/nowhere:" + self.pkg_config)

    def test_one_that_was_moved(self):
        with open(os.path.join(self.pkg_config, "attune.pc"), "w") as f:
            f.write("prefix=/nowhere\nincludedir=${prefix}/include\n")
        self.opens(self.library, self.header, LIBATTUNE_LIBRARY=self.library)

    def test_a_header_that_cffi_cannot_read(self):
        with open(self.header, "a") as f:
            f.write("int broken(;\n")
        self.refused(f"{self.header}: cffi cannot read it: ", LIBATTUNE_LIBRARY=self.library)

    def test_headers_in_a_folder_of_their_own(self):
        other = os.path.join(self.prefix, "inc")
        os.rename(os.path.dirname(self.header), other)
        with open(os.path.join(self.pkg_config, "attune.pc"), "a") as f:
            f.write(f"includedir={other}\n")
        self.opens(self.library, os.path.join(other, "attune.h"), LIBATTUNE_LIBRARY=self.library)

    def test_one_that_is_named(self):
        self.opens(self.library, self.header, LIBATTUNE_LIBRARY=self.library)
        self.refused(
            "LIBATTUNE_LIBRARY=/nowhere/x.so: no such file", LIBATTUNE_LIBRARY="/nowhere/x.so"
        )
        self.refused("invalid ELF header", LIBATTUNE_LIBRARY=self.header)

    def test_the_one_inside(self):
        shutil.copytree(os.path.join(self.prefix, "lib"), os.path.join(self.package, "lib"))
        shutil.copytree(os.path.join(self.prefix, "include"), os.path.join(self.package, "include"))
        self.opens(
            os.path.join(self.package, "lib", "libattune.so"),
            os.path.join(self.package, "include", "attune.h"),
            PKG_CONFIG_PATH=self.pkg_config,
        )

    @unittest.skipIf(
        any(
            os.path.exists(p + "/pkgconfig/attune.pc")
            for p in ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
        ),
        "one is installed",
    )
    def test_none(self):
        self.refused(
            "no libattune.so was found: this package has none inside, and no attune.pc is in"
        )

    def test_a_header_of_another_version(self):
        with open(self.header) as f:
            text = f.read()
        with open(self.header, "w") as f:
            f.write(text.replace("#define ATTUNE_VERSION_MINOR ", "#define ATTUNE_VERSION_MINOR 9"))
        self.refused("attune.h is of version 0.9", LIBATTUNE_LIBRARY=self.library)
        os.remove(self.header)
        self.refused("no attune.h was found beside it", LIBATTUNE_LIBRARY=self.library)
        shutil.rmtree(self.pkg_config)
        self.refused("no attune.h was found beside it", LIBATTUNE_LIBRARY=self.library)
