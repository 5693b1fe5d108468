# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# disturbances.sh - the disturbances of the campaign other than SIGKILL: a full disk, a limit of file
# sizes, a read-only folder, a locked database, two at once, jumps of the clock; and the loss of what
# attune depends on: the worker, the compiler, gnuplot, the driver. Sourced by campaign.sh.

# A command that cannot do its work says why in one line, and its exit code is its own.
refused() { # PATTERN
	{ [ $code -gt 0 ] && [ $code -lt 100 ]; } || echo "exit $code"
	[ "$(grep -c "$1" "$tmp/err")" = 1 ] || { echo "not one line with '$1':"; head -n 5 "$tmp/err"; }
}

# ---- folders -----------------------------------------------------------------------------------

# In mounts of its own, with $w full but for KB, or read-only. What it leaves in $w stays.
confined() { # full|read-only KB ARGUMENTS of attune
	kind=$1 room=$2
	shift 2
	rm -rf "$tmp/before" "$tmp/after"
	cp -a "$w" "$tmp/before"
	mkdir "$tmp/after"
	# shellcheck disable=SC2016
	CAMPAIGN="$tmp" timeout 1200 unshare -rm sh -c '
		w=$1/w kind=$2 room=$3 after=$1/after before=$1/before
		shift 3
		if [ $kind = full ]; then
			mount -t tmpfs tmpfs "$w" && cp -a "$before/." "$w" &&
				used=$(df -Pk "$w" | awk "NR == 2 { print \$3 }") &&
				size=$((used + room)) && # of 0: without a limit
				mount -o remount,size=$((size ? size : 4))k "$w"
		else
			mount --bind "$w" "$w" && mount -o remount,ro,bind "$w"
		fi || exit 125
		"$@"
		code=$?
		[ $kind != full ] || cp -a "$w/." "$after"
		exit $code' sh "$tmp" "$kind" "$room" "$attune" "$@" \
		>"$tmp/out" 2>"$tmp/err" </dev/null
	code=$?
	if [ "$kind" = full ]; then
		rm -rf "$w"
		cp -a "$tmp/after" "$w"
	fi
}

can_mount() { # NAME of a row
	# shellcheck disable=SC2016
	unshare -rm sh -c 'mount -t tmpfs tmpfs "$1"' sh "$w" 2>"$tmp/err" && return
	row 0 "$1 # SKIP no mounts of its own: unshare -rm fails"
	return 1
}

full_disk() {
	can_mount "a full disk" || return 0
	for operation in $chosen; do
		for room in 0 250; do
			fresh_"$operation"
			where="$operation with $room kB of room"
			# shellcheck disable=SC2046
			confined full $room $(args_"$operation")
			[ $code -eq 0 ] && [ $room -gt 0 ] ||
				refused 'disk is full\|No space left' | wrong line "$where"
			sound_"$operation" | wrong lost "$where"
			finish "$operation" "$where"
		done
	done
	property line "a full disk: one line says so, and the exit code is not 0"
	properties "a full disk"
}

read_only() {
	can_mount "a read-only folder" || return 0
	for operation in $chosen; do
		fresh_"$operation"
		# shellcheck disable=SC2046
		confined read-only 0 $(args_"$operation")
		refused '[Rr]ead-only' | wrong line "$operation"
		sound_"$operation" | wrong lost "$operation"
		finish "$operation" "$operation"
	done
	property line "a read-only folder: one line says so, and the exit code is not 0"
	properties "a read-only folder"
}

size_limit() {
	for operation in $chosen; do
		for blocks in 1 200; do # of 512 bytes
			fresh_"$operation"
			where="$operation with files of at most $blocks blocks"
			# shellcheck disable=SC2046
			(ulimit -f $blocks; quiet $(args_"$operation"))
			code=$?
			[ $code -eq 0 ] || refused 'File too large\|ulimit -f\|limit of file sizes' | wrong line "$where"
			sound_"$operation" | wrong lost "$where"
			finish "$operation" "$where"
		done
	done
	property line "a limit of file sizes: one line says so, and the exit code is not 0"
	properties "a limit of file sizes"
}

# ---- other processes -----------------------------------------------------------------------------

locked() {
	for operation in $chosen; do
		db=$(written_by "$operation")
		[ -n "$db" ] || continue
		fresh_"$operation"
		[ -e "$db" ] || quiet merge "$db" # an empty one
		rm -f "$tmp/pipe"
		mkfifo "$tmp/pipe"
		sqlite3 -cmd '.timeout 60000' "$db" <"$tmp/pipe" >/dev/null 2>&1 &
		holder=$!
		exec 9>"$tmp/pipe"
		echo 'BEGIN EXCLUSIVE;' >&9
		while sqlite3 "$db" 'BEGIN IMMEDIATE' 2>/dev/null; do sleep 0.05; done
		# shellcheck disable=SC2046
		disturbed FAULT_SLEEPLESS=1 $(args_"$operation")
		refused 'locked by another process' | wrong line "$operation"
		exec 9>&-
		wait $holder
		sound_"$operation" | wrong lost "$operation"
		finish "$operation" "$operation"
	done
	property line "a locked database: one line says so, and the exit code is not 0"
	properties "a locked database"
}

# A sweep that is stopped in the middle keeps the device; the others may run side by side.
two_at_once() {
	for operation in $chosen; do
		fresh_"$operation"
		# shellcheck disable=SC2046
		CAMPAIGN="$tmp" "$attune" $(args_"$operation") >"$tmp/first.out" 2>"$tmp/first.err" </dev/null &
		first=$!
		case $operation in
		sweep | confirm)
			while kill -0 $first && [ ! -e "$w/db.sqlite-wal" ]; do sleep 0.05; done
			kill -STOP $first
			# shellcheck disable=SC2046
			disturbed ATTUNE_PATIENCE=0 $(args_"$operation")
			[ $code -eq 4 ] || echo "exit $code" | wrong line "$operation"
			refused 'another attune measures' | wrong line "$operation"
			kill -CONT $first
			;;
		*)
			# shellcheck disable=SC2046
			quiet $(args_"$operation") || { echo "exit $?"; cat "$tmp/err"; } | wrong exit "$operation"
			;;
		esac
		wait $first || { echo "exit $?"; cat "$tmp/first.err"; } | wrong exit "$operation"
		same_"$operation" | wrong same "$operation"
		finish "$operation" "$operation"
	done
	property line "two at once: what measures is refused, with one line"
	properties "two at once"
}

clock_jumps() {
	for operation in $chosen; do
		fresh_"$operation"
		# shellcheck disable=SC2046
		disturbed "FAULT_CLOCK=$seed" $(args_"$operation")
		[ $code -eq 0 ] || { echo "exit $code"; head -n 3 "$tmp/err"; } | wrong exit "$operation"
		same_"$operation" | wrong same "$operation"
		finish "$operation" "$operation"
	done
	properties "jumps of the clock"
}

# ---- what it depends on --------------------------------------------------------------------------

worker_killed() {
	for _ in 1 2 3 4 5; do
		fresh_sweep
		rm -f "$tmp/once"
		pick 40
		where="before message $picked"
		# shellcheck disable=SC2046
		disturbed "FAULT_WHO=worker FAULT_KILL=calls:$picked FAULT_ONCE=$tmp/once" $(args_sweep)
		[ $code -eq 0 ] || { echo "exit $code"; head -n 3 "$tmp/err"; } | wrong exit "$where"
		grep -q killed "$tmp/fault" || echo "no worker was killed" | wrong exit "$where"
		finish sweep "$where"
	done
	properties "five workers killed"
}

# gcc runs its parts by a script of ours, which kills cc1: the first, or all of one kernel.
compiler_killed() {
	if ! "${CC:-cc}" --version | grep -qi 'gcc\|free software'; then
		row 0 "the compiler is killed # SKIP it is not gcc, which -wrapper is for"
		return
	fi
	cat >"$tmp/wrapper" <<-END
		#!/bin/sh
		case \$1:\$* in
		*/cc1:*/qblock.c*) [ ! -e "$tmp/all" ] && ! mkdir "$tmp/once" 2>/dev/null || kill -9 \$\$ ;;
		esac
		exec "\$@"
	END
	chmod +x "$tmp/wrapper"
	fresh_sweep
	rm -rf "$tmp/once" "$tmp/all"
	(
		CC="${CC:-cc} -wrapper $tmp/wrapper" ATTUNE_CACHE="$tmp/cache_killed"
		export CC ATTUNE_CACHE
		# shellcheck disable=SC2046
		quiet $(args_sweep) || echo "exit $?" | wrong exit "once"
		[ -d "$tmp/once" ] || echo "no compiler was killed" | wrong exit "once"
		same_sweep | wrong same "once"

		: >"$tmp/all"
		rm -rf "$tmp/cache_killed"
		fresh_sweep
		# shellcheck disable=SC2046
		quiet $(args_sweep) || echo "exit $?" | wrong exit "always"
		[ "$(ask "$w/db.sqlite" "SELECT count(*) > 0 AND min(kernel = 'qblock' AND
			outcome = 'compile' AND detail LIKE '%illed%') FROM failures")" = 1 ] ||
			ask "$w/db.sqlite" 'SELECT kernel, outcome, detail FROM failures' |
			wrong same "always: a row does not say that it was killed"
		rm -f "$tmp/all" # and it is no verdict that the cache keeps
		fresh_sweep
		finish sweep "after always"
	)
	properties "the compiler is killed"
}

# The disk on which compilers work is full: that says nothing of a kernel either.
compiler_without_room() {
	can_mount "compilers without room" || return 0
	fresh_sweep
	# shellcheck disable=SC2046
	(
		ATTUNE_CACHE="$tmp/cache_full" TMPDIR="$w"
		export ATTUNE_CACHE TMPDIR
		mkdir "$w/results"
		confined full 0 $(args_sweep | sed "s,$w/db.sqlite,$tmp/outside.sqlite,")
		refused 'No space left' | wrong line "sweep"
	)
	[ "$(ask "$tmp/outside.sqlite" 'SELECT count(*) FROM failures')" = 0 ] ||
		echo "a full disk became a failure of a kernel" | wrong lost "sweep"
	rm -rf "$w/results"
	mv "$tmp/outside.sqlite" "$w/db.sqlite"
	ATTUNE_CACHE="$tmp/cache_full" finish sweep "sweep"
	property line "compilers without room: one line says so, and the exit code is not 0"
	properties "compilers without room"
}

gnuplot_killed() {
	mkdir -p "$tmp/bin"
	printf '#!/bin/sh\nmkdir "%s/once_gnuplot" 2>/dev/null || kill -9 $$\nexec %s "$@"\n' "$tmp" \
		"$(command -v gnuplot)" >"$tmp/bin/gnuplot" # the second one
	chmod +x "$tmp/bin/gnuplot"
	fresh_plot
	# shellcheck disable=SC2046
	PATH="$tmp/bin:$PATH" quiet $(args_plot)
	code=$?
	refused 'gnuplot was killed' | wrong line "plot"
	sound_plot | wrong lost "plot"
	finish plot "plot"
	property line "gnuplot is killed: one line says so, and the exit code is not 0"
	properties "gnuplot is killed"
}

# An AMD GPU that tests/hip stands in for falls off the bus after some rows, and comes back.
driver_lost() {
	if ! command -v "${CXX:-c++}" >/dev/null || [ ! -e "$B/hip/libamdhip64.so" ]; then
		row 0 "the driver is lost # SKIP no C++ compiler makes kernels for the host: install g++"
		return
	fi
	export ATTUNE_HIP_LIBRARY="$B/hip/libamdhip64.so" STAND_IN_CHIP=small HIPCC=
	export STAND_IN_FAULT="lost $tmp/lost"
	gpu="sweep --gpu mi300 --db $w/gpu.sqlite --scenarios $tmp/tiny.json --preset smoke --budget 300s
		--kernels qblock,segmented"
	# shellcheck disable=SC2086
	CAMPAIGN="$tmp" "$attune" $gpu >"$tmp/out" 2>"$tmp/err" </dev/null &
	sweeper=$!
	while kill -0 $sweeper 2>/dev/null && [ "$(count "$w/gpu.sqlite")" -lt 2 ]; do sleep 0.05; done
	: >"$tmp/lost"
	wait $sweeper
	code=$?
	rows "$w/gpu.sqlite" >"$tmp/kept"
	[ $code -eq 3 ] || echo "exit $code" | wrong line "sweep"
	refused 'the runtime finds no GPU' | wrong line "sweep"
	[ "$(ask "$w/gpu.sqlite" 'SELECT count(*) FROM failures')" = 0 ] ||
		echo "the loss became a failure of a kernel" | wrong lost "sweep"
	sound_db "$w/gpu.sqlite" | wrong lost "sweep"
	rm "$tmp/lost"
	# shellcheck disable=SC2086
	quiet $gpu || { echo "exit $?"; head -n 3 "$tmp/err"; } | wrong exit "sweep"
	unset ATTUNE_HIP_LIBRARY STAND_IN_CHIP STAND_IN_FAULT HIPCC
	rows "$w/gpu.sqlite" | sort >"$tmp/after"
	sort "$tmp/kept" | comm -23 - "$tmp/after" | sed 's/^/row lost or changed: /' | wrong lost "sweep"
	[ "$(ask "$w/gpu.sqlite" "SELECT count(DISTINCT scenario_id) FROM history")" = 3 ] &&
		[ "$(ask "$w/gpu.sqlite" 'SELECT count(*) FROM failures')" = 0 ] ||
		echo "not all was measured" | wrong same "sweep"
	property line "the driver is lost: exit 3, with one line"
	properties "the driver is lost"
}
