#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_install.sh - the result of `make install`: a C and a C++ program build against it, static and
# shared, the library exports the names of its three headers and no others, and each generated header
# compiles alone as C, C++ and CUDA.
. tests/support/tap.sh
cc=${CC:-cc}

MAKEFLAGS='' ${MAKE:-make} --no-print-directory install LOCAL=no B="$B" SAN="${SAN:-}" PREFIX="$tmp/usr" \
	>"$tmp/log" 2>&1
row $? "make install"
MAKEFLAGS='' ${MAKE:-make} --no-print-directory install LOCAL=no B="$B" SAN="${SAN:-}" PREFIX="$tmp/a b" DESTDIR="$tmp/it's" \
	>"$tmp/log" 2>&1
row "$([ $? = 0 ] && "$tmp/it's$tmp/a b/bin/attune" --version >"$tmp/log" &&
	[ -s "$tmp/it's$tmp/a b/share/attune/results/cpu.sqlite" ] &&
	grep -qFx "prefix=$tmp/a\\ b" "$tmp/it's$tmp/a b/lib/pkgconfig/attune.pc"; echo $?)" "with a blank and a quote in its name"
rm -rf "$tmp/it's$tmp"
for path in a/b ""; do
	! MAKEFLAGS='' ${MAKE:-make} --no-print-directory install LOCAL=no B="$B" PREFIX="$path" DESTDIR="$tmp/no" >"$tmp/log" 2>&1 &&
		grep -qF "attune: \"$path\" is no absolute path" "$tmp/log" && [ ! -e "$tmp/no" ]
	row $? "PREFIX=$path is refused"
done

for f in bin/attune lib/libattune.a lib/libattune.so lib/pkgconfig/attune.pc include/attune.h include/attune_settle.h include/attune_plugin.h \
	include/attune/attune_features.h include/attune/attune_list.h include/attune/features.def include/attune/attune_cpu.h \
	include/attune/attune_h200.h share/attune/kernels/kernels.def share/attune/harness/check/fill.cu \
	share/attune/harness/ceilings/ceilings.cu share/attune/scenarios/models.json \
	share/attune/generated/attune_h200.h share/attune/results/cpu.sqlite \
	share/attune/tuner/plot/pictures/regret.sql share/attune/tuner/show/tables/heldout.sql; do
	echo "$f is missing" >"$tmp/log"
	[ -e "$tmp/usr/$f" ]
	row $? "$f"
done

for d in cpu gpu; do
	diff -r "kernels/$d" "$tmp/usr/share/attune/kernels/$d" >"$tmp/log" 2>&1
	row $? "the sources of the kernels in $d, folder by folder"
done

sed -n 's/^[a-z].*[ *]\(attune_[a-z_]*\)(.*/\1/p' kernels/attune.h kernels/attune_settle.h | sort >"$tmp/want"
nm -D --defined-only "$tmp/usr/lib/libattune.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
	grep -v '^__' | sort >"$tmp/shared"
nm -g --defined-only "$tmp/usr/lib/libattune.a" | awk 'NF == 3 { print $3 }' |
	grep -v '^__' | sort >"$tmp/static"
for kind in shared static; do
	diff "$tmp/want" "$tmp/$kind" >"$tmp/log" 2>&1
	row $? "the $kind library exports what its headers have and nothing else"
done

# Each under the node that programs ask for.
readelf --dyn-syms -W "$tmp/usr/lib/libattune.so" | awk '
	$5 ~ /GLOBAL|WEAK/ && $7 != "UND" && $8 !~ /^__/ && $4 != "OBJECT" && $8 !~ /@@LIBATTUNE_0\.2$/ { print $8 }
	$8 ~ /^attune_write_kv@@LIBATTUNE_0\.2$/ { found = 1 }
	END { if (!found) print "attune_write_kv has no version" }' >"$tmp/log" 2>&1
[ ! -s "$tmp/log" ]
row $? "functions of the shared library are of the version LIBATTUNE_0.2"

cat >"$tmp/use.c" <<'SOURCE'
#include <attune.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
	attune_context *ctx;
	attune_op *op = NULL;
	attune_shape shape = { 0 };
	if (attune_open(&ctx, "cpu")) {
		puts(attune_last_error());
		return 1;
	}
	shape.size = sizeof shape;
	shape.num_query_heads = 8;
	shape.num_kv_heads = 2;
	shape.head_size = 128;
	shape.page_size = 16;
	shape.dtype = shape.kv_dtype = ATTUNE_F32;
	shape.causal = 1;
	if (attune_prepare(ctx, &shape, &op)) {
		puts(attune_last_error());
		return 1;
	}
	attune_release(op);
	char version[32];
	snprintf(version, sizeof version, "%d.%d.%d", ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR,
		 ATTUNE_VERSION_PATCH);
	if (strcmp(version, attune_version()) ||
	    ATTUNE_VERSION < ATTUNE_VERSION_MAJOR * 10000 + ATTUNE_VERSION_MINOR * 100) {
		puts(attune_version());
		return 1;
	}
	attune_close(ctx);
	return 0;
}
SOURCE
cp "$tmp/use.c" "$tmp/use.cpp"
private=$(sed -n 's/^Libs.private: //p' "$tmp/usr/lib/pkgconfig/attune.pc")
sanitize=${SAN:+-fsanitize=address,undefined}

build() { # COMPILER SOURCE LIBRARIES
	# shellcheck disable=SC2086
	$1 $sanitize -Wall -Werror -I"$tmp/usr/include" "$2" -o "$tmp/use" $3 >"$tmp/log" 2>&1 &&
		LD_LIBRARY_PATH=$tmp/usr/lib${LIBRARY_PATH:+:$LIBRARY_PATH} "$tmp/use" >"$tmp/log" 2>&1
}

build "$cc" "$tmp/use.c" "$tmp/usr/lib/libattune.a $private"
row $? "a C program, static"
build "$cc" "$tmp/use.c" "-L$tmp/usr/lib -lattune"
row $? "a C program, shared"
if command -v c++ >/dev/null; then
	build "c++ -x c++" "$tmp/use.cpp" "-L$tmp/usr/lib -lattune"
	row $? "a C++ program, shared"
fi
if command -v pkg-config >/dev/null; then
	flags=$(PKG_CONFIG_PATH=$tmp/usr/lib/pkgconfig pkg-config --cflags --libs attune 2>"$tmp/log")
	build "$cc" "$tmp/use.c" "$flags"
	row $? "pkg-config's flags"
fi

# Features are filled by one public call, and the header's function takes them.
cat >"$tmp/features.c" <<'SOURCE'
#include <attune/attune_cpu.h>
#include <attune.h>
#include <stdio.h>
int main(void)
{
	static const int32_t query_start[] = { 0, 1, 2, 42 }, seq_lens[] = { 30, 70, 40 };
	const attune_batch batch = { .size = sizeof(attune_batch), .num_seqs = 3, .query_start = query_start, .seq_lens = seq_lens };
	attune_context *ctx;
	attune_op *op = NULL;
	attune_shape shape = { 0 };
	struct attune_features f;
	shape.size = sizeof shape;
	shape.num_query_heads = 8;
	shape.num_kv_heads = 2;
	shape.head_size = 128;
	shape.page_size = 16;
	if (attune_open(&ctx, "cpu") || attune_prepare(ctx, &shape, &op) ||
	    attune_batch_features(op, &batch, ATTUNE_PHASE_DECODE, &f, sizeof f)) {
		puts(attune_last_error());
		return 1;
	}
	printf("%lld decodes, %lld keys: choice %d\n", f.num_seqs, f.kv_tokens, attune_cpu_decode(&f));
	attune_release(op);
	attune_close(ctx);
	return f.num_seqs != 2 || f.kv_tokens != 100;
}
SOURCE
build "$cc -std=c11" "$tmp/features.c" "-L$tmp/usr/lib -lattune"
row $? "a batch's features go from the library to the header"

# The header of plug-ins needs no other include.
cat >"$tmp/plugin.c" <<'SOURCE'
#include <attune_plugin.h>
const attune_plugin *const *attune_plugins(void)
{
	static const attune_plugin *const none[1] = { 0 };
	return none;
}
SOURCE
cp "$tmp/plugin.c" "$tmp/plugin.cpp"
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -Wmissing-prototypes -c -I"$tmp/usr/include" "$tmp/plugin.c" \
	-o "$tmp/plugin.o" >"$tmp/log" 2>&1
row $? "attune_plugin.h alone, as C11"
printf '#include <attune_settle.h>\nint main(void)\n{\n\treturn attune_settled_digest(0) != 0;\n}\n' >"$tmp/settle.c"
cp "$tmp/settle.c" "$tmp/settle.cpp"
build "$cc -std=c11 -Wextra -Wpedantic" "$tmp/settle.c" "$tmp/usr/lib/libattune.a $private"
row $? "a C program of attune_settle.h, static"
if command -v c++ >/dev/null; then
	build "c++ -std=c++11 -Wextra -Wpedantic" "$tmp/settle.cpp" "-L$tmp/usr/lib -lattune"
	row $? "a C++ program of attune_settle.h, shared"
	c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -c -I"$tmp/usr/include" "$tmp/plugin.cpp" \
		-o "$tmp/plugin_cpp.o" >"$tmp/log" 2>&1 &&
		nm -g "$tmp/plugin_cpp.o" | grep -q ' T attune_plugins$'
	row $? "attune_plugin.h alone, as C++17; attune_plugins has C's name"
fi

nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
for header in "$tmp"/usr/include/attune/attune_*.h; do
	name=$(basename "$header" .h)
	case $name in attune_features | attune_list) continue ;; esac
	cat >"$tmp/alone.c" <<SOURCE
#include <attune/$name.h>
int main(void)
{
	const struct attune_features f = { 0 };
	return ${name}_prefill(&f) + ${name}_decode(&f) + ${name}_overlap(&f) > 1000;
}
SOURCE
	cat >"$tmp/alone.cu" <<SOURCE
#include <attune/$name.h>
extern "C" __global__ void decide(const struct attune_features *f, int *choice)
{
	*choice = ${name}_decode(f);
}
SOURCE
	"$cc" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$tmp/usr/include" "$tmp/alone.c" \
		>"$tmp/log" 2>&1
	row $? "$name.h alone, as C11"
	if command -v c++ >/dev/null; then
		sed 's/{ 0 }/{}/' "$tmp/alone.c" >"$tmp/alone.cpp"
		c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$tmp/usr/include" \
			"$tmp/alone.cpp" >"$tmp/log" 2>&1
		row $? "$name.h alone, as C++17"
	fi
	if [ -x "$nvcc" ]; then
		"$nvcc" -std=c++17 -arch=sm_80 -ptx -I"$tmp/usr/include" -o /dev/null "$tmp/alone.cu" \
			>"$tmp/log" 2>&1
		row $? "$name.h alone, as CUDA"
	fi
done

(cd "$tmp" && env -u ATTUNE_SOURCE usr/bin/attune --version) >"$tmp/log" 2>&1
row $? "the installed tool runs elsewhere"
mkdir "$tmp/elsewhere"
for words in 'scenarios --set cpu' 'scenarios --batch q1 --model llama3.1-70b@4' 'show --gpu h200 --model llama3.1-8b@1 --batch 32q1s16k' \
	'eval --gpu cpu' 'sweep --gpu cpu --batch q1s64 --preset smoke --dry-run'; do
	# shellcheck disable=SC2086
	(cd "$tmp/elsewhere" && env -u ATTUNE_SOURCE ../usr/bin/attune $words) >"$tmp/out" 2>"$tmp/log" && [ -s "$tmp/out" ]
	row $? "F12: and finds its data: attune $words"
done
end_rows
