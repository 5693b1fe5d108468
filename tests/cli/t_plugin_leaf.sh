#!/bin/sh
# t_plugin_leaf.sh - rules that name a plug-in: from a race over a header of `induce --with` to a
# library that runs the plug-in where it is registered, and attune's own kernels where it is not, has
# another version or refuses. Times are set by hand, so that the plug-in is faster for decodes, slower
# for prefills, and as one launch over a whole batch fastest.
. tests/support/tap.sh
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1                         # a race takes a second of the budget
example=tests/examples/plugin_object/twopass.c

attune() {
	timeout 1200 "$B/attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}
refused() { # CODE LINE ARGUMENT...
	code=$1 want=$2
	shift 2
	attune "$@"
	[ $? -eq "$code" ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$want" "$tmp/err"
}
changed() { # NAME FLAG-OF-CC SED: the example with a change
	sed "$3" $example >"$tmp/$1.c" &&
		${CC:-cc} -O3 -shared -fPIC -Ikernels "$2" "$tmp/$1.c" -o "$tmp/$1.so" -lm >"$tmp/log" 2>&1
}
changed twopass -DNOTHING '' && changed two "-DVERSION=\"2 of May\"" '' &&
	changed refusing -DNOTHING 's/^	(void)values, (void)part, (void)device;/&\n	if (part) return "every batch";/'
row $? 'the example builds, in another version, and one that refuses'

# ---- a race --------------------------------------------------------------------------------
cat >"$tmp/set.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@8" ] },
	"scenarios": [
		{ "batch": "4q1s100" }, { "batch": "8q1s40" },
		{ "batch": "q16" }, { "batch": "q32s64" },
		{ "batch": "q16_3q1s64" }, { "batch": "q32_2q1s100" },
		{ "batch": "2q1s64", "split": "heldout" },
		{ "batch": "q16_2q1s64", "split": "heldout" }
	]
}
SET
db=$tmp/cpu.sqlite
attune --plugin "$tmp/twopass.so" sweep --gpu cpu --scenarios "$tmp/set.json" --kernels twopass,segmented \
	--preset smoke --budget 300s --db "$db"
row $? 'it races'
# In us. Ours: 10 a part and in one launch, plans 20. twopass: decodes 5, prefills 20, one launch 8;
# with another UNROLL than 4 twice that.
sqlite3 "$db" "UPDATE measurement SET below = 0, ratio = NULL, median = 10000000;
	UPDATE measurement SET median = 20000000 WHERE variant IN (SELECT id FROM variant WHERE how <> '');
	UPDATE measurement SET median = (SELECT CASE p.name WHEN 'decode' THEN 5 WHEN 'all' THEN 8 ELSE 20 END
			* CASE c.text WHEN 'UNROLL=4' THEN 1000000 ELSE 2000000 END
		FROM variant v JOIN choice c ON c.id = v.choice, race r JOIN phase p ON p.id = r.phase
		WHERE v.id = measurement.variant AND r.id = measurement.race)
	WHERE variant IN (SELECT v.id FROM variant v JOIN choice c ON c.id = v.choice
		WHERE c.kernel = 'twopass' AND v.how = '')" >"$tmp/log" 2>&1
row $? 'its times are set'

# ---- the header ----------------------------------------------------------------------------
mkdir "$tmp/generated"
with=$tmp/generated/attune_cpu.h
attune induce --gpu cpu --db "$db" --out "$tmp/ours.h" && ! grep -q twopass "$tmp/ours.h"
row $? 'without --with no header names it'
attune --plugin "$tmp/twopass.so" induce --gpu cpu --db "$db" --out "$tmp/loaded.h" &&
	grep -v '^ \*   database ' "$tmp/loaded.h" >"$tmp/a" && grep -v '^ \*   database ' "$tmp/ours.h" | cmp -s - "$tmp/a"
row $? 'also where it is loaded: the rules are the same'
attune --plugin "$tmp/twopass.so" induce --gpu cpu --db "$db" --with twopass --out "$with" &&
	grep -q 'plug-ins: 1 choices, in 2 of 3 leaves' "$tmp/out"
row $? '--with makes a header that names it'
grep -v '^ \*   database ' "$with" >"$tmp/b"
[ "$(diff "$tmp/a" "$tmp/b" | grep -c '^<')" = 0 ]
row $? 'which has all that ours has, and more'
grep -q 'PLUGIN( 0, twopass, twopass, "1", "UNROLL=4")' "$with"
row $? 'a row of it has name, version and tunables'
says() { # FUNCTION: what its only leaf returns
	sed -n "/int attune_cpu_$1(/,/^}/s/.*return \([a-z_0-9]*\);.*/\1/p" "$with" | tr '\n' ' '
}
[ "$(says decode_plugin)|$(says prefill_plugin)|$(says mixed_plugin)" = 'cpu_twopass |cpu_ours |cpu_twopass ' ]
row $? 'it is named for decodes and whole batches, not for prefills'
grep -q 'return cpu_twopass; /\* 4 scenarios, 1.000, p95 1.000; next ours, 2.000 \*/' "$with"
row $? 'a leaf has the figures of ours beside its own'
attune induce --gpu cpu --db "$db" --with twopass --out "$with" --check
row $? 'without the object the same header comes from the database'
echo '#include "attune_cpu.h"
static struct attune_features f;
int main(void) { return attune_cpu_mixed_plugin(&f) != cpu_twopass; }' >"$tmp/alone.c"
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Ikernels -I"$tmp/generated" "$tmp/alone.c" -o "$tmp/alone" >"$tmp/log" 2>&1 && "$tmp/alone"
row $? 'it compiles alone as C11'
${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -Ikernels -I"$tmp/generated" -x c++ "$tmp/alone.c" -o "$tmp/alone" >"$tmp/log" 2>&1 &&
	"$tmp/alone"
row $? 'and as C++17'

# ---- other languages -----------------------------------------------------------------------
emit() { # LANGUAGE
	attune --plugin "$tmp/twopass.so" induce --gpu cpu --db "$db" --with twopass --emit "$1" --out "$tmp/rules.$1"
}
emit text && grep -qx 'plugin 0 twopass 1 UNROLL=4' "$tmp/rules.text" &&
	[ "$(grep -A1 '_plugin$' "$tmp/rules.text" | sed -n 's/^ *return \(-*[0-9]*\).*/\1/p' | tr '\n' ' ')" = '-1 0 0 ' ]
row $? 'rules as text have the row and the trees'
emit json && grep -q '"plugins": \[' "$tmp/rules.json" && grep -q '"mixed_plugin": {' "$tmp/rules.json" &&
	grep -q '{"id": 0, "plugin": "twopass", "version": "1", "text": "UNROLL=4"}' "$tmp/rules.json"
row $? 'so has JSON'

# ---- what it wins --------------------------------------------------------------------------
attune eval --gpu cpu --db "$db" --header "$tmp/ours.h" --with twopass --format tsv
[ $? -eq 0 ] && [ "$(awk -F '\t' '$1 == "with_plugins" { printf "%s %.4f ", $2, $4 }' "$tmp/out")" = 'train 1.0000 heldout 1.0000 ' ]
row $? 'eval --with: the rules with it take the fastest everywhere'
attune --plugin "$tmp/twopass.so" eval --gpu cpu --db "$db" --header "$with" --format tsv
[ $? -eq 0 ] && [ "$(grep -c '^with_plugins' "$tmp/out")" = 2 ]
row $? 'eval of the header has them, too'
attune eval --gpu cpu --db "$db" --header "$with" --format tsv
[ $? -eq 0 ] && ! grep -q with_plugins "$tmp/out" && grep -q 'leaves of plug-in twopass are left out' "$tmp/err"
row $? 'without the object its leaves are left out, which a line says'
attune --plugin "$tmp/twopass.so" show --gpu cpu --db "$db" --header "$with" --model llama3.1-8b@8 --batch 4q1s100
[ $? -eq 0 ] && grep -q '^# runs: segmented ' "$tmp/out" && grep -qx '# with plug-ins: twopass UNROLL=4: 5.000 us' "$tmp/out"
row $? 'show has what runs a batch with it, and without'
echo 'arrival_s,prompt_tokens,output_tokens
0,30,20
0.1,25,30
0.2,60,10' >"$tmp/trace.csv"
attune eval --gpu cpu --db "$db" --header "$tmp/ours.h" --with twopass --trace "$tmp/trace.csv" --model llama3.1-8b@8
[ $? -eq 0 ] && grep -q '^# a choice among all kernels would take 0\.[0-9]* of one among ours, 0\.[0-9]* of this header.s; the header with plug-ins takes 0\.' "$tmp/out"
row $? 'eval --trace --with says what it wins on a trace'

# ---- a race of the library -----------------------------------------------------------------
# The rules name another value than the fastest of the database, by which the plug-in itself is a
# contender: a launch by that value is the library's.
changed telling -DNOTHING 's/(void)stream, (void)error;/&\
	static int told;\
	if (o->unroll == 2 \&\& !told++)\
		fprintf(stderr, "a launch by 2\\n");/' &&
	sed 's/^\(plugin 0 twopass 1\) .*/\1 UNROLL=2/' "$tmp/rules.text" >"$tmp/by_2.text" &&
	! cmp -s "$tmp/rules.text" "$tmp/by_2.text"
row $? 'rules by 2, and an example that tells of such a launch'
bench() { # PLUG-IN OPTION...: by the rules
	file=$1
	shift
	ATTUNE_HEURISTICS="$tmp/by_2.text" attune ${file:+--plugin "$tmp/$file.so"} bench --gpu cpu --db "$db" --preset smoke --format tsv "$@"
}
ran() { # POLICY: which kernels it ran
	awk -F '\t' -v policy="$1" '$6 == policy { print $1 ": " $9 }' "$tmp/out" | sed 's/ [A-Z_]*=[0-9a-z]*//g' | sort | tr '\n' ';'
}
count='# attune ran plug-ins in'
first='its own kernels in the others, first because twopass UNROLL=2 of version 1'
bench telling --split train
[ $? -eq 0 ] && grep -qx 'a launch by 2' "$tmp/err" &&
	[ "$(ran attune)" = '4q1s100: twopass;8q1s40: twopass;q16: segmented;q16_3q1s64: twopass;q32_2q1s100: twopass;q32s64: segmented;' ] &&
	grep -qx "$count 4 of 4 batches for which its rules name one" "$tmp/err"
row $? 'bench: the library runs the plug-in where its rules name it, and the rows say so'
[ "$(awk -F '\t' '$1 == "4q1s100" && $6 ~ /attune|twopass|oracle/ { print $4, $5, $6, $9 }' "$tmp/out")" = 'BF16 BF16 oracle twopass UNROLL=4
BF16 BF16 attune twopass UNROLL=2
BF16 BF16 twopass twopass UNROLL=4' ] && head -n 1 "$tmp/out" | grep -q 'page_size	dtype	kv_dtype	policy	median_us	ratio_to_oracle	plan$'
row $? 'its rows have both types and the plan of each contender'
bench '' --split train
[ $? -eq 0 ] && [ "$(ran attune | grep -c twopass)" = 0 ] &&
	grep -qx "$count 0 of 4 batches .*; $first: no plug-in of this name is registered; attune --plugin FILE bench loads it" "$tmp/err"
row $? 'without it ours run, which a line says'
bench two --split heldout
[ $? -eq 0 ] && [ "$(ran attune | grep -c twopass)" = 0 ] &&
	grep -qx "$count 0 of 2 batches .*; $first: the plug-in is registered in another version" "$tmp/err"
row $? 'so in another version'
bench refusing --split heldout
[ "$(ran attune | grep -c twopass)" = 0 ] && grep -qx "$count 0 of 2 batches .*; $first: every batch" "$tmp/err"
row $? 'and where it refuses the batch'
bench telling --trace "$tmp/trace.csv" --model llama3.1-8b@8 --steps 3
[ $? -eq 0 ] && grep -qx 'a launch by 2' "$tmp/err" && grep -qx "$count 3 of 3 steps for which its rules name one" "$tmp/err" &&
	grep -q '^BF16	BF16	attune	3	' "$tmp/out"
row $? 'bench --trace runs it, too'
attune bench --gpu cpu --db "$db" --split train --limit 1 --preset smoke && ! grep -q 'ran plug-ins' "$tmp/err"
row $? 'rules without plug-ins have no such line'

# ---- command lines -------------------------------------------------------------------------
refused 2 "no times of a plug-in 'nothing'" induce --gpu cpu --db "$db" --with nothing --out "$tmp/no.h"
row $? 'a plug-in without times is refused'
refused 2 'segmented: it is a kernel of attune.s own' induce --gpu cpu --db "$db" --with segmented --out "$tmp/no.h"
row $? 'so is one of our kernels'
attune --plugin "$tmp/two.so" induce --gpu cpu --db "$db" --with twopass --out "$tmp/no.h"
[ $? -ne 0 ] && grep -q "twopass: .*cpu.sqlite has no right result of version '2 of May'" "$tmp/err" && [ ! -e "$tmp/no.h" ]
row $? 'so is a version that was not measured'

# ---- the library ---------------------------------------------------------------------------
seed_build "$tmp/build" && MAKEFLAGS='' ${MAKE:-make} --no-print-directory -j2 LOCAL=no B="$tmp/build" NVCC= HIPCC= GENERATED="$tmp/generated" \
	RESULTS="$tmp" lib >"$tmp/log" 2>&1 &&
	ln -s libattune.so "$tmp/build/libattune.so.0" &&
	${CC:-cc} -std=c11 -Ikernels tests/cli/plugged.c "$tmp/build/libattune.so" -Wl,-rpath,"$tmp/build" -o "$tmp/plugged" \
		-lm -ldl >>"$tmp/log" 2>&1
row $? 'a library of the header is built'
nm -D --defined-only "$tmp/build/libattune.so" | sed -n 's/.* T \(attune_.*plug.*\)/\1/p; s/.* T \(attune_free_plan\)/\1/p' |
	sort >"$tmp/log"
[ "$(tr '\n' ' ' <"$tmp/log")" = 'attune_free_plan attune_plan_plugins attune_register_plugin ' ]
row $? 'it exports what plug-ins need'
plugged() { # FILE...: which kernels ran, and what the op cannot run
	"$tmp/plugged" "$@" >"$tmp/out" 2>"$tmp/err" || return
	sed -n 's/^\([a-z]*\): right: /\1: /p' "$tmp/out" | sed 's/ [A-Z_]*=[0-9a-z]*//g' | tr '\n' ';'
}
ours='decode: segmented;prefill: segmented;mixed: segmented;' # one launch takes half as long as the parts
[ "$(plugged "$tmp/twopass.so")" = 'decode: twopass;prefill: segmented;mixed: twopass;' ] && grep -qx 'unused: ' "$tmp/out"
row $? 'registered, it runs where the header names it, and is right'
[ "$(plugged)" = "$ours" ] && grep -q 'twopass UNROLL=4 of version 1: no plug-in of this name is registered' "$tmp/out"
row $? 'not registered, ours run'
[ "$(plugged "$tmp/two.so")" = "$ours" ] && grep -q 'the plug-in is registered in another version' "$tmp/out"
row $? 'in another version, ours run'
[ "$(plugged "$tmp/refusing.so")" = "$ours" ]
row $? 'where it refuses the batch, ours run'

# The same rules as a file.
export ATTUNE_HEURISTICS="$tmp/rules.text"
[ "$(plugged "$tmp/twopass.so")" = 'decode: twopass;prefill: segmented;mixed: twopass;' ] && [ "$(plugged)" = "$ours" ]
row $? 'and by the rules as text'
sed 's/^plugin 0 twopass 1.*/plugin 0 segmented 1/' "$tmp/rules.text" >"$tmp/broken.text"
ATTUNE_HEURISTICS="$tmp/broken.text" "$tmp/plugged" >"$tmp/out" 2>"$tmp/err"
[ $? -ne 0 ] && grep -q 'broken.text:[0-9]*: "segmented"; "plugin ROW NAME VERSION' "$tmp/err"
row $? 'a row of one of our kernels is refused with its line'
sed '/^tree mixed_plugin/,$d' "$tmp/rules.text" >"$tmp/broken.text"
ATTUNE_HEURISTICS="$tmp/broken.text" "$tmp/plugged" >"$tmp/out" 2>"$tmp/err"
[ $? -ne 0 ] && grep -q '"tree mixed_plugin" is expected' "$tmp/err"
row $? 'so is a file without one of the trees'
end_rows
