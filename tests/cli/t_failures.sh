#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_failures.sh - kernels that do not compile, compute something wrong, write NaN, crash or never end:
# each is a row with its outcome and reason, the sweep goes on, and no header names them.
. tests/support/tap.sh
attune=$PWD/$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes
export ATTUNE_SOURCE="$tmp/kernels" ATTUNE_CACHE="$tmp/cache"

ask() { # SQL
	sqlite3 "$tmp/db.sqlite" "$1"
}

# All choices of qblock but its default and one more are broken, in a copy. What never ends is
# right when it is looked at, and is caught when it is timed: there a sweep waits for 10 s.
cp -r kernels "$tmp/kernels"
qblock=$tmp/kernels/cpu/qblock.c
sed -i -e 's/^void ENTRY(/static __attribute__((unused)) void sound(/' \
	-e 's|c->l\[r\] > 0 ? 1 / c->l\[r\] : 0|FACTOR * (&)|' "$qblock"
cat - "$qblock" >"$tmp/whole.c" <<'END'
#if BLOCK_M == 48 && TILE_SIZE == 128
#error "no such block"
#endif
int pause(void);
#define FACTOR (BLOCK_M == 48 ? 2.0f : BLOCK_M == 96 && TILE_SIZE == 128 ? __builtin_nanf("") : 1.0f)
END
cat - >>"$tmp/whole.c" <<'END'
void ENTRY(const struct attune_args *a, int x, int y, int z)
{
#if BLOCK_M == 384
	__builtin_trap();
#else
	static int calls;
	sound(a, x, y, z);
	/* pause() leaves the CPU to other tests. */
	if (BLOCK_M == 96 && TILE_SIZE == 256 && a->num_seqs == 11 &&
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) > 11)
		for (;;)
			pause();
#endif
}
END
mv "$tmp/whole.c" "$qblock"
printf '{ "defaults": { "models": [ "llama3.1-8b@8" ] }, "scenarios": [
	{ "batch": "11q1s80" }, { "batch": "3q1s70", "split": "heldout" } ] }' >"$tmp/set.json"

sweep() {
	timeout 600 "$attune" sweep --gpu cpu --kernels qblock --preset quick --budget 300s \
		--db "$tmp/db.sqlite" --scenarios "$tmp/set.json" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}
sweep
row $? "the sweep goes on: exit 0"
for outcome in compile wrong nan timeout crash; do
	row "$([ "$(ask "SELECT count(*) FROM failures WHERE outcome = '$outcome' AND batch = '11q1s80'
		AND length(detail) > 5")" -gt 0 ]; echo $?)" \
		"$outcome is a row that says why"
	row "$(grep -q "failed (.*[0-9] $outcome[,)]" "$tmp/err"; echo $?)" "and counted in the summary"
done
row "$(ask "SELECT detail FROM failures WHERE outcome = 'compile'" | grep -q 'no such block'
	echo $?)" "the compiler's words are kept"
row "$(ask "SELECT detail FROM failures WHERE outcome = 'crash'" | grep -q 'signal'; echo $?)" \
	"and the signal"
row "$([ "$(ask "SELECT count(*) FROM failures WHERE median_us IS NOT NULL")" = 0 ]; echo $?)" \
	"none has a time"
row "$([ "$(ask "SELECT count(*) FROM failures WHERE variant LIKE 'BLOCK_M=192%'")" = 0 ]; echo $?)" "what was left whole has not failed"

# What was noisy is.
failed() {
	ask "SELECT count(*) FROM history WHERE outcome NOT IN ('ok', 'noisy')"
}
before=$(failed)
sweep
row "$([ "$before" -gt 0 ] && [ "$(failed)" = "$before" ]; echo $?)" "a failure is not measured again"

# Of a good choice, a row that a fault of the machine left: --retry finds and replaces it, and
# measures no other failure.
good="outcome = 'ok' AND kernel = 'qblock' AND variant LIKE 'BLOCK_M=192%' AND batch = '11q1s80'"
cp "$tmp/db.sqlite" "$tmp/sound.sqlite"
ask "INSERT OR IGNORE INTO ending (outcome, stopped, samples) VALUES ('resources', '', 0);
	INSERT OR IGNORE INTO ran (build, ending) SELECT b.id, e.id FROM build AS b, ending AS e WHERE outcome = 'resources';
	UPDATE measurement AS x SET median = NULL, below = NULL, ci = NULL, ratio = NULL,
		ran = (SELECT w.id FROM ran AS n JOIN ran AS w ON w.build = n.build JOIN ending AS e ON e.id = w.ending
			WHERE n.id = x.ran AND e.outcome = 'resources')
	WHERE (race, variant) = (SELECT m.race, m.variant FROM measurement AS m JOIN variant AS v ON v.id = m.variant
		JOIN choices AS o ON o.id = v.choice JOIN race AS c ON c.id = m.race JOIN scenario AS s ON s.id = c.scenario
		WHERE v.decode IS NULL AND o.text LIKE 'BLOCK_M=192%' AND s.batch = '11q1s80'
		AND (m.race, m.variant) NOT IN (SELECT race, variant FROM superseded) LIMIT 1)"
faults() {
	ask "SELECT count(*) FROM failures WHERE outcome = 'resources'"
}
sweep
row "$([ "$(faults)" = 1 ]; echo $?)" "what a fault of the machine left stays"
sweep --retry resources,illegal
row "$([ $? = 0 ] && [ "$(faults)" = 0 ] && [ "$(ask "SELECT count(*) FROM timings WHERE $good")" -gt 0 ] &&
	[ "$(ask "SELECT count(DISTINCT run_id) FROM history WHERE outcome = 'crash'")" = 1 ]; echo $?)" \
	"until --retry measures it again, and no other failure"
sweep --retry resources,slow
row "$([ $? = 2 ] && grep -q '"slow" is none of wrong' "$tmp/err"; echo $?)" "an outcome that no row has is refused"
sweep --retry ''
row "$([ $? = 2 ] && grep -q -- '--retry: "" is none of wrong' "$tmp/err"; echo $?)" "and so is an empty list"
mv "$tmp/sound.sqlite" "$tmp/db.sqlite"

# The form that is committed has no rows of modified sources, and this tree may be modified.
ask "UPDATE run SET sources = 'committed'"
"$attune" merge --compact "$tmp/db.sqlite" 2>"$tmp/err"
row "$([ "$(ask 'SELECT count(DISTINCT outcome) FROM failures')" = 5 ]; echo $?)" \
	"the committed form keeps failures"

# Rows of older sources, here all: they stay while there are no sources to compare with.
cp "$tmp/db.sqlite" "$tmp/older.sqlite"
sqlite3 "$tmp/older.sqlite" "DELETE FROM seal; UPDATE code SET sources = replace(sources, ':', ':0')"
older() {
	sqlite3 "$tmp/older.sqlite" 'SELECT count(*) FROM measurement'
}
all=$(older)
ATTUNE_SOURCE="$tmp/none" "$attune" merge --compact "$tmp/older.sqlite" 2>"$tmp/err"
row "$([ "$(older)" = "$all" ] && grep -q 'no kernel sources found to compare with' "$tmp/err"; echo $?)" \
	"without kernel sources, rows of older ones stay"
"$attune" merge --compact "$tmp/older.sqlite" 2>"$tmp/err"
row "$([ "$(older)" -lt "$all" ] && grep -q "$((all - $(older))) rows of older kernel sources" "$tmp/err"; echo $?)" \
	"with them they go, and are counted"

"$attune" induce --gpu cpu --db "$tmp/db.sqlite" --out "$tmp/cpu.h" >"$tmp/out" 2>"$tmp/err"
row $? "a header is made of the rest"
row "$(! grep -Eq 'BLOCK_M=(48|96|384)' "$tmp/cpu.h" &&
	grep -q 'BLOCK_M=192' "$tmp/cpu.h"; echo $?)" "and chooses none that failed"

# A compiler that failed without a word left binaries that do not load. The first sweep says so; the next,
# with the compiler mended, compiles again what the cache has, and blames no kernel.
unset ATTUNE_SOURCE
cat >"$tmp/cc.sh" <<END
case " \$* " in
*" -shared "*)
	[ ! -e "$tmp/broken" ] || {
		while [ "\$1" != -o ]; do shift; done
		echo text >"\$2"
		exit
	} ;;
esac
exec cc "\$@"
END
outcomes() { # NAME
	CC="sh $tmp/cc.sh" ATTUNE_CACHE="$tmp/silent" timeout 600 "$attune" sweep --gpu cpu --kernels segmented --preset smoke \
		--budget 20s --db "$tmp/$1.sqlite" --batch 2q1s64 >"$tmp/out" 2>"$tmp/err" </dev/null
	sqlite3 "$tmp/$1.sqlite" "SELECT group_concat(DISTINCT outcome) FROM timings WHERE outcome <> 'noisy'"
}
touch "$tmp/broken"
row "$([ "$(outcomes silent)" = resources ]; echo $?)" "binaries that do not load are stored as failures"
rm "$tmp/broken"
row "$([ "$(outcomes mended)" = ok ]; echo $?)" "the next sweep compiles them again"
end_rows
