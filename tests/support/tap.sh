# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# tap.sh - what every shell test shares: a temporary folder and TAP rows. Tests run from the root of
# the repository and source it: `. tests/support/tap.sh`.
#
#   row STATUS NAME   prints a row; after a failure also the ends of $tmp/out, $tmp/err and $tmp/log
#   end_rows          prints the plan and exits, 1 after a failure
#   seed_build DIR    makes a build folder with the objects of $B: make rebuilds only what differs there
B=${B:-build}
export LC_ALL=C # sort orders by bytes, and messages are English
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0 any_failed=0

row() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
		return
	fi
	any_failed=1
	echo "not ok $n - $2"
	for log in out err log; do
		[ ! -e "$tmp/$log" ] || tail -n 20 "$tmp/$log" | sed "s/^/# $log: /"
	done
}

seed_build() { # DIR
	mkdir "$1" && for part in kernels harness tuner shipped space bare; do
		[ ! -e "$B/$part" ] || cp -a "$B/$part" "$1" || return
	done && cp -a "$B"/*.inc "$B"/*.mk "$B"/has_* "$B"/list_* "$1"
}

end_rows() {
	echo "1..$n"
	exit $any_failed
}
