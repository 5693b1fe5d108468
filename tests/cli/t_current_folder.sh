#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_current_folder.sh - the tool compiles kernels and runs picture scripts of its own tree or installation
# alone. It uses no files of the same names in the current folder, which somebody else may have written.
. tests/support/tap.sh
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" ATTUNE_CACHE="$tmp/cache"
mkdir "$tmp/bin" "$tmp/kernels" "$tmp/share" # beside a folder kernels without sources, as build/bare/attune is
cp "$B/attune" "$tmp/bin" && ln -s "$PWD" "$tmp/share/attune"
results=$PWD/results
headers=$PWD/generated
mkdir -p "$tmp/hostile/tuner/plot/pictures" "$tmp/hostile/kernels/cpu"
cp tuner/plot/pictures/* "$tmp/hostile/tuner/plot/pictures"
cp -r kernels/. "$tmp/hostile/kernels"
cp -r scenarios "$tmp/hostile"
for picture in "$tmp"/hostile/tuner/plot/pictures/*.gp; do
	echo "system('touch $tmp/ran')" >>"$picture"
done
for source in "$tmp"/hostile/kernels/cpu/*.c; do
	echo '#error of the current folder' >>"$source"
done
cd "$tmp/hostile" || exit 1

"$tmp/bin/attune" sweep --gpu cpu --compile-only --kernels qblock --preset smoke --batch q1s64 --db "$tmp/x.sqlite" \
	>"$tmp/out" 2>"$tmp/err" </dev/null
row "$([ $? = 0 ] && ! grep -q 'of the current folder' "$tmp/out" "$tmp/err"; echo $?)" "kernels of the current folder are not compiled"
if command -v gnuplot >/dev/null; then
	mkdir "$tmp/pictures"
	"$tmp/bin/attune" plot --gpu cpu --db "$results/cpu.sqlite" --header "$headers/attune_cpu.h" --out "$tmp/pictures" \
		>"$tmp/out" 2>"$tmp/err" </dev/null
	row "$([ $? = 0 ] && [ -s "$tmp/pictures/cpu_kernels.svg" ] && [ ! -e "$tmp/ran" ]; echo $?)" \
		"picture scripts of the current folder are not run"
fi
end_rows
