#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_cli.sh - the command line: help, usage errors, exit codes. A failure prints one line on stderr
# (argp adds one that points to --help) and nothing on stdout.
. tests/support/tap.sh
attune=$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes

run() {
	eval "timeout 1200 $attune $*" >"$tmp/out" 2>"$tmp/err" </dev/null
	code=$?
}

commands='tune
tune --check
devices
scenarios
sweep
sweep --confirm
merge
merge --contribute
merge --bridge
induce
eval
show
show --diff
plot
bench'
IFS='
'

for c in '' $commands; do
	run "$c --help"
	bad=0
	[ $code -eq 0 ] && [ ! -s "$tmp/err" ] && grep -q '^Usage:' "$tmp/out" || bad=1
	[ -z "$c" ] || grep -Eq "^  attune $c( |\$)" "$tmp/out" || bad=1
	row $bad "attune${c:+ $c} --help, with an example"
done
run --help
bad=0
for c in $commands; do
	grep -q "^  $c " "$tmp/out" || bad=1
done
row $bad "attune --help lists every command"
unset IFS
run --version
row "$([ $code -eq 0 ] && grep -Eq '^attune [0-9]+\.[0-9]+\.[0-9]+$' "$tmp/out"; echo $?)" \
	"attune --version"
cp results/cpu.sqlite "$tmp/noisy.sqlite"
sqlite3 "$tmp/noisy.sqlite" "UPDATE OR REPLACE ending SET outcome = 'noisy' WHERE outcome = 'ok'"
run show --gpu cpu --best --db "$tmp/noisy.sqlite"
row "$([ $code -eq 1 ] && grep -q 'measurements are too noisy and left out' "$tmp/err"; echo $?)" \
	'a database of noisy times says so'

echo '{ "scenarios": [ { "batch": "2q2k_32q" } ] }' >"$tmp/batch.json"
echo '{ "scenarios": [ { "batch": "q1", "batchs": 1 } ] }' >"$tmp/key.json"
printf '{ "scenarios": [\n  { "batch" "q1" } ] }\n' >"$tmp/json.json"
printf '{ "\\u001b[2J": 1 }\n' >"$tmp/escape.json"
cp results/cpu.sqlite "$tmp/a-b.sqlite"
long=$(printf '%064d' 0)
echo 'this is no database' >"$tmp/text.sqlite"
echo '/* no header of ours */' >"$tmp/text.h"

# exit code, what the first line on stderr has, arguments
while IFS='|' read -r want pattern arguments; do
	[ -n "$want" ] || continue
	eval "line=\"$arguments\""
	run "$line"
	sed -i '/kept the CPU busy$/d' "$tmp/err" # a busy machine says so
	bad=0
	[ "$code" = "$want" ] || bad=1
	head -1 "$tmp/err" | grep -Eq "^attune.*($pattern)" || bad=1
	[ "$(sed 1d "$tmp/err" | grep -vcE '^Try .attune|^(for )?(more )?information')" = 0 ] || bad=1
	[ ! -s "$tmp/out" ] || bad=1
	row $bad "attune $arguments: exit $want"
done <<'ROWS'
2|unrecognized option|devices --nonsense
2|unrecognized option|scenarios --nonsense
2|unrecognized option|sweep --nonsense
2|unrecognized option|merge --nonsense
2|name the database|merge --bridge
2|name the files to add|merge --settled
2|--into is missing|merge --settled tests/fuzz/seeds/settled_file/three_kinds
2|--into: .*No such file|merge --settled tests/fuzz/seeds/settled_file/three_kinds --into $tmp/none.sqlite
2|three_kinds:2: settled on .NVIDIA H200.*holds no measurement of h200|merge --settled tests/fuzz/seeds/settled_file/three_kinds --into results/cpu.sqlite
2|name the database|scenarios --settled
2|none.sqlite: cannot be opened|scenarios --settled $tmp/none.sqlite --gpu h200
1|no settled batch of h200 is worth a sweep|scenarios --settled results/h200.sqlite --gpu h200
2|.extra. is not an option|scenarios --settled results/h200.sqlite extra
2|is not a command; it is attune sweep --confirm|confirm --gpu cpu
2|is not a command; it is attune show --diff|diff a.h b.h
2|text.sqlite|merge --bridge --db $tmp/text.sqlite
2|none.sqlite: cannot be opened|merge --bridge --db $tmp/none.sqlite
2|unrecognized option|induce --nonsense
2|unrecognized option|eval --nonsense
2|unrecognized option|sweep --confirm --nonsense
2|unrecognized option|show --nonsense
2|unrecognized option|show --diff --nonsense
2|unrecognized option|plot --nonsense
2|unrecognized option|bench --nonsense
2|.extra. is not an option|devices extra
2|argument 2.*x1b.*must be UTF-8 without control characters|devices x$(awk 'BEGIN { printf "%c", 27 }')
2|.extra. is not an option|sweep extra
2|Too many arguments|induce extra
2|Too many arguments|eval extra
2|.extra. is not an option|plot extra
2|Too many arguments|bench extra
2|1 to 63 of|show --gpu ../../tmp/x --stale
2|1 to 63 of|eval --gpu $long
2|1 to 63 of|induce --gpu H200
2|1 to 63 of|plot --gpu \'\'
2|1 to 63 of|sweep --gpu ../../tmp/x --compile-only --batch q1
2|1 to 63 of|sweep --gpu $long --db $tmp/new.sqlite --batch q1
2|1 to 63 of|merge --bridge --db results/cpu.sqlite --gpu ../../tmp/x
2|1 to 63 of|sweep --confirm --gpu ../../tmp/x --dry-run
2|say --arch|sweep --gpu some_gpu --compile-only --batch q1
2|must be one of sm_80|sweep --gpu some_gpu --arch sm_12 --compile-only --batch q1
2|h200 is of sm_90|sweep --gpu h200 --arch sm_89 --compile-only --batch q1
2|t4 is of sm_75|sweep --gpu t4 --compile-only --batch q1
2|compile-only|sweep --gpu some_gpu --arch sm_89 --batch q1
2|not named after a GPU|show $tmp/a-b.sqlite --diff results/cpu.sqlite
2|x1b|scenarios --set $tmp/escape.json
2|none.sqlite|show --gpu cpu --stale --db $tmp/none.sqlite
2|json|devices --format xml
2|json|scenarios --format xml
2|json|eval --format xml
2|json|show --format xml
2|json|bench --format xml
2|column|scenarios --batch 2q2k_32q
2|column|sweep --gpu cpu --db $tmp/new.sqlite --batch 2q2k_32q
2|no-such-model|scenarios --batch q1 --model no-such-model@1
2|no-such-model|sweep --gpu cpu --db $tmp/new.sqlite --batch q1 --model no-such-model@1
2|no-such-set|scenarios --set no-such-set
2|no-such-set|sweep --gpu cpu --db $tmp/new.sqlite --scenarios no-such-set
2|batch.json:1|scenarios --set $tmp/batch.json
2|key.json:1.*batchs|scenarios --set $tmp/key.json
2|json.json:2|scenarios --set $tmp/json.json
2|json.json:2|sweep --gpu cpu --db $tmp/new.sqlite --scenarios $tmp/json.json
2|preset|sweep --preset enormous
2|budget|sweep --budget soon
2|shard|sweep --shard 3/2
2|kernel|sweep --gpu cpu --db $tmp/new.sqlite --kernels no-such-kernel
2|phases|sweep --phases prefill,both
2|early.*survey|sweep --early --survey
2|early.*kernels|sweep --early --kernels ring
2|none.sqlite|sweep --gpu cpu --db $tmp/none.sqlite --early --batch q1
2|:memory:. is not a database file|sweep --gpu cpu --db :memory: --batch q1
2|\"\" is not a database file|sweep --gpu cpu --db \"\" --batch q1
2|is not a database file.* write ./file:x.mode=memory|sweep --gpu cpu --db file:x?mode=memory --batch q1
2|is not a database file|merge :memory:
2|is not a database file|show --gpu cpu --best --db :memory:
2|a part in --phases|sweep --gpu cpu --db $tmp/new.sqlite --batch 32q1s1k --phases prefill
3|l4|sweep --gpu l4 --db $tmp/new.sqlite --batch q1
3|mi300|sweep --gpu mi300 --db $tmp/new.sqlite --batch q1
2|1 to 63 of|sweep --gpu no-such-gpu --db $tmp/new.sqlite --batch q1
2|sequence length 5 is below its query length 10|scenarios --batch q10s5
2|sequence length 5 is below its query length 10|show --gpu cpu --model llama3.1-8b@1 --batch q10s5
2|sequence length 5 is below its query length 10|sweep --gpu cpu --db $tmp/new.sqlite --batch q10s5
2|llama3.1-8b@3.*models.json has llama3.1-8b@1|scenarios --batch q1 --model llama3.1-8b@3
2|--model is of --trace|eval --gpu cpu --model llama3.1-8b@1
2|kind, head|eval --gpu cpu --by colour
2|--against is of --by|eval --gpu cpu --against generated/attune_cpu.h
2|as in 1.05|eval --gpu cpu --above 0.5
2|different questions|eval --gpu cpu --above 1.05 --by kind
2|none.h|eval --gpu cpu --by kind --against $tmp/none.h
2|--load is of --trace|bench --gpu cpu --load 0.5
2|invalid option -- .s.|eval --gpu cpu -s train
2|invalid option -- .s.|bench --gpu cpu -s train
2|invalid option -- .s.|sweep --confirm --gpu cpu -s train
2|no-such-folder|scenarios --dir $tmp/no-such-folder
2|none.sqlite|induce --gpu cpu --db $tmp/none.sqlite --out $tmp/x.h
2|none.sqlite|eval --gpu cpu --db $tmp/none.sqlite
1|no measurement of h200_e4m3|eval --gpu h200_e4m3 --db results/h200_steady.sqlite
2|none.sqlite|plot --gpu cpu --peers $tmp/none.sqlite --out $tmp
2|none.sqlite|plot --gpu cpu --db $tmp/none.sqlite --out $tmp
2|none.sqlite|show --gpu cpu --db $tmp/none.sqlite --model llama3.1-8b@1 --batch q1
2|model|show --gpu cpu
2|mi300_peers.sqlite|show --gpu mi300 --peers
2|no plug-in raced there|show --gpu cpu --peers --db results/cpu.sqlite
2|text.sqlite|induce --gpu cpu --db $tmp/text.sqlite --out $tmp/x.h
2|text.sqlite|merge $tmp/new.sqlite $tmp/text.sqlite
2|none.sqlite|show --diff $tmp/none.sqlite $tmp/text.sqlite
2|number|induce --gpu cpu --max-leaves none
2|none.sqlite|sweep --confirm --gpu cpu --db $tmp/none.sqlite --dry-run
2|budget|sweep --confirm --gpu cpu --budget soon
2|heldout_traces|eval --gpu cpu --split no-such-split
2|heldout_traces|bench --gpu cpu --split no-such-split
2|text.sqlite|bench --gpu cpu --bounds --into $tmp/text.sqlite
2|none.sqlite|show --gpu cpu --table bench --db $tmp/none.sqlite
2|heldout_traces|sweep --confirm --gpu cpu --split no-such-split --dry-run
2|model|eval --gpu cpu --trace $tmp/none.csv
2|load|eval --gpu cpu --trace $tmp/none.csv --model llama3.1-8b@1 --load much
1|none.csv|eval --gpu cpu --trace $tmp/none.csv --model llama3.1-8b@1
2|model|bench --gpu cpu --trace $tmp/none.csv
3|of GPUs|bench --gpu cpu --roofline --db $tmp/new.sqlite
2|read-mb|bench --roofline --read-mb much
2|read-mb|bench --roofline --read-mb 0
2|none.sqlite|show --gpu cpu --ceilings --db $tmp/none.sqlite
2|text.sqlite|show --gpu cpu --ceilings --db $tmp/text.sqlite
1|no ceilings of cpu|show --gpu cpu --ceilings --db results/cpu.sqlite
2|batch|show --gpu cpu --model llama3.1-8b@1 --batch 2x --why
2|no-such-model|show --gpu cpu --db results/cpu.sqlite --model no-such-model@1 --batch q1 --why
2|none.sqlite|show --diff generated/attune_cpu.h generated/attune_cpu.h --db $tmp/none.sqlite
ROWS

# A merge that fails leaves no new database; one that has begun keeps what it added.
for words in "$tmp/merged.sqlite $tmp/text.sqlite" "$tmp/merged.sqlite" "--compact $tmp/merged.sqlite"; do
	# shellcheck disable=SC2086
	run merge $words
	row "$([ $code -eq 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && ! ls "$tmp"/merged.sqlite* >/dev/null 2>&1; echo $?)" \
		"merge $(echo "$words" | sed "s|$tmp/||g"): one line, no database"
done
run merge "$tmp/merged.sqlite" results/cpu.sqlite "$tmp/text.sqlite"
row "$([ $code -eq 2 ] && [ "$(sqlite3 "$tmp/merged.sqlite" 'SELECT count(*) > 0 FROM measurement')" = 1 ]; echo $?)" \
	"what was added before a broken one stays"

for word in sweeep ''; do
	run "$word"
	row "$([ $code -eq 2 ] && [ ! -s "$tmp/out" ] && [ -s "$tmp/err" ]; echo $?)" \
		"attune $word: exit 2, commands on stderr"
done

run devices --known --format tsv
row "$([ $code -eq 0 ] && grep -q "^h100_pcie	h100_pcie	sm_90	114	.*	h100	borrowed from h100 (132 SMs; here 114)" \
	"$tmp/out" && [ "$(wc -l <"$tmp/out")" -gt 50 ]; echo $?)" "known GPUs, with the header that each borrows"
row "$(grep -q "^h100	.*	own	h100	measured on h100$" "$tmp/out" && grep -q "^h20	.*	nearest	h" "$tmp/out" &&
	grep -q "^mi300	.*	defaults	untuned	the defaults, untimed" "$tmp/out" &&
	grep -q "^t4	.*	refused	untuned	refused: no kernel is for sm_75" "$tmp/out" &&
	[ "$(awk -F'\t' '$3 ~ /^sm_(8|1)/ && $8 != "'"$([ -e generated/attune_portable.h ] && echo portable || echo defaults)"'"' "$tmp/out" | wc -l)" = 0 ]; echo $?)" \
	"what each known GPU gets: its own rules, the nearest, the portable ones, defaults, or nothing"
sed 's/h100/portable/g; s/H100/PORTABLE/g' generated/attune_h100.h >"$tmp/portable.h"
for header in generated/attune_h100.h "$tmp/portable.h"; do
	run eval --gpu h100 --db results/h100.sqlite --header "$header" --split heldout --format tsv
	awk -F'\t' '$1 == "default" { print $4 }' "$tmp/out"
done >"$tmp/slowdown"
row "$(awk 'NR == 1 { all = $1 } NR == 2 { done = $1 > 1 && 1.3 * $1 < all } END { exit !done }' "$tmp/slowdown"; echo $?)" \
	"portable rules are judged among what they may name: the fastest is slower, so defaults lose less"
cp results/h100.sqlite "$tmp/gh200.sqlite"
sqlite3 "$tmp/gh200.sqlite" "UPDATE device SET gpu = 'gh200'; DELETE FROM seal"
run eval --gpu gh200 --db "$tmp/gh200.sqlite" --header committed --format tsv
row "$([ $code -eq 0 ] && [ "$(head -1 "$tmp/err")" = "attune: gh200 has no rules of its own: these are borrowed from h100" ] &&
	grep -q '^tree	heldout	220	' "$tmp/out"; echo $?)" "a GPU without rules of its own: those that it borrows"
run scenarios --batch 2q2k_32q1s1k --format json
row "$([ $code -eq 0 ] && grep -q '"seqs": *34' "$tmp/out"; echo $?)" "a batch as JSON"
run scenarios --batch 2q2k_32q1s1k --format csv
row "$([ $code -eq 0 ] && sed -n 2p "$tmp/out" | grep -q '^,.*,2q2k_32q1s1k$'; echo $?)" "a batch as CSV"
run scenarios --batch 2q2k_32q1s1k --format markdown
row "$([ $code -eq 0 ] && sed -n 3p "$tmp/out" | grep -q '^| .* | 2q2k_32q1s1k |$'; echo $?)" \
	"a batch in markdown"
run scenarios --batch 2q2k_32q1s1k --format tsv '>/dev/full'
row "$([ $code -eq 1 ] && grep -q 'standard output' "$tmp/err"; echo $?)" \
	"a full disk under stdout: exit 1"
# Two headers that differ in one row of choices: a rival more.
first=$(sed -n 's/.*return cpu_\([a-z0-9_]*\);.*/\1/p' generated/attune_cpu.h | grep -v defaults | head -1)
rival=$(sed -n 's/.*CHOICE( *[0-9]*, \([a-z0-9_]*\),.*/\1/p' generated/attune_cpu.h | grep -vx "$first" | head -1)
for with in none "$rival"; do
	awk -v row="LIST($first, $with, none, none)" '
		/^#define ATTUNE_CPU_LISTS/ { print "#define ATTUNE_CPU_LISTS(LIST) " row; within = 1; next }
		within && NF { next }
		{ within = 0; print }' generated/attune_cpu.h >"$tmp/with_$with.h"
done
run show --diff "$tmp/with_none.h" "$tmp/with_$rival.h"
row "$([ $code -eq 0 ] && grep -q '^# .*; 1 rows of choices changed$' "$tmp/out"; echo $?)" "show --diff counts rows that changed"
run show --diff "$tmp/with_none.h" "$tmp/with_$rival.h" --format tsv
row "$([ $code -eq 0 ] && [ "$(grep -vc "^#" "$tmp/out")" = 2 ] &&
	grep -q "^row	[a-z]* [A-Z].*	alone	[a-z]* [A-Z]" "$tmp/out"; echo $?)" "and prints each, as it was and is"
# A disk that is full while gnuplot writes: no file may exceed 8 kB.
if command -v gnuplot >/dev/null; then
	mkdir "$tmp/bin" "$tmp/pictures"
	printf '#!/bin/sh\ntrap "" XFSZ\nulimit -f 16\nexec %s "$@"\n' "$(command -v gnuplot)" >"$tmp/bin/gnuplot"
	chmod +x "$tmp/bin/gnuplot"
	echo before >"$tmp/pictures/cpu_kernels.svg"
	PATH=$tmp/bin:$PATH run plot --gpu cpu --out "$tmp/pictures"
	row "$([ $code -eq 1 ] && grep -q 'cpu_kernels.*drew only a part of it' "$tmp/err" &&
		[ "$(ls "$tmp/pictures")" = cpu_kernels.svg ] && [ "$(cat "$tmp/pictures/cpu_kernels.svg")" = before ]; echo $?)" \
		"F3: a full disk under a picture: exit 1, and the picture of before stays"
	run plot --gpu cpu --out "$tmp/pictures"
	row "$([ $code -eq 0 ] && grep -q '</svg>' "$tmp/pictures/cpu_kernels.svg" &&
		! grep -q 'of older sources too' "$tmp/pictures/cpu_kernels.svg" && ! grep -q warning "$tmp/err"; echo $?)" \
		"and with room it is drawn, without a word of gnuplot's"
	GNUTERM=x11 run plot --gpu cpu --out "$tmp/pictures"
	row "$([ $code -eq 0 ] && ! grep -q version "$tmp/err"; echo $?)" "whatever terminal GNUTERM names"
	run plot --gpu cpu --stale --out "$tmp/pictures"
	row "$([ $code -eq 0 ] && grep -q 'of older sources too' "$tmp/pictures/cpu_kernels.svg"; echo $?)" \
		"a picture with times of older sources says so"
fi
if [ -z "${SAN:-}" ]; then # a sanitizer takes more memory than this
	(ulimit -v 600000; ATTUNE_THREADS=1000 run devices)
	row "$(grep -q '^attune: cpu: 1000 threads cannot be started: .*; ATTUNE_THREADS sets another' "$tmp/err"; echo $?)" \
		"F1: threads that cannot be started are said, and nothing hangs"
fi
(ulimit -v 60000; run show --gpu h200 --model llama3.1-8b@1 --batch 32q1s16k; echo $code >"$tmp/code")
row "$([ "$(cat "$tmp/code")" = 0 ] || [ -s "$tmp/err" ]; echo $?)" "out of memory: not without a word"
[ ! -e "$tmp/x.h" ]
row $? "what failed wrote no header"
end_rows
