# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# python.sh - what the tests of the Python package share, sourced after tests/support/tap.sh.
#
#   find_python MODULE...   sets $python to one that has the modules: ATTUNE_TEST_PYTHON, else python3, else
#                           the system's. None has: prints why the test is skipped, and exits
#   python_rows FILE...     a row for each test of files of unittest, by $python and the package of this
#                           tree, or the one that is installed in $python where $installed is set
find_python() {
	! nm -D "$B/libattune.so" | grep -q __asan_init || {
		echo "1..0 # SKIP a library with sanitizers does not load into python3"
		exit 0
	}
	for python in ${ATTUNE_TEST_PYTHON:+"$ATTUNE_TEST_PYTHON"} python3 /usr/bin/python3; do
		"$python" -c "import sys, $(echo "$*" | sed 's/ /, /g'); sys.exit(sys.version_info < (3, 9))" \
			>/dev/null 2>&1 && return
	done
	echo "1..0 # SKIP no python3 (3.9 or newer) has $*"
	exit 0
}

python_rows() {
	(
		export PYTHONDONTWRITEBYTECODE=1 LIBATTUNE_LIBRARY="$PWD/$B/libattune.so" PYTHONPATH="$PWD/kernels/python"
		case $B in /*) LIBATTUNE_LIBRARY=$B/libattune.so ;; esac
		[ -z "${installed:-}" ] || unset LIBATTUNE_LIBRARY PYTHONPATH
		exec "$python" tests/python/tap.py "$@"
	) >"$tmp/rows" 2>"$tmp/out"
	ended=$?
	while read -r word name; do
		[ "$word" = ok ]
		row $? "$name"
	done <"$tmp/rows"
	[ $ended -eq 0 ] || grep -q '^not' "$tmp/rows"
	row $? "$* ran to the end"
}
