#!/bin/sh
# t_why.sh - `attune show --why` names what the library runs: where the rules' choice is illegal or not
# carried, with the reason, and on GPUs that nobody measured.
. tests/support/tap.sh

why() {
	"$B/attune" show --gpu "$1" --model "$2" --batch "$3" --page-size "$4" --why --format tsv 2>&1
}

why h200 llama2-7b@1 2q8k 16 >"$tmp/out"
grep -q "^prefill	not run	warpgroup .*PACKED=1 .*: PACKED needs 2 to BLOCK_M query heads" "$tmp/out" &&
	grep "^prefill	picked	warpgroup" "$tmp/out" | grep -vq PACKED
row $? "one query head a KV head: the rule that the leaf's choice breaks, and what runs"
why h200 llama3.1-8b@1 2q2k 4 >"$tmp/out"
grep -q "^prefill	not run	.*page sizes are multiples of 8" "$tmp/out" &&
	grep -q "^prefill	picked	segmented BLOCK_M=128" "$tmp/out" &&
	! grep -q "^prefill	rival	warpgroup" "$tmp/out"
row $? "pages of 4: no rival is illegal"
why h200 phi-2@1 q1s8k 16 >"$tmp/out"
grep -q "^decode	runs	ring " "$tmp/out" && ! grep -q "not run" "$tmp/out"
row $? "a head size that nobody measured runs what the leaf names"
why h200 llama3.1-8b@1 2q2k 16 >"$tmp/out"
grep -q "^prefill	picked	" "$tmp/out" && ! grep -q "not run" "$tmp/out" &&
	grep -A1 "^prefill	runs	warpgroup .*SEGMENTS=fitted" "$tmp/out" | grep -q "^prefill	behind it	"
row $? "a measured shape runs what its rules name"
why h200 llama3.1-8b@1 8q64 16 >"$tmp/out"
grep -q "^prefill	not run	.*by estimate what runs takes at most 7/8" "$tmp/out"
row $? "a choice that is slow by estimate: what runs in its place"
why a100 llama2-7b@1 2q2k 16 >"$tmp/out"
grep -q "^prefill	runs	segmented BLOCK_M=128" "$tmp/out" &&
	grep -q "no header's binaries run on sm_80" "$tmp/out"
row $? "a GPU without a header: its plan"
why gh200 llama3.1-8b@1 2q2k 16 | grep -q "^plan	rules	borrowed from h"
row $? "a GPU that borrows a header: its plan"
end_rows
