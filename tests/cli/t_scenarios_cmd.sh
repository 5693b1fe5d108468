#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_scenarios_cmd.sh - the command `attune scenarios`: exit codes, stdout and stderr, and the same
# facts in every format.
. tests/support/tap.sh
set -u
tool=$B/attune

# ok NAME CONDITION...: one row
ok() {
	name=$1
	shift
	"$@"
	row $? "$name"
}

run() {
	"$tool" scenarios "$@" >"$tmp/out" 2>"$tmp/err"
	code=$?
}

# refused NAME MESSAGE OPTION...: code 2, the line on stderr, nothing on stdout
refused() {
	what=$1
	message=$2
	shift 2
	run "$@"
	head -n 1 "$tmp/err" >"$tmp/first"
	printf '%s\n' "$message" | sed 's/^attune:/attune[a-z ]*:/' >"$tmp/pattern"
	ok "$what: code 2" [ $code -eq 2 ]
	ok "$what: says so" grep -qx -f "$tmp/pattern" "$tmp/first"
	ok "$what: no data" [ ! -s "$tmp/out" ]
}

run --batch 2q2k_32q1s1k --model llama3.1-8b@1 --format tsv
printf '\t\tllama3.1-8b@1\t16\tbf16\tbf16\tnhd\t1.000\t34\t0.941\t4128\t150.99\t69.29\t2q2k_32q1s1k\n' \
	>"$tmp/want"
tail -n 1 "$tmp/out" >"$tmp/row"
ok "a batch: code 0" [ $code -eq 0 ]
ok "a batch: its facts" cmp -s "$tmp/row" "$tmp/want"
ok "a batch: nothing on stderr" [ ! -s "$tmp/err" ]

run --batch q1s1024_q1s1k --page-size 48 --format json
ok "json: numbers and texts" grep -qF \
	'"page_size": 48, "dtype": "bf16", "kv_dtype": "bf16", "layout": "nhd", "weight": 1.0, "seqs": 2' \
	"$tmp/out"
ok "json: canonical batch" grep -qF '"batch": "2q1s1k"}' "$tmp/out"

for format in table tsv csv markdown json; do
	run --set cpu --set peers_h200 --format $format
	# 147 + 43 rows, and a header, in markdown with a rule, or two brackets
	rows=$(wc -l <"$tmp/out")
	case $format in json|markdown) rows=$((rows - 1)) ;; esac
	ok "$format: as many rows as scenarios" [ "$code $rows" = "0 191" ]
done
run --set h200 --model qwen3-14b@1 --format tsv
ok "a model of a set" [ "$(cut -f 3 "$tmp/out" | sort -u | tr '\n' ' ')" = "model qwen3-14b@1 " ]
run --models --format tsv
ok "models" grep -q "^llama3.1-8b@8	4	1	4	128	" "$tmp/out"
run --help
ok "help has an example" grep -q "attune scenarios --batch" "$tmp/out"

refused "a bad batch" 'attune: --batch "q1sx": column 4: expected a sequence length, found .x.' \
	--batch q1sx
refused "an unknown model" 'attune: unknown model "x@1"; the nearest is .*' --batch q1 --model x@1
refused "an unknown set" 'attune: scenarios/nope.json: No such file or directory' --set nope
refused "an unknown format" "attune: --format 'xml' should be table, tsv, csv, markdown or json" --format xml
refused "a bad number" 'attune: --load is "0"; it must be a number above 0' --load 0
refused "a word too many" 'attune: "x" is not an option; see --help' x
refused "no such trace" 'attune: /no.csv: No such file or directory; a trace is a CSV file' \
	--trace /no.csv
refused "a grid that is not there" 'attune: no grid is called "mi300"; it must be h200 or shapes_h200 or dense_h200 or hybrid_h200 or unseen_h200 or gate_h200 or blends_h200 or drafts_h200 or coverage_h200 or coverage_gate_h200 or coverage_unseen_h200 or cpu or gate_cpu' \
	--grid mi300
refused "too many drafts" 'attune: --speculative must be an integer from 0 to 7' --speculative 8
refused "more accepted than fed" 'attune: t.csv: --accept 3 with 1 drafts; it must be at most 2' \
	--trace t.csv --speculative 1 --accept 3
refused "half a cost" 'attune: --step-cost is "4,1"; it must be milliseconds .*' --step-cost 4,1
refused "no such steps" 'attune: /no.jsonl: No such file or directory; it must be a file that libattune.capture wrote' \
	--steps /no.jsonl
refused "steps that are a set" 'attune: scenarios/cpu.json:2:.*; a line must hold one JSON object' --steps scenarios/cpu.json
refused "no such config" 'attune: /no.json: No such file or directory' --hf /no.json
refused "a config that is a set" 'attune: scenarios/cpu.json:1:1: num_attention_heads is missing; it must be given here' \
	--hf scenarios/cpu.json
refused "all held out" 'attune: --hold-out is "1"; it must be a share of at most 0.9' --hold-out 1
refused "neither yes nor no" 'attune: --corners is "2"; it must be yes or no' --corners 2
refused "an unknown split" 'attune: --split is "test"; it must be train, peers or .*' --split test

awk 'BEGIN { print "arrival_s,prompt_tokens,output_tokens"
	for (i = 0; i < 300; i++) print i ",", 1 + i * 37 % 900 ",", 1 + i * 11 % 50 }' >"$tmp/t.csv"
run --trace "$tmp/t.csv" --max-batched-tokens 256 --max-seqs 16 --pick 5 --load 0.5 \
	--trace "$tmp/t.csv" --split heldout --max-gflop 0.5
mkdir "$tmp/sets" && cp "$tmp/out" "$tmp/sets/mine.json" && cp scenarios/models.json "$tmp/sets"
ok "a trace: code 0" [ $code -eq 0 ]
ok "a trace: says which rate and engine it assumed" grep -q \
	'; their 1.00/s are taken as [0-9.]*/s, load 0.50 of an engine of 16 sequences, 256 tokens a step and a cache' "$tmp/err"
run --dir "$tmp/sets" --format tsv
ok "a trace: its set can be read" [ $code -eq 0 ]
ok "a trace: both splits" [ "$(cut -f 1,2 "$tmp/out" | sort -u | tr '\t\n' '  ')" = \
	"mine heldout mine train set split " ]
small=$(awk -F '\t' '$2 == "heldout" && $13 > most { most = $13 }
	END { print (most > 0 && most <= 0.51) }' "$tmp/out")
ok "a trace: the limit holds" [ "$small" = 1 ]

run --grid cpu --trace "$tmp/t.csv" --max-batched-tokens 256 --max-seqs 16 --pick 5 --hold-out 0.4 \
	--speculative 3 --model llama3.1-8b@4,llama3.1-8b@8+lse --prefix-caching yes
ok "a grid and a trace: says what is not usual" grep -q \
	', prefix caching, 3 drafts of which [0-9.]* advance, the last 0.4 held out' "$tmp/out"
cp "$tmp/out" "$tmp/sets/mine.json"
run --dir "$tmp/sets" --format tsv
ok "a grid and a trace: one set" [ $code -eq 0 ]
ok "a grid and a trace: both models" grep -q "llama3.1-8b@8+lse	" "$tmp/out"
ok "a grid and a trace: drafts" grep -q "[_	]q4s" "$tmp/out"
ok "a grid and a trace: the end is held out" [ "$(tail -n 1 "$tmp/out" | cut -f 2)" = heldout_traces ]
run --stats --format tsv --trace "$tmp/t.csv" --trace "$tmp/t.csv" --load 0.2
ok "stats: a row each" [ "$code $(cut -f 1,2 "$tmp/out" | tr '\t\n' '  ')" = \
	"0 trace load t 0.95 t 0.20 " ]

run --stats --format tsv --steps tests/scenario/transformers_steps.jsonl
ok "captured steps: their statistics" [ "$code $(cut -f 1,2,5,12 "$tmp/out" | tr '\t\n' '  ')" = \
	"0 trace load steps prefills transformers_steps layers-8x2x64@1  90 1 " ]
run --stats --format tsv --step-cost 1,1,0 --steps tests/scenario/transformers_steps.jsonl
ok "captured steps: their statistics by --step-cost" [ "$code $(cut -f 7 "$tmp/out" | tr '\n' ' ')" = \
	"0 decode_only_time 0.061 " ]
run --steps tests/scenario/transformers_steps.jsonl --pick 4 --trace "$tmp/t.csv" --pick 3
cp "$tmp/out" "$tmp/sets/mine.json"
run --dir "$tmp/sets" --format tsv
ok "captured steps and a trace: one set of both" [ "$code $(cut -f 3 "$tmp/out" | sort -u | tr '\n' ' ')" = \
	"0 layers-8x2x64@1 llama3.1-8b@1 model " ]

mkdir "$tmp/Tiny.Model"
echo '{"model_type": "gemma2", "head_dim": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 4,
	"sliding_window": 512}' >"$tmp/Tiny.Model/config.json"
run --hf "$tmp/Tiny.Model/config.json"
printf '{\n\t"models": [\n\t\t%s,\n\t\t%s\n\t]\n}\n' \
	'{"name": "tiny.model-global", "query_heads": 8, "kv_heads": 4, "head_size": 64, "tp": [1, 2, 4, 8]}' \
	'{"name": "tiny.model-local", "query_heads": 8, "kv_heads": 4, "head_size": 64, "window": 512, "tp": [1, 2, 4, 8]}' \
	>"$tmp/want"
ok "a config.json: entries of both kinds of layers" cmp -s "$tmp/out" "$tmp/want"
ok "a config.json: how many layers they are" grep -q ': 2 layers are tiny.model-global, 2 are tiny.model-local$' "$tmp/err"
mkdir "$tmp/models" && cp "$tmp/out" "$tmp/models/models.json"
run --dir "$tmp/models" --models --format tsv
ok "a config.json: they are a models.json" grep -q "^tiny.model-local@8	1	1	1	64	512	" "$tmp/out"
run --hf "$tmp/Tiny.Model/config.json" --trace "$tmp/t.csv" --pick 4
cp "$tmp/out" "$tmp/sets/mine.json"
run --dir "$tmp/sets" --format tsv
ok "a config.json and a trace: a set of its layers" [ "$code $(cut -f 3 "$tmp/out" | sort -u | tr '\n' ' ')" = \
	"0 model tiny.model-global@1 tiny.model-local@1 " ]
run --hf "$tmp/Tiny.Model/config.json" --batch 2q1s1k --model tiny.model-local@2 --format tsv
ok "a config.json and a batch" [ "$code $(tail -n 1 "$tmp/out" | cut -f 3,12)" = "0 tiny.model-local@2	0.52" ]
end_rows
