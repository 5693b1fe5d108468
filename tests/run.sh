#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs test programs and scripts under prove and counts their rows.
#
#   B=build sh tests/run.sh TEST...        TEST_SECONDS: limit of one test, 1800
#   PART=2/3 ...                           every third test from the second on; the parts' totals add up
#
# prove starts this file again for each test, as `run.sh --one TEST`, which leaves the test's stdout in
# $B/tap/ and its stderr in $B/talk/; both are shown for tests that fail. A program that prints "1..0 #
# SKIP why" counts as one skipped, one that crashes, hangs or ends early as one failed.
set -u
B=${B:-build}
export B LC_ALL=C

if [ "${1:-}" = --one ]; then
	name=$(basename "$2")
	case $2 in
	*.sh) set -- sh "$2" ;;
	*) set -- "$2" ;;
	esac
	timeout -k 5 "${TEST_SECONDS:-1800}" "$@" >"$B/tap/$name" 2>"$B/talk/$name"
	code=$?
	[ $code -eq 0 ] || echo "# exit code $code" >>"$B/tap/$name"
	cat "$B/tap/$name"
	if [ $code -ne 0 ] || grep -q "^not ok" "$B/tap/$name"; then
		tail -20 "$B/talk/$name" >&2
	fi
	exit $code
fi

case ${PART:=1/1} in
[1-9]/[1-9] | [1-9]/[1-9][0-9] | [1-9][0-9]/[1-9][0-9]) [ "${PART%/*}" -le "${PART#*/}" ] ;;
*) false ;;
esac || {
	echo "tests/run.sh: PART=$PART: it is K/N, the K-th of N parts: 1/3, 2/3 or 3/3" >&2
	exit 2
}
for test; do # in turn, so that long ones are in all parts
	shift
	turn=$((${turn:-0} % ${PART#*/} + 1))
	[ $turn -ne "${PART%/*}" ] || set -- "$@" "$test"
done
unset PART
[ $# -gt 0 ] || { echo "0 passed, 0 failed, 0 skipped"; exit 0; }

rm -rf "$B/tap" "$B/talk" && mkdir -p "$B/tap" "$B/talk" || exit 1
ATTUNE_CACHE=${ATTUNE_CACHE:-$(cd "$B" && pwd)/compiled}
export ATTUNE_CACHE
# One more than there are CPUs: some tests sleep until a hanging kernel is killed.
prove --timer -j "${JOBS:-$(($(nproc) + 1))}" -e "sh $0 --one" "$@"
judged=$?

for tap in "$B"/tap/*; do # what failed, with the reasons that follow it
	awk -v name="$(basename "$tap")" '/^(not )?ok/ { shown = /^not/ }
		shown { print name ": " $0 }' "$tap" | head -20
done

# A file failed that prove calls failed; its rows that are not ok, at least one.
counts=$(awk '
function close_file() {
	if (file == "") return
	if (planned == 0 && plan_seen) skipped++
	else if ((planned != rows || code) && !file_failed) failed++
}
FNR == 1 { close_file(); file = FILENAME; planned = -1; plan_seen = rows = code = file_failed = 0 }
/^1\.\.[0-9]+/ { planned = substr($1, 4) + 0; plan_seen = 1 }
/^# exit code / { code = $4 }
/^(not )?ok/ { rows++ }
/^ok.* # [Ss][Kk][Ii][Pp]/ { skipped++; next }
/^ok/ { passed++ }
/^not ok/ { failed++; file_failed = 1 }
END { close_file(); print passed + 0, failed + 0, skipped + 0 }' "$B"/tap/*)
# shellcheck disable=SC2086
set -- $counts
# A test that said nothing at all left an empty file, which awk does not see.
empty=$(find "$B/tap" -type f -empty | wc -l)
failed=$(($2 + empty))
[ $judged -eq 0 ] || [ $failed -gt 0 ] || failed=1
echo "$1 passed, $failed failed, $3 skipped"
[ $failed -eq 0 ]
