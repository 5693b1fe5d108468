# SPDX-License-Identifier: Apache-2.0
"""places.py - the places of the C sources that can be changed, and what each can be changed to.

A change is one operator, constant, return value, condition or statement of one line. Left out are
comments, strings, tables of words, preprocessor lines, assertions, text of errors, and the sources
in LEFT_OUT.
"""
import random
import re
import subprocess

SOURCES = ["kernels/*.c", "harness/*.c", "tuner/*.c"]
# Kernels have mutants of their own (t_simt_mutants, t_cdna_mutants); the others need NVIDIA's
# driver or another project's library, or run while the project is built.
LEFT_OUT = re.compile(
    r"kernels/(cpu|gpu|device/cuda)/|kernels/ship/(list_|shipped)|"
    r"kernels/spec/space|tuner/main"
)
MESSAGE = re.compile(
    r"\b(complain|argp_error|fail|refuse|note|perror|assert|_Static_assert|static_assert|"
    r"fprintf\(stderr,|f?puts\(\"|show_note|\w+_error)\(?"
)
# Lost memory and lengths of allocations are for the sanitizers: make test SAN=1.
MEMORY = re.compile(
    r"^\t(static )?(const )?\w+ [\w, ]+\[[^]]+\];|"
    r"\b(free|\w+_free|fclose|m?alloc|calloc|realloc|munmap)\("
)
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" < ", " > "), (r" > ", " < "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "),
    (r" / ", " * "), (r"(?<=[\w)\]]) \* ", " / "), (r" % ", " * "),
    (r" \+= ", " -= "), (r" -= ", " += "), (r" \|= ", " &= "), (r" & ", " | "),
    (r"\+\+", "--"), (r"(?<![-\w])!(?=[\w(])", ""), (r"\bcontinue;", "break;"),
    (r"\breturn 0;", "return 1;"), (r"\breturn 1;", "return 0;"),
    (r"\breturn -1;", "return 0;"), (r"\breturn NULL;", "return (void *)1;"),
    (r"\breturn (?=[^;]*[<>=&|][^;]*;$)", "return !"),
]  # fmt: skip
NUMBER = re.compile(r"(?<![\w.\[])\d+(?![\w.])")
CONDITION = re.compile(r"^(\t+(?:\} else )?(?:if|while)) \((.*)\)( \{)?$")
CALL = re.compile(r"^\t+[a-z_]\w*\([^{}]*\);$")
ASSIGNMENT = re.compile(r"^\t+[a-z_*][\w\->.\[\]+*]*(?:\[.*\])? [-+*/|&]?= [^{}]*;$")


def blank(text):
    """The text with comments and strings as blanks, each character in its place."""
    return re.sub(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])+\'',
        lambda m: re.sub(r"[^\n]", " ", m.group(0)),
        text,
        flags=re.S,
    )


def code_lines(text):
    """(number, line, line with comments and strings as blanks) of each line inside a function."""
    raw, bare = text.split("\n"), blank(text).split("\n")
    inside = in_message = False
    for i, (line, code) in enumerate(zip(raw, bare)):
        if code.startswith("{"):
            inside = True
        elif code.startswith("}"):
            inside = False
        if not inside or not code.startswith("\t"):
            continue
        if MESSAGE.search(line):
            in_message = True
        if not in_message and not MEMORY.search(code):
            yield i, line, code
        if code.rstrip().endswith((";", "{", "}")):
            in_message = False


def changes_of(line, code):
    """What the line can become."""
    for pattern, to in SWAPS:
        for m in re.finditer(pattern, code):
            yield line[: m.start()] + to + line[m.end() :]
    for m in () if re.match(r"\t+(return|_exit)", code) else NUMBER.finditer(code):
        yield line[: m.start()] + str(int(m.group(0)) + 1) + line[m.end() :]
    m = CONDITION.match(code)
    if m:
        yield f"{m.group(1)} (!({line[m.start(2) : m.end(2)]})){m.group(3) or ''}"
    if CALL.match(code.rstrip()) or ASSIGNMENT.match(code.rstrip()):
        yield re.match(r"\t+", line).group(0) + ";"


def choose(seed, only=""):
    """All places in an order drawn by the seed: [(file, line from 0, old line, new line)]."""
    files = subprocess.check_output(["git", "ls-files", *SOURCES], text=True).split()
    lines = []
    for name in sorted(files):
        if LEFT_OUT.search(name) or not name.startswith(only):
            continue
        with open(name, encoding="utf-8") as f:
            text = f.read()
        for i, line, code in code_lines(text):
            changes = sorted(set(changes_of(line, code)))
            if changes:
                lines.append((name, i, line, changes))
    draw = random.Random(seed)
    draw.shuffle(lines)
    return [(name, i, line, draw.choice(changes)) for name, i, line, changes in lines]
