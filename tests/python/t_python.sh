#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_python.sh - the Python package: the wheel's name, content and bytes; its install into a fresh venv
# without a network; there what it computes with numpy, its errors, threads and memory. Skipped without a
# Python that has cffi and numpy.
. tests/support/tap.sh
. tests/python/python.sh
find_python cffi numpy

mkdir "$tmp/again"
MAKEFLAGS='' ${MAKE:-make} --no-print-directory wheel LOCAL=no B="$B" SAN="${SAN:-}" PYTHON="$python" \
	>"$tmp/log" 2>&1
row $? "make wheel"
wheel=$(tail -n 1 "$tmp/log")
version=$(sed -n 's/^.define ATTUNE_VERSION_[A-Z]* \([0-9]*\)$/\1/p' kernels/attune.h | paste -sd . -)
case $wheel in
"$B/libattune-$version-py3-none-manylinux_2_"[3-9][0-9]"_$(uname -m).whl") true ;;
*) false ;;
esac
row $? "the wheel's name has version and platform"
"$python" kernels/python/wheel.py "$B/libattune.so" "$tmp/again" "${STRIP:-strip}" >"$tmp/log" 2>&1 &&
	cmp "$wheel" "$tmp/again/${wheel##*/}" >>"$tmp/log" 2>&1
row $? "the same library gives the same bytes"
"$python" -m zipfile -l "$wheel" >"$tmp/log" 2>&1
good=$?
for file in $(cd kernels/python && ls libattune/*.py) libattune/lib/libattune.so libattune/include/attune.h \
	libattune/include/attune_settle.h "libattune-$version.dist-info/licenses/LICENSE" \
	"libattune-$version.dist-info/entry_points.txt"; do
	grep -q "^$file " "$tmp/log" || { echo "$file is missing" >>"$tmp/log" && good=1; }
done
row $good "it has the package, the library, its headers, the license, and where vLLM enters"
! "$python" kernels/python/wheel.py kernels/attune.h "$tmp" >"$tmp/log" 2>&1 &&
	grep -qx 'wheel.py: kernels/attune.h: not a shared object for x86_64 or aarch64' "$tmp/log"
row $? "what is no library is refused in a line"
good=0
printf '\177ELF' >"$tmp/short.so"
for arguments in "$tmp/short.so $tmp" "$B/libattune.so $tmp/no/folder" "$B/libattune.so $tmp false"; do
	# shellcheck disable=SC2086
	"$python" kernels/python/wheel.py $arguments >"$tmp/log" 2>&1 && good=1
	[ "$(grep -c '' "$tmp/log")" = 1 ] || { good=1 && break; }
done
row $good "so are a part of one, a folder that is missing, and a STRIP that fails"
printf '\177ELF%014d\267\0%08d\0GLIBC_2.17\0GLIBC_2.41\0' 0 0 >"$tmp/arm.so" # as of a newer system
"$python" kernels/python/wheel.py "$tmp/arm.so" "$tmp" >"$tmp/log" 2>&1
[ "$(cat "$tmp/log")" = "$tmp/libattune-$version-py3-none-manylinux_2_41_aarch64.whl" ]
row $? "the platform is the library's machine and the glibc that it needs"

# cffi and numpy are those of $python; a Python without ensurepip (Debian's python3-venv) has no pip.
"$python" -m venv "$tmp/venv" >"$tmp/log" 2>&1 || "$python" -m venv --without-pip "$tmp/venv" >>"$tmp/log" 2>&1
row $? "a venv"
site=$("$tmp/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -c 'import cffi, numpy, os
for m in cffi, numpy: print(os.path.dirname(os.path.dirname(m.__file__)))' >"$site/found.pth"
if "$tmp/venv/bin/python" -m pip --version >/dev/null 2>&1; then
	"$tmp/venv/bin/python" -m pip --disable-pip-version-check install --no-index "$wheel" >"$tmp/log" 2>&1
else
	"$python" -m zipfile -e "$wheel" "$site" >"$tmp/log" 2>&1
fi
row $? "pip installs the wheel"
python=$tmp/venv/bin/python installed=1
"$python" -I -c 'import libattune; print(libattune.library, libattune.header)' >"$tmp/log" 2>&1
[ "$(cat "$tmp/log")" = "$site/libattune/lib/libattune.so $site/libattune/include/attune.h" ]
row $? "it opens the library inside"
python_rows tests/python/test_run.py tests/python/test_errors.py tests/python/test_life.py \
	tests/python/test_library.py tests/python/test_capture.py

"$python" -I - "$tmp/steps.jsonl" >"$tmp/log" 2>&1 <<'EOF'
import sys, libattune
layer = libattune.Context("cpu").prepare(12, 3, 64, 32, "float16", window_left=255)
with libattune.capture(sys.argv[1]) as c:
    layer.plan([0, 600], [600])
    for i in range(40):
        layer.plan([0, 1, 2], [601 + i, 70 + i])
EOF
"$B/attune" scenarios --steps "$tmp/steps.jsonl" --pick 4 >"$tmp/set.json" 2>"$tmp/log" &&
	"$B/attune" scenarios --set "$tmp/set.json" --format tsv >"$tmp/out" 2>>"$tmp/log" &&
	[ "$(cut -f 3-6 "$tmp/out" | sort -u | tr '\t\n' '  ')" = \
		'layers-12x3x64-w256@1 32 f16 f16 model page_size dtype kv_dtype ' ] &&
	[ "$(cut -f 9 "$tmp/out" | sort -u | tr '\n' ' ')" = '1 2 seqs ' ]
row $? "attune scenarios makes a set of captured steps"
end_rows
