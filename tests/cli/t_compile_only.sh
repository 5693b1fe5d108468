#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_compile_only.sh - attune sweep --compile-only: the resources of binaries for GPUs that are not here.
. tests/support/tap.sh
attune=$B/attune
export ATTUNE_CACHE="$tmp/cache"

run() {
	timeout 1200 "$attune" sweep --gpu mi300 --compile-only --kernels naive --preset smoke \
		--batch q1s64 --format tsv "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # DB SQL
	sqlite3 "$tmp/$1.sqlite" "$2"
}

# A compiler that keeps all in memory.
cat >"$tmp/memory.sh" <<'SCRIPT'
for last; do :; done
case $last in
-o*) ;;
*) exec clang-22 "$@" ;;
esac
for word; do
	case $word in -DENTRY=*) entry=${word#-DENTRY=} ;; esac
done
printf 'extern "C" __attribute__((global)) void %s(int *p)
{ volatile int a[99]; a[p[0]] = 1; p[1] = a[p[2]]; }' "$entry" >"${last#-o}.in"
clang-22 -x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib \
	--offload-arch=gfx942 "${last#-o}.in" "$last"
SCRIPT

HIPCC= ATTUNE_HIP_LIBRARY=/nowhere
export HIPCC ATTUNE_HIP_LIBRARY
run --db "$tmp/amd.sqlite"
row "$([ $? -eq 2 ] && grep -q 'no compiler for gfx942: install clang-22 and lld-22' "$tmp/err" &&
	[ ! -e "$tmp/amd.sqlite" ]; echo $?)" "no compiler for it: says what to install"
ATTUNE_HIP_LIBRARY=$B/hip/libamdhip64.so # hipRTC of a runtime that is older than the GPU
run --gpu mi350 --db "$tmp/amd.sqlite"
row "$([ $? -eq 2 ] && grep -q 'no compiler for gfx950 (hiprtc does not know it): install' "$tmp/err" &&
	[ "$(wc -l <"$tmp/err")" = 1 ] && [ ! -e "$tmp/amd.sqlite" ]; echo $?)" "nor one that knows the GPU: says so"
unset HIPCC ATTUNE_HIP_LIBRARY
if command -v clang-22 >/dev/null && HIPCC=clang-22 sh harness/commands/deps.sh check amd 2>"$tmp/err"; then
	run --db "$tmp/amd.sqlite"
	row "$([ $? -eq 0 ] && grep -q '^kernel.*vgprs.*waves_per_simd' "$tmp/out" &&
		[ "$(ask amd "SELECT count(*) > 0 FROM resources WHERE outcome = 'ok' AND registers > 0
			AND waves > 0 AND scratch = 0")" = 1 ]; echo $?)" "what binaries take of an MI300"
	export HIPCC="sh $tmp/memory.sh"
	run --db "$tmp/memory.sqlite"
	row "$(grep -q 'resources.*bytes of scratch memory per lane' "$tmp/out" &&
		[ "$(ask memory "SELECT count(*) FROM resources WHERE outcome = 'ok'")" = 0 ]
		echo $?)" "what would use scratch memory is not to be run"
	"$attune" merge "$tmp/whole.sqlite" "$tmp/amd.sqlite" 2>"$tmp/err"
	row "$([ $? -eq 0 ] && [ "$(ask whole "SELECT count(*) FROM sqlite_schema
		WHERE name = 'resources'")" = 0 ]; echo $?)" "it is nothing that was measured"
fi
end_rows
