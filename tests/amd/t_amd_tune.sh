#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_amd_tune.sh - the steps of `make tune GPU=mi300 PRESET=smoke` in a temporary folder, on a stand-in
# of AMD's runtime that runs the kernels by fibers (tests/hip/stand_in.h). It calls sweep, induce,
# confirm and eval itself, since make would build the tool and the library again.
. tests/support/tap.sh
attune=$B/attune
if ! command -v "${CXX:-c++}" >/dev/null; then
	echo "1..0 # SKIP no C++ compiler makes kernels for the host: install g++"
	exit 0
fi
mkdir "$tmp/generated"
db=$tmp/mi300.sqlite
header=$tmp/generated/attune_mi300.h
# No clang, so that the sweep compiles by hipRTC, which is the stand-in's.
export ATTUNE_HIP_LIBRARY="$B/hip/libamdhip64.so" STAND_IN_CHIP=small STAND_IN_FAULT= \
	HIPCC= ATTUNE_CACHE="$tmp/cache"
unset ATTUNE_EMULATED ATTUNE_HEURISTICS
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes

run() {
	timeout 1200 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # SQL
	sqlite3 "$db" "$1" 2>&1
}

cat >"$tmp/tiny.json" <<'SET'
{
	"defaults": { "models": [ "qwen3-0.6b@8", "llama3.1-8b@8" ] },
	"scenarios": [
		{ "batch": "q1s128" },
		{ "batch": "q24" },
		{ "batch": "q16_2q1s64" },
		{ "batch": "2q1s100", "split": "heldout" }
	]
}
SET

run devices --format tsv
row "$(grep -q "^hip:0	mi300	AMD Instinct MI300X (emulated)	gfx942	.*	hiprtc	defaults	untuned	the defaults, untimed: no header is for gfx942$" "$tmp/out"
	echo $?)" "it says that it is emulated, and that nobody has tuned it"
run sweep --gpu mi300 --db "$db" --scenarios "$tmp/tiny.json" --preset smoke --budget 300s \
	--kernels qblock,segmented
row $? "a sweep"
row "$([ "$(ask "SELECT count(DISTINCT scenario_id) FROM history")" = 8 ] &&
	[ "$(ask "SELECT count(*) FROM failures")" = 0 ]; echo $?)" \
	"every scenario is in the database, nothing has failed"
row "$([ "$(ask "SELECT name || ', ' || arch FROM device")" = \
	"AMD Instinct MI300X (emulated), gfx942" ]; echo $?)" "whose device is an emulated one"

for command in induce eval 'sweep --confirm'; do
	# shellcheck disable=SC2086
	run $command --gpu mi300 --db "$db"
	row "$([ $? -eq 2 ] && [ "$(grep -c . "$tmp/err")" = 1 ] &&
		grep -q 'made on an emulated device.*: it holds no real times$' "$tmp/err"
		echo $?)" "$command refuses it in one line"
done

cp "$db" "$tmp/real.sqlite"
sqlite3 "$tmp/real.sqlite" "UPDATE device SET name = 'AMD Instinct MI300X'; DELETE FROM seal"
mkdir "$tmp/results"
for command in "bench --db $tmp/real.sqlite --into $tmp/into.sqlite" "bench --bounds --into $tmp/into.sqlite" \
	"bench --roofline --db $tmp/into.sqlite" "tune --check --db $tmp/real.sqlite" \
	"tune --results $tmp/results --generated $tmp/generated"; do
	# shellcheck disable=SC2086
	run $command --gpu mi300
	row "$([ $? -eq 2 ] && [ ! -e "$tmp/into.sqlite" ] && [ "$(cat "$tmp/err")" = \
		'attune: nothing was measured: the device is emulated (AMD Instinct MI300X (emulated)), so times mean nothing' ]
		echo $?)" "$(echo "$command" | cut -d ' ' -f 1-2) measures nothing on it"
done
rm -r "$tmp/generated/local"

export ATTUNE_EMULATED=1
run induce --gpu mi300 --db "$db" --out "$header" && run induce --gpu mi300 --db "$db" --out "$tmp/b.h" &&
	cmp "$header" "$tmp/b.h" >>"$tmp/err"
row $? "for a test there is a header, the same bytes twice"
row "$(grep -q '^#define ATTUNE_MI300_GPU "mi300"$' "$header" &&
	grep -q '^#define ATTUNE_MI300_ARCH "gfx942"$' "$header" &&
	grep -q '(emulated), gfx942, 8 CUs$' "$header" && grep -q 'no number here is a time' "$header"
	echo $?)" "which is of mi300 and says what it is worth"
run sweep --confirm --gpu mi300 --db "$db" --header "$header" --budget 200s &&
	[ "$(ask "SELECT count(DISTINCT scenario_id) FROM history WHERE stage = 'b' AND outcome = 'ok'")" = 8 ]
row $? "confirm measures every scenario a second time"
run eval --gpu mi300 --db "$db" --header "$header" --format json &&
	grep -q '"policy": "tree", "split": "heldout",[^}]*"unconfirmed": 0, "invalid": 0' "$tmp/out"
row $? "eval judges by that"
run show --gpu mi300 --db "$db" --header "$header" --model llama3.1-8b@8 --batch 3q1s90 &&
	grep -q estimated "$tmp/out"
row $? "show explains a batch that was never measured"

run bench --roofline --gpu mi300 --db "$db" --read-mb 0.27 --format tsv &&
	[ "$(sed 1d "$tmp/out" | cut -f1 | sort -u | tr '\n' ' ')" = "cached cold launch read " ] &&
	mv "$tmp/out" "$tmp/measured" && run show --gpu mi300 --db "$db" --ceilings --format tsv &&
	cmp "$tmp/out" "$tmp/measured" >>"$tmp/err"
row $? "the roofline is measured, and read back the same"

printf '#include "%s"\nint main(void) { struct attune_features f = { 0 }; return attune_mi300_overlap(&f) > 64; }\n' \
	"$header" >"$tmp/use.c"
${CC:-cc} -std=c11 -DATTUNE_EMULATED -iquote kernels "$tmp/use.c" -o "$tmp/use" >"$tmp/out" 2>"$tmp/err" &&
	"$tmp/use"
row $? "the header compiles where it is asked for"
${MAKE:-make} NVCC= HIPCC= B="$tmp/b" GENERATED="$tmp/generated" CPPFLAGS= \
	"$tmp/b/kernels/heuristics.o" >"$tmp/out" 2>"$tmp/err"
row "$([ $? -ne 0 ] && grep -q 'attune_mi300.h was made on an emulated device' "$tmp/err"
	echo $?)" "a library is not built with it"
end_rows
