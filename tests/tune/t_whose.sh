#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_whose.sh - whose times a machine uses is said, and times of two CPUs never mix: a database of
# another CPU, and one of two.
. tests/support/tap.sh
attune=$PWD/$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_THREADS=3 # the committed times are by two
amd='AMD EPYC, avx512, 2 threads'

run() {
	timeout 600 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

run devices --format tsv
row "$(grep '^cpu' "$tmp/out" | grep -q "borrowed: measured on $amd; here .*, 3 threads"; echo $?)" \
	"devices: the rules are borrowed, from whom, and what is here"
elsewhere="measured on $amd; this machine is .*, 3 threads"
run show --gpu cpu --best --format tsv
row "$([ $? = 0 ] && grep -q "$elsewhere" "$tmp/err"; echo $?)" "show --best"
run show --gpu cpu --model llama3.1-8b@1 --batch 3q1s3k
row "$([ $? = 0 ] && grep -q "$elsewhere" "$tmp/err"; echo $?)" "show of a batch"
run eval --gpu cpu --format tsv
row "$([ $? = 0 ] && grep -q "$elsewhere" "$tmp/err"; echo $?)" "eval"
run induce --gpu cpu --emit json
row "$([ $? = 0 ] && grep -q "$elsewhere" "$tmp/err"; echo $?)" "induce"
run show --gpu h200 --best --format tsv
row "$([ $? = 0 ] && grep -q 'measured on NVIDIA H200, sm_90, 132 SMs$' "$tmp/err"; echo $?)" "show of a GPU"
ATTUNE_CLOCK=0.01 run tune --check --gpu cpu --limit 2
code=$?
row "$([ $code -le 1 ] && grep -q "$elsewhere" "$tmp/err" && grep -q "x their times there.*another CPU's rules" "$tmp/err" &&
	! grep -q 'still fit' "$tmp/err"; echo $?)" "check: no word of this machine's rules"
mkdir "$tmp/results" "$tmp/generated"
cp generated/attune_cpu.h "$tmp/generated"
ATTUNE_CLOCK=1000 run tune --gpu cpu --preset smoke --budget 1s --results "$tmp/results" --generated "$tmp/generated"
row "$(grep -q "cpu (.*, 3 threads).*from the committed rules of cpu, measured on $amd" "$tmp/err"; echo $?)" "tune"

# Times of two CPUs: some of the first are twice as long, so that a mixture would show.
cp results/cpu.sqlite "$tmp/first.sqlite"
sqlite3 "$tmp/first.sqlite" "DELETE FROM seal; UPDATE device SET name = 'Another CPU', machine = 'first';
	UPDATE run SET uid = 'first' || uid; UPDATE measurement SET median = (1 + variant % 2) * median"
cp results/cpu.sqlite "$tmp/two.sqlite"
run merge "$tmp/two.sqlite" "$tmp/first.sqlite"
row $? "a database with times of two CPUs"
for command in 'eval' 'induce --emit json' 'show --best' 'tune --check' 'sweep --confirm --dry-run'; do
	# shellcheck disable=SC2086
	run $command --gpu cpu --db "$tmp/two.sqlite"
	row "$([ $? = 2 ] && grep -q "times of 2 CPUs, and none of them is this one: \"$amd\".*\"Another CPU, " "$tmp/err" &&
		! grep -q 'without a reason' "$tmp/err"; echo $?)" "$command: refused on a third, with both named"
done

json() { # DB [OPTION...]: what eval says of it
	of=$1
	shift
	run "$@" eval --gpu cpu --db "$of" --format json && cat "$tmp/out"
}
: >"$tmp/other"
for db in results/cpu.sqlite "$tmp/first.sqlite"; do
	json "$db" >"$tmp/alone"
	json "$tmp/two.sqlite" --machine "$([ "$db" = results/cpu.sqlite ] && echo "$amd" || echo Another)" >"$tmp/named"
	row "$([ -s "$tmp/alone" ] && cmp -s "$tmp/alone" "$tmp/named" && ! cmp -s "$tmp/alone" "$tmp/other"; echo $?)" "--machine: as if the times of $(basename "$db") were alone"
	cp "$tmp/alone" "$tmp/other"
done
json "$tmp/two.sqlite" --machine first >"$tmp/named"
row "$(cmp -s "$tmp/alone" "$tmp/named"; echo $?)" "by the machine's id"
run --machine 'er CPU' eval --gpu cpu --db "$tmp/two.sqlite"
row $? "by a part of the name"
run --machine avx eval --gpu cpu --db "$tmp/two.sqlite"
row "$([ $? = 2 ] && grep -q "'avx' names several of its CPUs" "$tmp/err"; echo $?)" "a text that both have: refused"
run --machine xeon eval --gpu cpu --db "$tmp/two.sqlite"
row "$([ $? = 2 ] && grep -q "'xeon' names none of its CPUs" "$tmp/err"; echo $?)" "a text that none has: refused"

run --machine xeon eval --gpu cpu --db "$tmp/first.sqlite"
row "$([ $? = 2 ] && grep -q "'xeon' names none of its CPUs" "$tmp/err"; echo $?)" "nor has the only one of a database: refused"
run --machine '' eval --gpu cpu --db "$tmp/two.sqlite"
row "$([ $? = 2 ] && grep -q -- '--machine needs a text' "$tmp/err"; echo $?)" "an empty text: refused"

# This machine's own are found among them.
arch=$(run devices --format tsv; awk -F '\t' '$1 == "cpu" { print $4 }' "$tmp/out")
name=$(awk -F '\t' '$1 == "cpu" { print $3 }' "$tmp/out")
sqlite3 "$tmp/two.sqlite" "DELETE FROM seal; UPDATE device SET units = 3, arch = '$arch', name = '$name' WHERE machine = 'first'"
json "$tmp/two.sqlite" >"$tmp/named"
row "$([ -s "$tmp/named" ] && grep -q "measured on $name, $arch, 3 threads$" "$tmp/err"; echo $?)" "this machine's are taken"
end_rows
