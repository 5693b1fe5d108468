#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_sanitizers.sh - the library is built again under sanitizers, for kernels of one shape, and runs
# what is quick: threads that share contexts, or settle, for races; random calls of the API, for accesses
# outside of memory, undefined behaviour and leaks (sanitizers.mk).
. tests/support/tap.sh

# Both need the compiler's run-time libraries, and the thread sanitizer memory where it wants it.
printf '#include <pthread.h>\nstatic void *f(void *p) { return p; }\n%s\n' \
	'int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }' >"$tmp/try.c"
# GCC 13's does not find it at every start where the kernel places memory at random within 32 bits.
in_place=$(setarch -R true 2>/dev/null && echo 'setarch -R')
can() { # FLAG
	${CC:-cc} "-fsanitize=$1" "$tmp/try.c" -o "$tmp/try" -lpthread >/dev/null 2>&1 && $in_place "$tmp/try" >/dev/null 2>&1
}

# Kernels are compiled by CC too, so it has the flag; their own -O3 compiles twice as long as -O1.
# gpus: no header, so the kernels' defaults alone.
# FOLDER: of another program with the same flag.
run() { # PROGRAM FLAG WHAT [FOLDER]
	folder=$B/sanitized/${4:-$1}
	if ! can "$2"; then
		n=$((n + 1))
		echo "ok $n - $3 # SKIP ${CC:-cc} has no -fsanitize=$2 that runs here"
		return
	fi
	MAKEFLAGS='' ${MAKE:-make} -s -j2 B="$folder" SAN= NVCC= HIPCC= LOCAL=no STALE=skip gpus= CFLAGS='-O1 -g' KERNEL_CFLAGS=-O1 \
		CC="${CC:-cc} -fsanitize=$2 -fno-sanitize-recover=all -fno-omit-frame-pointer" "$folder/$1" >"$tmp/log" 2>&1
	row $? "$3: builds"
	$in_place "$folder/$1" >"$tmp/out" 2>"$tmp/err"
	row $? "$3: nothing is found"
	rm -f "$tmp/log" "$tmp/out" "$tmp/err"
}

run few_threads thread 'threads that share contexts'
run few_settle_threads thread 'threads that settle while others plan' few_threads
run few_calls address,undefined 'random calls of the API'
end_rows
