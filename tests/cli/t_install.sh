#!/bin/sh
# t_install.sh - the result of `make install`: a C and a C++ program build against it, static and
# shared, and the library exports the names of attune.h and no others.
. tests/support/tap.sh
cc=${CC:-cc}

MAKEFLAGS='' ${MAKE:-make} --no-print-directory install B="$B" SAN="${SAN:-}" PREFIX="$tmp/usr" \
	>"$tmp/log" 2>&1
row $? "make install"

for f in bin/attune lib/libattune.a lib/libattune.so lib/pkgconfig/attune.pc include/attune.h \
	share/attune/kernels/kernels.def share/attune/harness/check/fill.cu \
	share/attune/harness/ceilings/ceilings.cu; do
	echo "$f is missing" >"$tmp/log"
	[ -e "$tmp/usr/$f" ]
	row $? "$f"
done

sed -n 's/^[a-z].*[ *]\(attune_[a-z_]*\)(.*/\1/p' kernels/attune.h | sort >"$tmp/want"
nm -D --defined-only "$tmp/usr/lib/libattune.so" | awk '{ print $3 }' |
	grep -v '^__' | sort >"$tmp/shared"
nm -g --defined-only "$tmp/usr/lib/libattune.a" | awk 'NF == 3 { print $3 }' |
	grep -v '^__' | sort >"$tmp/static"
for kind in shared static; do
	diff "$tmp/want" "$tmp/$kind" >"$tmp/log" 2>&1
	row $? "the $kind library exports attune.h and nothing else"
done

cat >"$tmp/use.c" <<'SOURCE'
#include <attune.h>
#include <stdio.h>
int main(void)
{
	attune_context *ctx;
	attune_op *op = NULL;
	attune_shape shape = { 0 };
	if (attune_open(&ctx, "cpu")) {
		puts(attune_last_error());
		return 1;
	}
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
	printf("%s on %s\n", attune_version(), attune_device_name(ctx));
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
		LD_LIBRARY_PATH=$tmp/usr/lib "$tmp/use" >"$tmp/log" 2>&1
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

(cd "$tmp" && env -u ATTUNE_SOURCE usr/bin/attune --version) >"$tmp/log" 2>&1
row $? "the installed tool runs elsewhere"
end_rows
