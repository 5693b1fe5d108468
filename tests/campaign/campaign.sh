#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# campaign.sh - disturbs attune and checks that nothing measured is lost: `make campaign`.
#
#   KILLS=100         SIGKILLs at random points, dealt out to the operations
#   SEED=1            of these points, which are counts of calls, not times (fault.c)
#   OPERATIONS=...    those to kill, as in operations.sh
#   DISTURBANCES=...  those of disturbances.sh, of the operations in CHOSEN=
#
# operations.sh has what is disturbed, disturbances.sh the disturbances other than SIGKILL. After
# each one the same command must end with exit 0 and with the result of an undisturbed run.
set -u
. tests/support/tap.sh
attune=$PWD/$B/attune
fault=$PWD/$B/campaign/fault.so
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes
export TMPDIR="$tmp/tmp" ATTUNE_CACHE="$tmp/cache"
export ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
. tests/campaign/operations.sh
. tests/campaign/disturbances.sh

chosen=${CHOSEN:-$operations}
disturbances=${DISTURBANCES-full_disk read_only size_limit locked two_at_once clock_jumps \
	gnuplot_killed worker_killed compiler_killed compiler_without_room driver_lost}
without() { # WORDS WORD
	echo " $1 " | sed "s/ $2 / /"
}
if ! command -v gnuplot >/dev/null; then
	row 0 "plot is not disturbed # SKIP no gnuplot"
	operations=$(without "$operations" plot) quick=$(without "$quick" plot) chosen=$(without "$chosen" plot)
	disturbances=$(without "$disturbances" gnuplot_killed)
fi
seed=${SEED:-1}
pick() { # MOST: $picked is one of 1 to MOST
	seed=$(((seed * 1103515245 + 12345) % 2147483648))
	picked=$((seed / 65536 % $1 + 1))
}

disturbed() { # "VARIABLE=VALUE..." ARGUMENTS of attune; $point is the line of fault.c
	rm -f "$tmp/fault"
	variables=$1
	shift
	# shellcheck disable=SC2086
	CAMPAIGN="$tmp" timeout 1200 env LD_PRELOAD="$fault" FAULT_LOG="$tmp/fault" $variables \
		"$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	code=$?
	point=$(head -n 1 "$tmp/fault" 2>/dev/null)
	return $code
}

# Processes that outlive their command have its environment.
orphans() {
	grep -ls "^CAMPAIGN=$tmp\$" -z /proc/[0-9]*/environ
}

# What must hold now: prints what does not.
nothing_left() {
	for _ in $(seq 600); do
		[ -n "$(orphans)" ] || break
		sleep 0.1
	done
	[ -z "$(orphans)" ] || echo "processes are left: $(orphans | tr '\n' ' ')"
	find "$w" "$tmp/tmp" \( -name '*.new' -o -name '*-wal' -o -name '*-shm' -o -name '*-journal' -o \
		-path "$tmp/tmp/*" \) | sed "s,^$tmp/,left: ,"
}

# Collects what is wrong by property; a row each at the end.
wrong() { # PROPERTY WHERE: stdin has a line for each thing
	sed "s/^/$2: /" >>"$tmp/wrong_$1"
}

finish() { # OPERATION WHERE: the same command ends as if nothing had been
	# shellcheck disable=SC2046
	quiet $(args_"$1") </dev/null || { echo "exit $?"; head -n 3 "$tmp/err"; } | wrong exit "$2"
	same_"$1" | wrong same "$2"
	db=$(written_by "$1")
	[ -z "$db" ] || [ "$(ask "$db" 'PRAGMA journal_mode')" = delete ] ||
		echo "left: $db in WAL mode" | wrong left "$2"
	nothing_left | wrong left "$2"
}

rows_of() { # OPERATION: of the database that it writes
	case $1 in
	sweep | confirm) [ ! -e "$w/db.sqlite" ] || rows "$w/db.sqlite" ;;
	esac
}

# Kills OPERATION once, or twice: what resumed, too.
kill_it() { # OPERATION NUMBER
	fresh_"$1"
	pick 3
	times=$((picked == 1 ? 2 : 1))
	while [ $times -gt 0 ]; do
		times=$((times - 1))
		pick 2
		unit=$([ "$picked" = 1 ] && echo calls || echo writes)
		pick "$(sed -n "s/.* $unit=\([0-9]*\).*/\1/p" "$ref/$1.calls")"
		where="kill $2 of $1, before $unit $picked"
		before=$(count "$w/db.sqlite")
		# shellcheck disable=SC2046
		disturbed "FAULT_KILL=$unit:$picked" $(args_"$1")
		case $point in
		killed*) echo "$1: ${point%% calls=*}" | sed 's/etilqs_.*/a temporary file/' >>"$tmp/points" ;;
		*) [ $code -eq 0 ] || { echo "exit $code"; head -n 3 "$tmp/err"; } | wrong exit "$where" ;;
		esac
		{
			sound_"$1"
			case $1 in
			sweep | confirm)
				committed=$((before + ${point##*committed=}))
				now=$(count "$w/db.sqlite")
				[ "$now" -ge "$committed" ] || echo "$committed rows were committed, $now are there"
				;;
			esac
		} | wrong lost "$where"
		rows_of "$1" >"$tmp/kept"
	done
	finish "$1" "$where"
	rows_of "$1" >"$tmp/after"
	sort "$tmp/after" >"$tmp/after.sorted"
	sort "$tmp/kept" | comm -23 - "$tmp/after.sorted" | sed 's/^/row lost or changed: /' |
		wrong lost "$where"
}

property() { # PROPERTY NAME
	if [ -s "$tmp/wrong_$1" ]; then
		cp "$tmp/wrong_$1" "$tmp/log"
		row 1 "$2"
	else
		row 0 "$2"
	fi
	rm -f "$tmp/wrong_$1" "$tmp/log"
}

properties() { # WHAT
	property lost "$1: nothing is lost, databases are sound"
	property exit "$1: the same command then ends with exit 0"
	property same "$1: with the result of an undisturbed run"
	property left "$1: no file or process is left"
}

make_references
row $? "every operation ends without a disturbance"
[ $any_failed -eq 0 ] || end_rows
kills=${KILLS:-100}
number=0
while [ $number -lt "$kills" ]; do
	for operation in $operations $quick; do
		[ -e "$ref/$operation.calls" ] || continue
		number=$((number + 1))
		[ $number -gt "$kills" ] || kill_it "$operation" $number
	done
done
properties "$kills kills"
[ ! -e "$tmp/points" ] || sort "$tmp/points" | uniq -c | sed "s/^/#/"
for disturbance in $disturbances; do
	$disturbance
done
end_rows
