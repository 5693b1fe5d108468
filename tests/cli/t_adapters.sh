#!/bin/sh
# t_adapters.sh - kernels/adapters: make says in one line what an adapter needs that is not there.
. tests/support/tap.sh

make_with() { # GOAL SETTING...
	MAKEFLAGS='' ${MAKE:-make} --no-print-directory B="$tmp/build" STALE=skip LOCAL=no HIPCC= "$@" \
		>"$tmp/log" 2>&1 </dev/null
}
refused() { # TEXT NAME: the last make failed, with one line, which has this text
	[ "$status" -ne 0 ] && [ "$(wc -l <"$tmp/log")" -eq 1 ] && grep -qF "$1" "$tmp/log"
	row $? "$2"
}

vllm="$tmp/site-packages"
ops="$vllm/vllm/v1/attention/ops"
make_with adapter-vllm-triton VLLM=
status=$?
refused 'needs VLLM=FOLDER, the site-packages of an installed vLLM.' 'vllm-triton: a folder that is not named'
mkdir -p "$ops"
touch "$ops/triton_unified_attention.py"
make_with adapter-vllm-triton VLLM="$vllm"
status=$?
refused "$vllm has no vllm*.dist-info, so none is installed there" 'vllm-triton: sources that nobody installed'
mkdir "$vllm/vllm-0.25.1.dist-info" "$vllm/.git"
make_with adapter-vllm-triton VLLM="$vllm"
status=$?
refused "$vllm is a git checkout" 'vllm-triton: a git checkout'
rm -r "$vllm/.git" "$ops"
make_with adapter-vllm-triton VLLM="$vllm"
status=$?
refused "$vllm has no vllm/v1/attention/ops/triton_unified_attention.py" 'vllm-triton: an older release'

make_with adapter-fa4 NVCC=
status=$?
refused 'attune: make adapter-fa4 needs nvcc' 'fa4: no compiler'
make_with adapter-tileops NVCC=
status=$?
refused 'attune: make adapter-tileops needs nvcc' 'tileops: no compiler'
[ ! -e "$tmp/build" ]
row $? 'nothing was built on the way'
end_rows
