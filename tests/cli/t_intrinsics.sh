#!/bin/sh
# t_intrinsics.sh - the precompiled header of the intrinsics is made once, changes no binary, and may be damaged.
. tests/support/tap.sh
attune=$B/attune

compile() { # CACHE CC
	ATTUNE_CACHE="$tmp/$1" CC=$2 timeout 1200 "$attune" sweep --gpu cpu --compile-only --kernels segmented \
		--preset smoke --batch q1s64 --db "$tmp/$1.sqlite" >"$tmp/out" 2>"$tmp/err" </dev/null
}

headers() { # CACHE: how many precompiled headers
	find "$tmp/$1" -name '*.h.gch' | wc -l
}

binaries() { # CACHE
	sha256sum "$tmp/$1"/*.so | cut -d ' ' -f 1 | sort
}

case $("$attune" devices --format tsv 2>/dev/null) in
*avx*) ;;
*) echo "1..0 # SKIP no CPU with AVX2 is here" && exit ;;
esac
printf 'case " $* " in *" --version "*) echo another ;; *) exec cc "$@" ;; esac\n' >"$tmp/another.sh"
compile gcc cc
row $? "with GCC"
is_gcc=$(cc --version | grep -c 'Free Software')
row "$([ "$(headers gcc)" = "$((is_gcc > 0))" ]; echo $?)" "it makes one precompiled header"
compile another "sh $tmp/another.sh"
row "$([ $? = 0 ] && [ "$(headers another)" = 0 ]; echo $?)" "another compiler makes none"
row "$([ "$(binaries gcc | wc -l)" -gt 1 ] && [ "$(binaries gcc)" = "$(binaries another)" ]; echo $?)" "the binaries are the same"
for file in "$tmp"/gcc/*.h.gch; do
	[ ! -e "$file" ] || truncate -s 1000000 "$file"
done
binaries gcc >"$tmp/before"
rm -f "$tmp"/gcc/*.so "$tmp"/gcc/*.txt "$tmp/gcc.sqlite"
compile gcc cc
row "$([ $? = 0 ] && binaries gcc | cmp -s - "$tmp/before"; echo $?)" "also where the precompiled header is damaged"
row "$([ "$(find "$tmp/gcc" -name '*.h.gch' -size +1000k | wc -l)" = "$((is_gcc > 0))" ]; echo $?)" "which is made again"
end_rows
