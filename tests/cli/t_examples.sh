#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_examples.sh - what tests/examples has. Of the programs that kernels/README.md and PLUGINS.md show: the first page
# quotes paged.c as it is, its command lines build both examples against an installed library, both run and are right,
# and its template of a kernel compiles. rules.c, of FORMATS.md, finds the choice that the library plans; settle.c keeps
# what it settled in a file. paged.py runs; scripts and files for Slurm, CI and containers do what they say.
. tests/support/tap.sh
page=kernels/README.md

quoted() { # FILE: the page's code block that begins with that file's first comment
	awk -v first="/* $1 - " '
		/^```/ { inside = !inside; show = 0; begins = inside; next }
		begins { begins = 0; show = index($0, first) == 1 }
		inside && show' kernels/README.md kernels/PLUGINS.md
}

sed 1d tests/examples/paged.c >"$tmp/paged.c" && quoted paged.c | diff - "$tmp/paged.c" >"$tmp/log" 2>&1
row $? "$page quotes tests/examples/paged.c"
for f in tests/examples/paged.c tests/examples/paged.cpp tests/examples/rules.c tests/examples/settle.c; do
	wc -l "$f" >"$tmp/log"
	[ "$(wc -l <"$f")" -le 126 ]
	row $? "$f has at most 126 lines"
done

MAKEFLAGS='' ${MAKE:-make} --no-print-directory install LOCAL=no B="$B" SAN="${SAN:-}" PREFIX="$tmp/usr" \
	>"$tmp/log" 2>&1
row $? "make install"

sanitize=${SAN:+-fsanitize=address,undefined}
strict='-Wall -Wextra -Wpedantic -Werror'
mkdir "$tmp/work" && cp tests/examples/paged.c tests/examples/paged.cpp "$tmp/work"
as_quoted() { # COMPILER WORD: the page's command line that begins with that word, for paged.c or .cpp
	line=$(sed -n "s/^    $2 \(.* paged\.c.*pkg-config.*\)/\1/p" $page)
	[ -n "$line" ] || { echo "$page has no command line of $2" >"$tmp/log" && return 1; }
	(cd "$tmp/work" && eval "$1 $sanitize $strict $line") >"$tmp/log" 2>&1
}
run() { # PROGRAM
	LD_LIBRARY_PATH=$tmp/usr/lib${LIBRARY_PATH:+:$LIBRARY_PATH} "$tmp/work/$1" >"$tmp/out" 2>&1
	code=$?
	cp "$tmp/out" "$tmp/log"
	[ $code -eq 0 ] && [ "$(grep -c '^prefill of 59 tokens: .*: right$' "$tmp/out")" = 1 ] &&
		[ "$(grep -c '^decode of 3 tokens: .*: right$' "$tmp/out")" = 1 ]
}

if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$tmp/usr/lib/pkgconfig"
	as_quoted "${CC:-cc}" cc
	row $? "paged.c builds by the page's command"
	run paged
	row $? "paged.c is right"
	# shellcheck disable=SC2046,SC2086
	${CC:-cc} $sanitize $strict -std=c11 tests/examples/rules.c -o "$tmp/work/rules" \
		$(pkg-config --cflags --libs attune) >"$tmp/log" 2>&1
	row $? "rules.c builds"
	for threads in 1 2 64; do # with 1 the CPU's rules name choices that cannot run
		ATTUNE_THREADS=$threads LD_LIBRARY_PATH=$tmp/usr/lib "$tmp/work/rules" >"$tmp/log" 2>&1 &&
			grep -q "^the plan is [a-z]" "$tmp/log"
		row $? "rules.c finds what the plan runs, $threads threads"
	done
	# shellcheck disable=SC2046,SC2086
	${CC:-cc} $sanitize $strict -std=c11 tests/examples/settle.c -o "$tmp/work/settle" \
		$(pkg-config --cflags --libs attune) >"$tmp/log" 2>&1
	row $? "settle.c builds"
	settle() { # the words that the output begins with
		LD_LIBRARY_PATH=$tmp/usr/lib "$tmp/work/settle" "$tmp/settled" >"$tmp/log" 2>&1 &&
			grep -q "^$1" "$tmp/log" && sed -n '$p' "$tmp/log" >"$tmp/digest.$2"
	}
	settle "settled in" 1 && cp "$tmp/settled" "$tmp/first" && settle "read [0-9]* cells; 0 are" 2 &&
		cmp "$tmp/digest.1" "$tmp/digest.2" >"$tmp/log" && cmp "$tmp/settled" "$tmp/first" >"$tmp/log"
	row $? "settle.c settles, and the next time reads the same"
	sed 's/units=/units=1/' "$tmp/first" >"$tmp/settled" && settle "settled in" 3 &&
		grep -q "line 2: settled on" "$tmp/log"
	row $? "settle.c settles again where the file is of another device"
	if command -v "${CXX:-c++}" >/dev/null; then
		as_quoted "${CXX:-c++}" c++
		row $? "paged.cpp builds by the page's command"
		run paged_cpp
		row $? "paged.cpp is right"
	fi
fi

# The template: its host side, and its device side by the emulated GPU's compiler and by nvcc.
quoted mine.def >"$tmp/mine.def"
quoted mine.cu >"$tmp/mine.cu"
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Wno-unused -fsyntax-only -iquote . -iquote kernels -I"$tmp" \
	-D_GNU_SOURCE -DSPACE='"mine.def"' -DNAME=mine_space kernels/spec/space.c >"$tmp/log" 2>&1 &&
	[ -s "$tmp/mine.def" ]
row $? "the template's .def compiles"
flags='-std=c++17 -DHEAD_SIZE=128 -DDTYPE=BF16 -DNUM_WARPS=2'
if [ -e "$B/simt/gpu/paged.h" ]; then
	awk -v emulated=tests/simt/text/gpu_emulated.h -f tests/simt/text/host.awk "$tmp/mine.cu" \
		>"$tmp/host.cu"
	# shellcheck disable=SC2086
	${CXX:-c++} $flags -w -fsyntax-only -DSOURCE="\"$tmp/host.cu\"" -Itests/simt/text -I"$B/simt" \
		tests/simt/text/object.cc >"$tmp/log" 2>&1
	row $? "the template compiles for the emulated GPU"
fi
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
if [ -x "$nvcc" ]; then
	# shellcheck disable=SC2086
	"$nvcc" $flags -arch=sm_80 -cubin -Ikernels -o /dev/null "$tmp/mine.cu" >"$tmp/log" 2>&1
	row $? "the template compiles for sm_80"
fi

# Programs without a compiler. find_python skips all that it is called in.
"$tmp/usr/bin/attune" --version >"$tmp/log" 2>&1 && PATH=$tmp/usr/bin:$PATH
(. tests/python/python.sh && find_python cffi numpy >"$tmp/log" && echo "$python") >"$tmp/python"
if [ -s "$tmp/python" ]; then
	LIBATTUNE_LIBRARY=$tmp/usr/lib/libattune.so PYTHONPATH=kernels/python PYTHONDONTWRITEBYTECODE=1 \
		"$(cat "$tmp/python")" tests/examples/paged.py >"$tmp/log" 2>&1 && grep -q '^21 tokens by .*: right$' "$tmp/log"
	row $? "paged.py is right"
else
	row 0 "paged.py # SKIP $(sed 's/.*SKIP //' "$tmp/log")"
fi
if command -v python3 >/dev/null; then
	python3 -c 'import ast; ast.parse(open("harness/peers/triton_paged.py").read())' >"$tmp/log" 2>&1
	row $? "triton_paged.py is Python"
fi

# A Slurm of one machine: tasks of an array run one after the other, and what depends on them comes later.
mkdir "$tmp/slurm" && cat >"$tmp/slurm/sbatch" <<'SCRIPT'
#!/bin/bash
echo "$*" >>sbatch.log
first=1 last=1
for word; do
	case $word in --array=*) word=${word#*=} && first=${word%-*} last=${word#*-} ;; --dependency=*) [ "$word" = --dependency=afterok:71 ] ;; esac || exit 1
done
for ((i = first; i <= last; i++)); do SLURM_ARRAY_TASK_ID=$i sh -c "${@:$#}" >&2 || exit; done
echo 71
SCRIPT
chmod +x "$tmp/slurm/sbatch"
here=$PWD
(cd "$tmp/slurm" && PATH=$tmp/slurm:$PATH ATTUNE_LOCKS=$tmp ATTUNE_PROC=$tmp ATTUNE_CLOCK=1 ATTUNE_THREADS=1 \
	bash "$here/tests/examples/slurm_sweep.sh" 2 'two parts/of it.sqlite' --gpu cpu --batch q1s64 --batch 2q1s48 --kernels 'segmented,qblock' \
	--preset smoke --budget 30s </dev/null) >"$tmp/log" 2>&1 &&
	sqlite3 "$tmp/slurm/two parts/of it.sqlite" 'SELECT count(DISTINCT scenario_id) FROM history' >"$tmp/out" 2>&1 && [ "$(cat "$tmp/out")" = 2 ] &&
	[ "$(grep -c . "$tmp/slurm/sbatch.log")" = 2 ]
row $? "slurm_sweep.sh: two tasks and a merge"

# The workflow's command, on the CPU's files.
learn=$(sed -n 's/^      - run: //p' tests/examples/header.yml | sed 's/h200/cpu/g')
mkdir -p "$tmp/own/results" "$tmp/own/generated" && cp results/cpu.sqlite "$tmp/own/results" && cp generated/attune_cpu.h "$tmp/own/generated"
(cd "$tmp/own" && sh -ec "$learn") >"$tmp/log" 2>&1 && sed -i '0,/return/s//return 1 +/' "$tmp/own/generated/attune_cpu.h" &&
	! (cd "$tmp/own" && sh -ec "$learn") >"$tmp/log" 2>&1 && grep -q '^-.*return 1 +' "$tmp/log"
row $? "header.yml passes with the header as it is, and fails with the difference"

# The Containerfile: its packages are what a build needs, its commands are shell, its targets are there.
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' tests/examples/Containerfile | sed -n 's/^RUN //p' >"$tmp/runs"
: >"$tmp/log"
sh -n "$tmp/runs" 2>"$tmp/log"
sed -n '/^library\|^tool/s/ *[^ ]* *[^ ]* *[^ ]* *\([^ ]*\).*/\1/p' harness/commands/deps.sh | while read -r package; do
	sed 1q "$tmp/runs" | grep -qw -- "$package" || echo "no $package"
done >>"$tmp/log"
${MAKE:-make} -s help >"$tmp/help"
for goal in $(sed -n '2{s/make//g; s/&&//g; p;}' "$tmp/runs"); do
	grep -q "^  make $goal " "$tmp/help" || echo "no make $goal" >>"$tmp/log"
done
[ ! -s "$tmp/log" ] && [ "$(wc -l <"$tmp/runs")" = 3 ]
row $? "Containerfile: packages, commands and targets"
end_rows
