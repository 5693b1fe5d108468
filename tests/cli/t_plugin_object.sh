#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_plugin_object.sh - a kernel in a shared object, from its source to a race, by the commands of
# kernels/PLUGINS.md: what is recorded of one that is right, of a new version, of one that is wrong, fails
# or crashes; the database without it; command lines that are refused.
. tests/support/tap.sh
export ATTUNE_THREADS=1 # a pool's waiting threads would take CPU time from other tests
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1                         # a race takes a second of the budget
page=kernels/PLUGINS.md
example=tests/examples/plugin_object/twopass.c

MAKEFLAGS='' ${MAKE:-make} --no-print-directory install LOCAL=no B="$B" SAN="${SAN:-}" PREFIX="$tmp/usr" \
	>"$tmp/log" 2>&1
row $? 'make install'
attune() {
	timeout 1200 "$tmp/usr/bin/attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}
ask() { # DB SQL
	sqlite3 "$tmp/$1.sqlite" "$2"
}
are() { # WANT DB SQL: what the database answers
	ask "$2" "$3" >"$tmp/log"
	[ "$(cat "$tmp/log")" = "$1" ]
}
count() { # DB CONDITION: rows of the newest times
	ask "$1" "SELECT count(*) FROM history WHERE $2"
}

# ---- the page ---------------------------------------------------------------------------
# Each of the section's blocks of C stands in the example.
awk '/^## / { inside = $0 == "## A kernel built elsewhere" }
	inside && /^```$/ { show = 0 }
	show { print > name }
	inside && /^```c$/ { show = 1; name = folder "/quote" ++n }' folder="$tmp" $page
blocks=0 differ=0
for quote in "$tmp"/quote*; do
	blocks=$((blocks + 1))
	awk 'NR == FNR { quote = quote $0 "\n"; next } { all = all $0 "\n" } END { exit !index(all, quote) }' \
		"$quote" $example || differ=$((differ + 1))
done
[ $blocks -ge 3 ] && [ $differ = 0 ]
row $? "$page quotes the example"

line=$(sed -n 's/^    cc \(.* twopass\.c .*pkg-config.*\)/\1/p' $page)
build() { # NAME [FLAG...]: of $tmp/work/twopass.c, by the page's command
	name=$1
	shift
	if command -v pkg-config >/dev/null; then
		(cd "$tmp/work" && export PKG_CONFIG_PATH="$tmp/usr/lib/pkgconfig" && eval "${CC:-cc} $* $line")
	else
		(cd "$tmp/work" && eval "${CC:-cc} $* -I$tmp/usr/include ${line%%\$(*} -lm")
	fi >"$tmp/log" 2>&1 && mv "$tmp/work/twopass.so" "$tmp/$name.so"
}
changed() { # NAME SED...: the example with a change, as version NAME
	name=$1
	shift
	sed "$@" $example >"$tmp/work/twopass.c" && ! cmp -s $example "$tmp/work/twopass.c" &&
		build "$name" -DVERSION="'\"$name\"'"
}
mkdir "$tmp/work" && cp $example "$tmp/work" && build twopass -Wall -Wextra -Wpedantic -Werror
row $? "the example builds by the page's command"
(cd "$tmp/work" && eval "$(sed -n 's/^    \(echo .*\)/\1/p' "$OLDPWD/$page")") && "$B/attune" scenarios --set "$tmp/work/my_set.json" \
	--format tsv >"$tmp/log" 2>&1 && [ "$(cut -f 3,14 "$tmp/log" | tail -n 1)" = "llama3.1-8b@8	4q1s256" ]
row $? "the page's set is read"

# ---- a race -----------------------------------------------------------------------------
cat >"$tmp/set.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@8" ] },
	"scenarios": [
		{ "batch": "4q1s100" },
		{ "batch": "q16_3q1s64" },
		{ "batch": "2q1s64", "split": "heldout" }
	]
}
SET
sweep="sweep --gpu cpu --scenarios $tmp/set.json --kernels twopass,segmented --preset smoke --budget 300s"
# shellcheck disable=SC2086
attune --plugin "$tmp/twopass.so" $sweep --db "$tmp/db.sqlite"
row $? 'it races'
are 'all decode prefill' db "SELECT group_concat(phase, ' ') FROM (SELECT DISTINCT phase FROM history
	WHERE kernel = 'twopass' AND outcome IN ('ok', 'noisy') ORDER BY phase)"
row $? 'with decodes, prefills and whole batches'
are ok db "SELECT DISTINCT outcome FROM history WHERE kernel = 'twopass'"
row $? 'it is right everywhere'
[ "$(count db "kernel = 'segmented' AND outcome = 'ok'")" -gt 0 ]
row $? "beside attune's kernels"
are '' db "SELECT flags FROM history WHERE kernel = 'twopass'
	AND flags NOT LIKE '-DPLUGIN=1 -DHEADS=4 %UNROLL=%'"
row $? 'flags have its version, the shape and the tunable'
are '' db "SELECT detail FROM history WHERE kernel = 'twopass'
	AND NOT ifnull(detail, '') GLOB 'planned in [0-9]*.[0-9] us'"
row $? 'and detail what planning took'
rows=$(count db 1)
# shellcheck disable=SC2086
attune --plugin "$tmp/twopass.so" $sweep --db "$tmp/db.sqlite"
[ $? -eq 0 ] && grep -q 'nothing to do' "$tmp/err" && [ "$(count db 1)" = "$rows" ]
row $? 'a second sweep measures nothing'

# ---- without it -------------------------------------------------------------------------
cp "$tmp/db.sqlite" "$tmp/without.sqlite"
attune show --gpu cpu --db "$tmp/without.sqlite" --model llama3.1-8b@8 --batch 4q1s100
[ $? -eq 0 ] && ! grep -v ': measured on ' "$tmp/err" && grep -q segmented "$tmp/out" && ! grep -q twopass "$tmp/out"
row $? 'show leaves its rows out'
attune induce --gpu cpu --db "$tmp/without.sqlite" --out "$tmp/attune_cpu.h"
[ $? -eq 0 ] && grep -q 'return cpu_segmented' "$tmp/attune_cpu.h" && ! grep -q twopass "$tmp/attune_cpu.h"
row $? 'so does induce'
attune eval --gpu cpu --db "$tmp/without.sqlite"
[ $? -eq 0 ] && ! grep -q twopass "$tmp/out"
row $? 'and eval'
attune --plugin "$tmp/twopass.so" show --gpu cpu --db "$tmp/db.sqlite" --model llama3.1-8b@8 --batch 4q1s100
[ $? -eq 0 ] && grep -q twopass "$tmp/out"
row $? 'with it show lists them'

# ---- other versions ---------------------------------------------------------------------
build two -DVERSION="'\"2 of May\"'"
others=$(count db "kernel <> 'twopass' AND kernel <> 'plan'")
firsts=$(count db "kernel = 'twopass'")
last=$(ask db 'SELECT max(run_id) FROM history')
# shellcheck disable=SC2086
attune --plugin "$tmp/two.so" $sweep --db "$tmp/db.sqlite"
[ $? -eq 0 ] && [ "$(count db "kernel = 'twopass' AND outcome = 'ok'
	AND flags LIKE '-DPLUGIN=2_of_May %'")" = "$firsts" ]
row $? 'parts of another version are measured anew'
# In a smoke test segmented has one choice a part, so that the best two have one of twopass.
[ "$(count db "kernel = 'plan' AND variant LIKE '%twopass%' AND run_id > $last")" -gt 0 ]
row $? 'and plans with it'
[ "$(count db "kernel <> 'twopass' AND kernel <> 'plan'")" = "$others" ]
row $? 'and no other kernel'
rows=$(count db 1)
# shellcheck disable=SC2086
attune --plugin "$tmp/two.so" $sweep --db "$tmp/db.sqlite"
[ $? -eq 0 ] && grep -q 'nothing to do' "$tmp/err" && [ "$(count db 1)" = "$rows" ]
row $? 'and each once'

# A whole batch whose reference is one of attune's kernels.
whole='sweep --gpu cpu --model llama3.1-8b@8 --batch q16_3q1s64 --kernels qblock,twopass --preset smoke --budget 300s'
# shellcheck disable=SC2086
attune --plugin "$tmp/twopass.so" $whole --db "$tmp/whole.sqlite"
firsts=$(count whole "kernel = 'twopass' AND phase = 'all'") last=$(ask whole 'SELECT max(run_id) FROM history')
# shellcheck disable=SC2086
attune --plugin "$tmp/two.so" $whole --db "$tmp/whole.sqlite"
[ "$firsts" -gt 0 ] && [ "$(count whole "kernel = 'twopass' AND phase = 'all' AND outcome = 'ok'
	AND flags LIKE '-DPLUGIN=2_of_May %'")" = "$firsts" ]
row $? 'whole batches of another version are measured anew'
[ "$(count whole "kernel = 'qblock' AND run_id > $last")" = 0 ]
row $? 'and no other kernel there'
rows=$(count whole 1)
# shellcheck disable=SC2086
attune --plugin "$tmp/two.so" $whole --db "$tmp/whole.sqlite"
[ $? -eq 0 ] && grep -q 'nothing to do' "$tmp/err" && [ "$(count whole 1)" = "$rows" ]
row $? 'each of them once'

# Its faults need no other kernel and no other batch.
sweep='sweep --gpu cpu --model llama3.1-8b@8 --batch 4q1s100 --kernels twopass --preset smoke --budget 300s'
changed wrong 's/score\[i\] = scale \* /score[i] = 2 * scale * /'
# shellcheck disable=SC2086
attune --plugin "$tmp/wrong.so" $sweep --db "$tmp/wrong.sqlite"
row $? 'a wrong kernel does not stop a sweep'
are 'wrong' wrong "SELECT DISTINCT outcome FROM history WHERE kernel = 'twopass'"
row $? 'it is recorded as wrong'
are '' wrong "SELECT plan FROM best WHERE plan LIKE '%twopass%'"
row $? 'and fastest nowhere'

# Its launch fails where store was not called for the plan.
changed stored 's/int num_seqs, max_seq;/int num_seqs, max_seq, stored;/
	s/(void)stream, (void)error;/(void)stream;\
	if (!p->stored) { snprintf(error, ATTUNE_PLUGIN_ERROR, "it has no cache"); return 1; }/
	s/^static void free_op/static int keep(void *op, void *plan, const attune_tensors *t, void *stream, char *error)\
{\
	(void)op, (void)t, (void)stream, (void)error;\
	((struct plan *)plan)->stored = 1;\
	return 0;\
}\
&/
	s/\.free_op = free_op }/.free_op = free_op, .store = keep }/'
# shellcheck disable=SC2086
attune --plugin "$tmp/stored.so" $sweep --db "$tmp/stored.sqlite"
are 'ok' stored "SELECT DISTINCT outcome FROM history WHERE kernel = 'twopass'"
row $? 'one with a cache of its own fills it for each plan, in checks and races'

# It takes decodes on one side of all prefills, and its plan fails if it is given another batch.
changed divided 's/^	(void)values, (void)part, (void)device;/	(void)values, (void)device;\
	if (part \&\& part->prefills.seq_count + part->decodes.seq_count > part->num_seqs)\
		return "decodes among prefills";/
	s/^	p->num_seqs = b->lengths.num_seqs;/&\
	const int32_t *start = b->lengths.query_start;\
	int changes = 0;\
	for (size_t i = 1; i < n; i++)\
		changes += (start[i + 1] - start[i] > 8) != (start[i] - start[i - 1] > 8);\
	if (changes > 1) { snprintf(error, ATTUNE_PLUGIN_ERROR, "%d sides", changes + 1); return 1; }/'
# shellcheck disable=SC2086
attune --plugin "$tmp/divided.so" $whole --phases all --db "$tmp/divided.sqlite"
are 'all ok' divided "SELECT DISTINCT phase || ' ' || outcome FROM history
	WHERE kernel = 'twopass' AND phase = 'all'"
row $? 'the check passes over corner batches that it refuses'

changed broken 's/(void)stream, (void)error;/if (o->unroll == 1) abort();\
	if (o->unroll == 2) { snprintf(error, ATTUNE_PLUGIN_ERROR, "no luck with 2"); return 1; }/'
# shellcheck disable=SC2086
attune --plugin "$tmp/broken.so" $sweep --db "$tmp/broken.sqlite"
row $? 'a crash does not stop a sweep'
are 'UNROLL=1 crash
UNROLL=2 resources
UNROLL=4 ok' broken "SELECT DISTINCT variant || ' ' || outcome FROM history WHERE kernel = 'twopass' ORDER BY 1"
row $? 'what crashes, fails and is right are rows of their own'
[ "$(count broken "outcome = 'resources' AND detail LIKE '%: plug-in twopass: launch: no luck with 2'")" -gt 0 ]
row $? 'a failure has the words of the plug-in'
[ "$(count broken "outcome = 'crash' AND detail LIKE '%signal%'")" -gt 0 ]
row $? 'a crash has its signal'

# ---- beside the library -------------------------------------------------------------------
bench() { # PLUG-IN: every policy of the table of times, with how it ended
	attune --plugin "$tmp/$1.so" bench --gpu cpu --db "$tmp/db.sqlite" --into "$tmp/$1_bench.sqlite" --split train --preset smoke --format tsv
	[ $? -eq 0 ] && ask "$1_bench" "SELECT DISTINCT policy || ' ' || replace(outcome, 'noisy', 'ok') FROM bench
		WHERE policy IN ('attune', 'twopass') ORDER BY 1" | tr '\n' ' ' >"$tmp/log"
}
bench twopass && [ "$(cat "$tmp/log")" = 'attune ok twopass ok ' ] &&
	awk -F '\t' '$6 == "twopass" && $7 > 0 && $8 > 0 && $9 ~ /twopass UNROLL/' "$tmp/out" | grep -q .
row $? 'bench times it beside the library'
changed dying 's/(void)stream, (void)error;/abort();/' && bench dying && [ "$(cat "$tmp/log")" = 'attune ok twopass crash ' ]
row $? 'and goes on when it crashes'

# ---- command lines ----------------------------------------------------------------------
refused() { # LINE ARGUMENT...
	want=$1
	shift
	attune "$@"
	[ $? -eq 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$want" "$tmp/err"
}
refused '--plugin needs a file' --plugin
row $? '--plugin alone'
refused 'nothing.so: there is no such file' --plugin "$tmp/nothing.so" devices
row $? 'a file that is not there'
refused '--plugin needs a file' --plugin= devices
row $? 'an empty name'
echo text >"$tmp/text.so"
refused 'text.so: .*\(invalid ELF header\|too short\)' --plugin "$tmp/text.so" devices
row $? 'a file that is no shared object'
library() { # NAME C
	echo "$2" >"$tmp/$1.c" && ${CC:-cc} -shared -fPIC "$tmp/$1.c" -o "$tmp/$1.so" >"$tmp/log" 2>&1
}
library other 'int other;'
refused 'other.so: it does not export attune_plugins' --plugin "$tmp/other.so" devices
row $? 'a shared object of another kind'
library empty 'static void *none; void *attune_plugins(void) { return &none; }'
refused 'empty.so: its attune_plugins lists no kernel' --plugin "$tmp/empty.so" devices
row $? 'one without kernels'
library lacking 'void nowhere(void); void *attune_plugins(void) { nowhere(); return 0; }'
refused 'lacking.so: .*undefined symbol: nowhere' --plugin "$tmp/lacking.so" devices
row $? 'one that lacks a function'
refused 'plug-in "twopass": a kernel has this name' --plugin "$tmp/twopass.so" "--plugin=$tmp/twopass.so" devices
row $? 'the same one twice'
changed fa3 's/"twopass"/"FA3"/'
refused 'plug-in "FA3": its name is not of lower-case letters' --plugin "$tmp/fa3.so" devices
row $? 'a kernel that is not sound'
attune --plugin "$tmp/twopass.so"
[ $? -eq 2 ] && grep -q '^Usage: attune \[--plugin FILE\]' "$tmp/err"
row $? 'no command'
attune --help
grep -q -- '--plugin FILE adds the kernels of a shared object' "$tmp/out"
row $? "the tool's --help has it"
end_rows
