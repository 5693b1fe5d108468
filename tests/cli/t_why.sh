#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_why.sh - `attune show --why` names what the library runs: where the rules' choice is illegal or not
# carried, with the reason, and on GPUs that nobody measured.
. tests/support/tap.sh

why() { # GPU MODEL BATCH PAGE_SIZE [OPTION...]
	gpu=$1 model=$2 batch=$3 page=$4
	shift 4
	"$B/attune" show --gpu "$gpu" --model "$model" --batch "$batch" --page-size "$page" --why --format tsv "$@" 2>&1
}

# rules NAME...: the H200's, but prefills have one leaf, with this row of 4 names of CHOICES or "none"; $marked: of these no
# time chose this one.
marked=
rules() {
	awk -v leaf="$1" -v row="$1, $2, $3, $4" -v mark="${marked:+ /* by estimate: $marked */}" '
		/^#define ATTUNE_H200_LISTS/ { print "#define ATTUNE_H200_LISTS(LIST) LIST(" row ")" mark }
		/^#define ATTUNE_H200_LISTS/ || left { left = /\\$/; next }
		/^ATTUNE_SELECT int attune_h200_prefill/ { print $0; body = 1 }
		body == 1 { print "{\n\treturn h200_" leaf "; /* 9 scenarios, 1.020, p95 1.100; row settled 1.004 */\n}"; body = 2 }
		!body { print }
		/^}/ { body = 0 }' generated/attune_h200.h
}
choice() { # TEXT N: the name of the Nth warpgroup of CHOICES whose tunables have or, after !, lack the text
	sed -n 's/^\tCHOICE([ 0-9]*, \([a-z0-9_]*\), *warpgroup, *"\(.*\)").*/\1 \2/p' generated/attune_h200.h |
		awk -v text="${1#!}" -v not="${1%%[A-Z]*}" '(index($0, text) > 0) == (not == "")' |
		sed -n "$2s/ .*//p"
}
packed=$(choice PACKED=1 1) also_packed=$(choice PACKED=1 2) not_packed=$(choice '!PACKED=1' 1)
ATTUNE_HEURISTICS=$tmp/rules.h
rules "$packed" "$also_packed" "$not_packed" none >"$ATTUNE_HEURISTICS"
export ATTUNE_HEURISTICS
why h200 llama2-7b@1 2q8k 16 >"$tmp/out"
sed -n '/^prefill	not run/,/^prefill	picked/p' "$tmp/out" | cut -f2,3 >"$tmp/log"
[ "$(cut -f1 "$tmp/log" | tr '\n' ,)" = "not run,not run,runs,behind it,picked," ] &&
	[ "$(grep -c "^not run	warpgroup .*PACKED=1 .*: PACKED needs 2 to BLOCK_M query heads" "$tmp/log")" = 2 ] &&
	! sed -n '/^runs/,$p' "$tmp/log" | grep -q PACKED
row $? "a row: the rule that each choice before the one that runs breaks"
cut -f1-3 "$tmp/out" >"$tmp/log"
! grep -q "^prefill	test" "$tmp/log" && grep -q "^prefill	leaf	9 training scenarios ended here" "$tmp/log"
row $? "a file of rules: its own leaf, not the build's"
why h200 llama3.1-8b@1 2q8k 16 | sed -n '/^prefill	runs/,/^prefill	picked/p' | cut -f2,3 >"$tmp/log"
[ "$(cut -f1 "$tmp/log" | tr '\n' ,)" = "runs,behind it,behind it,behind it,picked," ] &&
	! grep -q "needs" "$tmp/log"
row $? "a row: what stands behind the choice that runs"
marked=$also_packed
rules "$packed" "$also_packed" "$not_packed" none >"$ATTUNE_HEURISTICS"
why h200 llama2-7b@1 2q8k 16 >"$tmp/out"
why h200 llama2-7b@1 2q8k 16 --header "$ATTUNE_HEURISTICS" | grep "^prefill	row" >"$tmp/log"
[ "$(grep -c "by estimate" "$tmp/out")" = 1 ] && grep -q "^prefill	not run	.*, by estimate: PACKED needs 2" "$tmp/out" &&
	[ "$(grep -n ", by estimate" "$tmp/log" | cut -d: -f1)" = 2 ]
row $? "a row: which of its choices no time chose"
marked=
rules "$packed" "$also_packed" "$not_packed" none >"$ATTUNE_HEURISTICS"
why h200 llama3.1-8b@1 2q8k 16 --header "$ATTUNE_HEURISTICS" | grep "^prefill	\(leaf\|row\)" | cut -f2,3 >"$tmp/log"
[ "$(cut -c1-8 "$tmp/log" | tr '\t\n' ' ,')" = "leaf 9 t,row warp,row warp,row warp," ] &&
	grep -q "^leaf	9 training scenarios ended here, slowdown 1.020; of the fastest choice of its row 1.004" "$tmp/log"
row $? "a header that the library was not built with: its row, and what the row is worth"
rules "$packed" none none none >"$ATTUNE_HEURISTICS"
why h200 llama2-7b@1 2q8k 16 | cut -f1-3 >"$tmp/out"
grep -q "^prefill	not run	warpgroup .*: PACKED needs 2" "$tmp/out" &&
	grep -q "^prefill	runs	.*, \(of the portable rules\|a default\)$" "$tmp/out"
row $? "no choice of the row runs: what does, and whose it is"
echo 'no header' >"$ATTUNE_HEURISTICS"
! why h200 llama2-7b@1 2q8k 16 >"$tmp/out" && [ "$(wc -l <"$tmp/out")" = 1 ] &&
	grep -q "^attune: $ATTUNE_HEURISTICS:1: " "$tmp/out"
row $? "a file of rules with a mistake is named"
sed 's/\(gpu, warpgroup, 0x\)[0-9a-f]*/\10000000000000001/' generated/attune_h200.h >"$ATTUNE_HEURISTICS"
why h200 llama2-7b@1 2q8k 16 >"$tmp/out"
grep -q "^attune: the library makes no plan: $ATTUNE_HEURISTICS:[0-9]*: " "$tmp/out" && grep -q "^prefill	row	" "$tmp/out"
row $? "a file of rules that the library refuses: the row that it names"
rules "$packed" "$not_packed" none none >"$ATTUNE_HEURISTICS"
why h200 llama3.1-8b@1 2q2k 4 >"$tmp/out"
grep -q "^prefill	not run	.*page sizes are multiples of 8" "$tmp/out" &&
	grep -q "^prefill	picked	" "$tmp/out" && ! grep -q "^prefill	\(picked\|rival\)	warpgroup" "$tmp/out"
row $? "pages of 4: no rival is illegal"
unset ATTUNE_HEURISTICS
why h200 phi-2@1 q1s8k 16 >"$tmp/out"
grep -q "^decode	runs	" "$tmp/out" && ! grep -q "not run" "$tmp/out"
row $? "a head size that nobody measured runs what the leaf names"
why h200 llama3.1-8b@1 2q2k 16 >"$tmp/out"
grep -q "^prefill	picked	" "$tmp/out" && ! grep -q "not run" "$tmp/out" &&
	grep -A1 "^prefill	runs	" "$tmp/out" | grep -q "^prefill	behind it	"
row $? "a measured shape runs what its rules name"
why a100 llama2-7b@1 2q2k 16 >"$tmp/out"
grep -q "^prefill	runs	" "$tmp/out" && grep "^prefill	picked	" "$tmp/out" | grep -vq fitted &&
	grep -q "no header is for sm_80\|no time is of sm_80" "$tmp/out"
row $? "a GPU without a header of its own or a nearer one: its plan"
why a100 llama2-7b@1 2q2k 16 --header generated/attune_portable.h >"$tmp/out"
grep -q "^prefill	runs	" "$tmp/out" && grep -q "^plan	rules	of generated/attune_portable.h$" "$tmp/out" &&
	ATTUNE_HEURISTICS=generated/attune_portable.h why a100 llama2-7b@1 2q2k 16 | cmp - "$tmp/out" >"$tmp/log"
row $? "a GPU without measurements: its plan by a file of rules"
why gh200 llama3.1-8b@1 2q2k 16 | grep -q "^plan	rules	borrowed from h"
row $? "a GPU that borrows a header: its plan"
end_rows
