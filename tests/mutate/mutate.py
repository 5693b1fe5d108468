#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py - changes one place of the C sources at a time and looks whether a test fails.

    make mutants N=100 SEED=1      the first N places in the order of the seed
    FIRST=101                      from that place on
    ONLY=harness/store             of these files
    ALSO=t_tune.sh,t_check         tests of more than half a minute, which are left out otherwise
    SECONDS=5                      no test that takes more CPU time than that
    RETRY=1                        only places that no test noticed last time, by SEED.tsv
    TESTS=t_data,t_emit            these tests alone, whichever lines they run

    tree/           a copy of the working tree; the one that it is called in stays as it is
      inside.a      says "link libinside.so", for the tool: a mutant is one object and one link
    reach.json      which test runs which lines (gcov), and how long it takes
    SEED.tsv        a row a place: verdict, test, file, line, old and new text

A place is tried by the tests that run its line, the quickest first, until one fails; a
shell test must fail twice.
A test that passes with the unchanged library is taken, any other is named and left out.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import places

# What takes long, or tests kernels on emulated devices, or builds the project anew.
LONG = set(
    """t_amd_compile t_cdna t_cdna_mutants t_cdna_words t_simt_kernels t_simt_mutants t_cpu_kernels
    t_hard_simt t_hard_gpu t_hard_cpu t_gpu_replay t_ring_list t_simt_ring t_simt t_e4m3
    t_e4m3_library t_fitted_runs t_formula_runs t_fused_runs t_gpu_kernels t_gpu_early
    t_nvidia_compile t_cuda_launch t_hip t_hip_runs t_hip_library t_hip_on_cuda
    t_hip_on_cuda_runs t_hip_on_cuda_kernels t_side_streams_runs t_api t_threads t_code_object
    t_field_bugs t_answers t_check t_identity_edits t_noisy_sweep t_e2e.sh
    t_survey.sh t_tune.sh t_sweep.sh t_committed.sh t_failures.sh t_campaign.sh t_amd_tune.sh
    t_sanitizers.sh t_shipped.sh t_install.sh t_house.sh t_deps.sh t_fuzz.sh
    t_examples.sh t_plugin.sh t_plugin_object.sh t_headers.sh t_compile_only.sh t_busy.sh
    t_stale.sh t_invariant t_roofline""".split()
)
EXIT_SHIM = """void __gcov_dump(void); long syscall(long, ...);
void _exit(int code) { __gcov_dump(); for (;;) syscall(231, code); }
"""
GIB = 1 << 30
UNNOTICED = ("survived", "not run by a test")


class Tree:
    """The copy: built once, its tests linked against libinside.so."""

    def __init__(self, home, make, flags):
        self.home, self.root, self.make, self.flags = home, home / "tree", make, flags
        self.build = self.root / "build"

    def refresh(self):
        names = subprocess.check_output(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], text=True
        )
        names = [n for n in names.split("\0") if n and os.path.exists(n)]
        known = set(names)
        for copy in self.root.glob("*/**/*"):
            name = copy.relative_to(self.root)
            if name.parts[0] != "build" and copy.is_file() and str(name) not in known:
                copy.unlink()
        for name in names:
            source, copy = pathlib.Path(name), self.root / name
            if not copy.exists() or source.read_bytes() != copy.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
                shutil.copymode(source, copy)

    def run_make(self, goals):
        subprocess.run(
            [*self.make, f"LDFLAGS=-Wl,-rpath,{self.build}", "LOCAL=no", "STALE=skip", *goals],
            cwd=self.root, check=True, stdout=sys.stderr,
        )  # fmt: skip

    def link(self, output, first=()):
        """libinside.so; definitions in `first` replace those of the archive."""
        subprocess.run(
            ["cc", "-shared", "-Wl,-soname,libinside.so,-z,muldefs", *first, "-Wl,--whole-archive",
             self.build / "real.a", "-Wl,--no-whole-archive", *self.build.glob("shipped/*.o"), "-o", output],
            cwd=self.root, check=True,
        )  # fmt: skip

    def make_library(self):
        inside = self.build / "inside.a"
        self.run_make(["build/inside.a", "build/libinside.so"])
        if inside.read_bytes()[:7] == b"!<thin>":  # else it is what is written below
            real = self.build / "real.a"
            inside.rename(real)
            # Each program has its own table of binaries, which refers to them.
            (self.build / "ship.a").unlink(missing_ok=True)
            subprocess.run(
                ["ar", "rcs", "build/ship.a", "build/kernels/ship/shipped.o"],
                cwd=self.root, check=True,
            )  # fmt: skip
            subprocess.run(["ar", "d", real, "shipped.o"], check=True)
            inside.write_text(f"INPUT({self.build}/libinside.so {self.build}/ship.a)\n")

    def compile(self, source, folder, output, more=()):
        """One source as if it lay in `folder`; the compiler's message or None."""
        done = subprocess.run(
            ["cc", "-iquote", folder, *self.flags, *more, "-w", "-c", source, "-o", output],
            cwd=self.root, capture_output=True, text=True,
        )  # fmt: skip
        return done.stderr if done.returncode else None


def limits(cpu_s):
    def set_limits():
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 6))
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * GIB, 4 * GIB))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return set_limits


def wait_for(child, until):
    """(exit code, CPU s) with all that it has started; None: it was ended at that time."""
    pid = 0
    while not pid and time.monotonic() < until:
        time.sleep(0.01)
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not pid:
        _, _, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status) if pid else -signal.SIGKILL
    return child.returncode if pid else None, usage.ru_utime + usage.ru_stime


def run_test(tree, test, library, usual=None, more=None):
    """(verdict, wall s, cpu s) of one test with a folder's libinside.so: passes, fails or hangs.

    A hang has taken ten times the CPU time of the unchanged library, or twenty times its wall time
    and three minutes more, so that a slow machine is no hang.
    """
    cpu_limit = 10 * usual["cpu"] + 10 if usual else 300
    wall_limit = 20 * usual["wall"] + 180 if usual else 1800
    with tempfile.TemporaryDirectory(prefix="mutant_") as folder:
        env = dict(os.environ, B="build", TMPDIR=folder, LD_LIBRARY_PATH=str(library))
        env |= {"ATTUNE_LOCKS": folder, **(more or {})}
        # The unchanged library fills a cache of compiled kernels; a mutant gets a copy of it.
        cache = tree.home / "cache"
        env["ATTUNE_CACHE"] = str(cache) if more else folder + "/cache"
        if not more and cache.exists():
            subprocess.run(["cp", "-al", cache, folder + "/cache"], check=True)
        command = [f"build/{test}"]
        if test.endswith(".sh"):
            command = ["sh", str(next(tree.root.glob(f"tests/*/{test}")))]
        began = time.monotonic()
        with open(folder + "/stdout", "w+", errors="replace") as out:
            child = subprocess.Popen(
                command, cwd=tree.root, env=env, stdout=out, stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL, preexec_fn=limits(cpu_limit),
            )  # fmt: skip
            code, cpu = wait_for(child, began + wall_limit)
            out.seek(0)
            text = out.read()
    wall = time.monotonic() - began
    hang = code is None or code in (-signal.SIGXCPU, -signal.SIGKILL)
    failed = code or re.search(r"^not ok", text, re.M) or "1..0" in text
    return "hangs" if hang else "fails" if failed else "passes", wall, cpu


class Reach:
    """Which test runs which lines of which file, by gcov."""

    def __init__(self, tree):
        self.tree, self.path = tree, tree.home / "reach.json"
        self.known = {"files": [], "tests": {}}
        if self.path.exists():
            self.known = json.loads(self.path.read_text())

    def key(self, test):
        name = test if test.endswith(".sh") else test + ".c"
        return hashlib.sha1(next(self.tree.root.glob(f"tests/*/{name}")).read_bytes()).hexdigest()

    def measure(self, files, tests, jobs):
        files = sorted(files)
        if not set(files) <= set(self.known["files"]):
            self.known = {"files": files, "tests": {}}
        missing = [t for t in tests if self.known["tests"].get(t, {}).get("key") != self.key(t)]
        if not missing:
            return
        cover = self.tree.build / "cover"
        library, real = cover / "libinside.so", self.tree.build / "real.a"
        is_old = not library.exists() or library.stat().st_mtime < real.stat().st_mtime
        if is_old or not self.known["tests"]:
            self.make_cover(cover)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for test, found in zip(missing, pool.map(lambda t: self.of_test(t, cover), missing)):
                self.known["tests"][test] = found
                self.path.write_text(json.dumps(self.known))
                print(f"{test:24} {found['verdict']:7} {found['wall']:7.1f} s", file=sys.stderr)

    def make_cover(self, cover):
        shutil.rmtree(cover, ignore_errors=True)
        cover.mkdir()
        objects = []
        for f in self.known["files"]:
            objects.append(cover / (f.replace("/", "_")[:-2] + ".o"))
            error = self.tree.compile(f, os.path.dirname(f), objects[-1], ["--coverage"])
            assert not error, error
        (cover / "exit.c").write_text(EXIT_SHIM)
        self.tree.link(cover / "libinside.so", [*objects, "--coverage", cover / "exit.c"])

    def of_test(self, test, cover):
        counts = self.tree.home / "counts" / test
        shutil.rmtree(counts, ignore_errors=True)
        counts.mkdir(parents=True)
        strip = len(cover.parts) - 1
        verdict, wall, cpu = run_test(
            self.tree, test, cover,
            more={"GCOV_PREFIX": str(counts), "GCOV_PREFIX_STRIP": str(strip)},
        )  # fmt: skip
        if verdict != "passes":  # some count files or limit memory
            verdict, wall, cpu = run_test(self.tree, test, self.tree.build)
        lines = {}
        data = [d.name for d in counts.glob("*.gcda")]
        for name in data:
            os.symlink(cover / (name[:-5] + ".gcno"), counts / (name[:-5] + ".gcno"))
        told = subprocess.run(
            ["gcov", "--json-format", "--stdout", *data], cwd=counts, capture_output=True, text=True
        ).stdout
        for text in filter(None, told.split("\n")):
            for file in json.loads(text)["files"]:
                ran = [l["line_number"] for l in file["lines"] if l["count"]]
                if file["file"] in self.known["files"] and ran:
                    lines.setdefault(file["file"], []).extend(ran)
        shutil.rmtree(counts)
        return {"key": self.key(test), "verdict": verdict, "wall": wall, "cpu": cpu, "lines": lines}

    def tests_of(self, name, line, seconds):
        """Tests that run the line (from 1), or the nearest line above it that has code."""
        with_code = {l for t in self.known["tests"].values() for l in t["lines"].get(name, [])}
        near = [l for l in range(line, max(line - 4, 0), -1) if l in with_code]
        found = []
        for test, t in self.known["tests"].items():
            runs = near and near[0] in t["lines"].get(name, [])
            if runs and t["verdict"] == "passes" and t["cpu"] <= seconds:
                found.append((t["cpu"], test))
        return [test for _, test in sorted(found)]


class Trial:
    def __init__(self, tree, reach, tests, o):
        self.tree, self.reach, self.tests, self.seconds = tree, reach, set(tests), o.seconds
        self.alone = o.tests.split(",") if o.tests else []
        self.locks = {t: threading.Lock() for t in tests}

    def judge(self, place):
        """(verdict, test) of one place."""
        name, i, old, new = place
        with tempfile.TemporaryDirectory(prefix="mutant_lib_") as folder:
            folder = pathlib.Path(folder)
            lines = (self.tree.root / name).read_text().split("\n")
            if lines[i] != old:
                return "moved", ""
            lines[i] = new
            source = folder / os.path.basename(name)
            source.write_text("\n".join(lines))
            if self.tree.compile(source, os.path.dirname(name), folder / "mutant.o"):
                return "does not compile", ""
            near = self.reach.tests_of(name, i + 1, self.seconds)
            tests = self.alone or [t for t in near if t in self.tests]
            if not tests:
                return "not run by a test", ""
            self.tree.link(folder / "libinside.so", [folder / "mutant.o"])
            for test in tests:
                usual = self.reach.known["tests"].get(test)
                with self.locks[test]:
                    verdict = run_test(self.tree, test, folder, usual)[0]
                    if verdict == "fails" and test.endswith(".sh"):  # they wait for each other
                        verdict = run_test(self.tree, test, folder, usual)[0]
                if verdict != "passes":
                    return "hangs" if verdict == "hangs" else "killed", test
            return "survived", ",".join(tests)


def known_equivalent(path):
    rows = [r.split("\t") for r in path.read_text().split("\n") if r and not r.startswith("#")]
    return {tuple(row[:4]) for row in rows}


def function_of(text, line):
    """The name of the function around a line, from 0."""
    for above in reversed(text.split("\n")[:line]):
        found = re.match(r"[a-z].*?(\w+)\(", above)
        if found:
            return found.group(1)
    return ""


def last_verdicts(path):
    rows = {}
    for row in path.read_text().split("\n") if path.exists() else []:
        if row:
            verdict, _, where, old, new = row.split("\t")
            rows[where.rpartition(":")[0], old, new] = verdict
    return rows


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--only", default="")
    p.add_argument("--also", default="")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--retry", default="")
    p.add_argument("--tests", default="")
    p.add_argument("--cover", type=int, default=0, help="measure reach for so many places, not N")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--home", type=pathlib.Path, required=True)
    p.add_argument("--leave-out", default="", help="LEAVE_OUT of make")
    p.add_argument("flags", nargs="*")
    return p.parse_args()


def main():
    o = options()
    make = ["make", f"-j{o.jobs}", "B=build", "NVCC=", "HIPCC=", "CFLAGS=-O1"]
    make.append(f"LEAVE_OUT={o.leave_out}")
    tree = Tree(o.home.resolve(), make, o.flags)
    tree.refresh()
    every = places.choose(o.seed, o.only)
    chosen = every[o.first - 1 : o.first - 1 + o.n]
    names = sorted(str(p) for p in pathlib.Path("tests").glob("*/t_*.[cs]*"))
    tests = [os.path.basename(n).removesuffix(".c") for n in names if n.endswith((".c", ".sh"))]
    alone = o.tests.split(",") if o.tests else []
    tests = alone or [t for t in tests if t not in LONG or t in o.also.split(",")]
    tree.make_library()
    programs = [f"build/{t}" for t in tests if not t.endswith(".sh")]
    tree.run_make(["build/attune", "build/bare/attune", *programs])
    reach = Reach(tree)
    if not alone:
        reach.measure({p[0] for p in every[: max(o.cover, o.first - 1 + o.n)]}, tests, o.jobs)
    for test in () if alone else tests:
        verdict = reach.known["tests"][test]["verdict"]
        if verdict != "passes":
            print(f"{test} is left out: it {verdict} unchanged", file=sys.stderr)
    equivalent = known_equivalent(pathlib.Path(__file__).with_name("equivalent.tsv"))
    path = tree.home / f"{o.seed}.tsv"
    before = last_verdicts(path)
    if o.retry:
        chosen = [p for p in chosen if before.get((p[0], p[2].strip(), p[3].strip())) in UNNOTICED]
    trial, count = Trial(tree, reach, tests, o), {}
    pool = concurrent.futures.ThreadPoolExecutor(o.jobs)
    with open(path, "a") as table, pool:
        running = {pool.submit(trial.judge, place): place for place in chosen}
        for done in concurrent.futures.as_completed(running):
            (verdict, test), (name, i, old, new) = done.result(), running[done]
            old, new, top = old.strip(), new.strip(), name.split("/")[0]
            function = function_of((tree.root / name).read_text(), i)
            if (name, function, old, new) in equivalent and verdict in UNNOTICED:
                verdict = "equivalent"
            count[top, verdict] = count.get((top, verdict), 0) + 1
            table.write(f"{verdict}\t{test}\t{name}:{i + 1}\t{old}\t{new}\n")
            table.flush()
            print(f"{verdict:18} {test[:40]:24} {name}:{i + 1}\n    {old}\n    {new}")
            sys.stdout.flush()
    for (folder, verdict), n in sorted(count.items()):
        print(f"{folder:8} {verdict:18} {n:4}")


main()
