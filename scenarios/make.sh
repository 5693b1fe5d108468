#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make.sh - remakes the generated sets, byte for byte, in the folder of this file:
#
#   TRACES=folder-of-csv-files sh scenarios/make.sh
#
# README.md beside it says where the traces come from. peers_h200.json, ladder_h200.json and
# models.json are by hand. TOOL: the attune to use.
set -eu
here=$(dirname "$0")
tool=${TOOL:-$here/../build/attune}
traces=${TRACES:?must name the folder of azure2023_code.csv and the other traces}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# Every model shape that a batch is dealt to: nearly half are Llama-3.1-8B or 70B.
models=llama3.1-8b@1,llama3.1-70b@4,qwen3-14b@1,llama3.1-8b@1,llama3.1-70b@8,gpt-oss-120b-global@1
models=$models,llama3.1-8b@4,llama3.1-70b@1,gpt-oss-120b-local@1,llama3.1-8b@1,qwen3-235b-a22b@4
models=$models,llama3.1-8b@2,gemma-3-27b-local@1,llama3.1-70b@2,qwen3-14b@8,llama3.1-8b@8
models=$models,qwen3-0.6b@1,qwen3-next-80b@1,gemma-3-12b-local@2
others=qwen3-14b@2,phi-4-mini@1,qwen3-235b-a22b@1

attune() {
	"$tool" scenarios --dir "$here" "$@"
}

# at_loads SPLIT NAME PICKS OPTION...: an engine with small steps and one with large ones, at
# two loads. Options behind a --trace are its own and those of the traces behind it.
seed=0
at_loads() {
	split=$1 name=$2 picks=$3
	shift 3
	for engine in '0.7 2048' '0.7 8192' '0.95 2048' '0.95 8192'; do
		seed=$((seed + 1))
		options="$options --trace $traces/$name.csv --split $split --seed $seed --pick $picks \
			--load ${engine% *} --max-batched-tokens ${engine#* } --corners no $*"
	done
	# corners of the last one: heavily loaded, large steps
	[ "$split" != train ] || options="$options --corners yes"
}

attune --grid h200 >"$new/h200.json"
attune --grid shapes_h200 >"$new/shapes_h200.json"

options='--max-gflop 8000 --max-request 128k'
at_loads heldout_traces arxiv_summarization_lengths 2 --model "$models"
at_loads heldout_traces servegen_m_large 2
at_loads heldout_traces servegen_mm_image 2
at_loads heldout_shape azure2023_conv 1 --model "$others"
at_loads heldout_shape mooncake_synthetic 1
at_loads train azure2023_code 7 --model "$models" --leave-out yes
at_loads train azure2023_conv 7
at_loads train sharegpt_8k_lengths 7
at_loads train servegen_deepseek_r1 7
at_loads train mooncake_synthetic 7

more() {
	seed=$((seed + 1))
	options="$options --trace $traces/$1.csv --seed $seed --pick 6 --corners no $2"
}
more mooncake_synthetic '--prefix-caching yes'
more mooncake_synthetic '--max-batched-tokens 2048'
more azure2023_conv '--prefix-caching no --speculative 3 --accept 2.5'
more servegen_deepseek_r1 '--speculative 5 --accept 3'
attune $options >"$new/traces_h200.json"

# A CPU gets the steps of a small engine.
small='--max-seqs 8 --max-batched-tokens 256 --kv-tokens 32k --max-request 8k --max-gflop 4'
attune --grid cpu $small --corners no --load 0.7 \
	--model llama3.1-8b@1,llama3.1-8b@4,llama3.1-70b@8 \
	--trace "$traces/azure2023_code.csv" --pick 4 \
	--trace "$traces/azure2023_conv.csv" --pick 4 --max-batched-tokens 512 \
	--trace "$traces/arxiv_summarization_lengths.csv" --split heldout_traces --pick 3 \
	--trace "$traces/servegen_mm_image.csv" --max-batched-tokens 256 >"$new/cpu.json"

mv "$new"/*.json "$here"

# Beside all of the H200's above. Those of coverage: what users bring beside the models that serve most.
for set in dense_h200 hybrid_h200 unseen_h200 gate_h200 blends_h200 drafts_h200 \
	coverage_h200 coverage_gate_h200 coverage_unseen_h200 gate_cpu; do
	attune --grid $set >"$new/$set.json"
	mv "$new/$set.json" "$here"
done

# Steps under traces that no other set has.
seed=100 options='--max-gflop 4000 --max-request 128k --requests 12000'
at_loads heldout_traces_unseen mooncake_conversation 5 --model "$models"
at_loads heldout_traces_unseen servegen_m_small 5
attune $options >"$new/traces_unseen_h200.json"
mv "$new/traces_unseen_h200.json" "$here"
