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

mkdir -p "$tmp/fa3/hopper" "$tmp/cutlass/include/cutlass"
# A compiler that is only asked for by name.
make_with adapter-fa3 NVCC=nvcc FA3=
status=$?
refused 'needs FA3=FOLDER, a checkout of github.com/vllm-project/flash-attention.' \
	'fa3: a folder that is not named'
make_with adapter-fa3 NVCC=nvcc FA3="$tmp/fa3"
status=$?
refused "$tmp/fa3 has no hopper/flash_fwd_launch_template.h" 'fa3: a folder of something else'
touch "$tmp/fa3/hopper/flash_fwd_launch_template.h"
make_with adapter-fa3 NVCC=nvcc FA3="$tmp/fa3"
status=$?
refused 'attune: make adapter-fa3 needs CUTLASS=FOLDER' 'fa3: a checkout without its submodule'
touch "$tmp/cutlass/include/cutlass/cutlass.h"
make_with adapter-fa3 NVCC=nvcc FA3="$tmp/fa3" CUTLASS="$tmp/cutlass"
status=$?
refused 'attune: make adapter-fa3 needs REVISION=' 'fa3: sources without a revision'
make_with adapter-fa3 NVCC= FA3="$tmp/fa3" CUTLASS="$tmp/cutlass"
status=$?
refused 'attune: make adapter-fa3 needs nvcc' 'fa3: no compiler'

mkdir -p "$tmp/fi/csrc/xqa" "$tmp/cccl/libcudacxx/include"
make_with adapter-flashinfer NVCC=nvcc FLASHINFER=
status=$?
refused 'attune: make adapter-flashinfer needs FLASHINFER=FOLDER' 'flashinfer: a folder that is not named'
make_with adapter-flashinfer NVCC=nvcc FLASHINFER="$tmp/fi"
status=$?
refused "$tmp/fi has no csrc/xqa/mha.cu" 'flashinfer: a folder of something else'
touch "$tmp/fi/csrc/xqa/mha.cu"
make_with adapter-flashinfer NVCC=nvcc FLASHINFER="$tmp/fi"
status=$?
refused 'attune: make adapter-flashinfer needs CUTLASS=FOLDER' 'flashinfer: a checkout without its submodules'
make_with adapter-flashinfer NVCC=nvcc FLASHINFER="$tmp/fi" CUTLASS="$tmp/cutlass"
status=$?
refused 'attune: make adapter-flashinfer needs CCCL=FOLDER' 'flashinfer: no CCCL'
make_with adapter-flashinfer NVCC=nvcc FLASHINFER="$tmp/fi" CUTLASS="$tmp/cutlass" CCCL="$tmp/cccl"
status=$?
refused 'attune: make adapter-flashinfer needs REVISION=' 'flashinfer: sources without a revision'
make_with adapter-flashinfer NVCC= FLASHINFER="$tmp/fi" CUTLASS="$tmp/cutlass" CCCL="$tmp/cccl"
status=$?
refused 'attune: make adapter-flashinfer needs nvcc' 'flashinfer: no compiler'
[ ! -e "$tmp/build" ]
row $? 'nothing was built on the way'
end_rows
