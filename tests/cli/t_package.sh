#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_package.sh - what C users expect of a package: folders of their choice, pkg-config, CMake, man pages, completion in
# bash, uninstall, Debian's packages, cross builds, binaries without names of folders; and make install compiles nothing.
. tests/support/tap.sh
sanitize=${SAN:+-fsanitize=address,undefined}
here=$PWD

make_it() { # TARGET SETTING...
	MAKEFLAGS='' ${MAKE:-make} --no-print-directory "$@" SAN="${SAN:-}" >"$tmp/out" 2>"$tmp/err"
}
is() { # WANT GOT
	[ "$1" = "$2" ] || { printf 'want %s\ngot  %s\n' "$1" "$2" >"$tmp/log" && false; }
}

make_it install LOCAL=no B="$tmp/none" PREFIX="$tmp/never"
row "$([ $? = 2 ] && is "attune: $tmp/none/ has no libattune.a to install; build it first: make" "$(grep -v '^make' "$tmp/err")" &&
	[ ! -s "$tmp/out" ] && [ ! -e "$tmp/none" ] && [ ! -e "$tmp/never" ]; echo $?)" "make install of a tree that was not built compiles nothing"
make_it uninstall LOCAL=no B="$tmp/none" PREFIX="$tmp/never"
row "$([ $? = 2 ] && grep -q "^attune: $tmp/never/share/attune/installed is missing: " "$tmp/err"; echo $?)" "make uninstall where nothing is installed"

lib=$tmp/usr/lib/machine
make_it install LOCAL=no B="$B" PREFIX="$tmp/usr" LIBDIR="$lib" INCLUDEDIR="$tmp/headers"
row $? "make install LIBDIR= INCLUDEDIR="
ls "$lib/libattune.so.0" "$lib/libattune.a" "$tmp/headers/attune.h" "$tmp/headers/attune/attune_cpu.h" "$tmp/usr/bin/attune" \
	>"$tmp/log" 2>&1 && [ ! -e "$tmp/usr/include" ]
row $? "files are where these say"
mkdir "$tmp/again" && make_it install LOCAL=no B="$B" PREFIX=/opt LIBDIR=/opt/lib64 DESTDIR="$tmp/again" &&
	find "$tmp/again" -type f ! -path '*/again/opt/*' >"$tmp/log" && [ ! -s "$tmp/log" ] &&
	for d in share/man bin; do diff -r "$tmp/usr/$d" "$tmp/again/opt/$d" >"$tmp/log" || break; done
row $? "installed twice: the same pages and the same tool"
nm -a "$tmp/usr/bin/attune" 2>&1 | grep -v 'no symbols' >"$tmp/log"
for f in "$lib/libattune.a" "$lib/libattune.so" "$tmp/usr/bin/attune"; do
	readelf -SW "$f" | grep '[ .]debug_info' >>"$tmp/log"
done
[ ! -s "$tmp/log" ]
row $? "without debug information"
make_it install LOCAL=no B="$B" PREFIX="$tmp/whole" STRIP= && cmp "$B/attune" "$tmp/whole/bin/attune" >"$tmp/log" 2>&1
row $? "STRIP= keeps it"

cat >"$tmp/use.c" <<'SOURCE'
#include <attune.h>
#include <string.h>
int main(void)
{
	attune_context *ctx;
	if (strncmp(attune_version(), "0.", 2) || attune_open(&ctx, "cpu"))
		return 1;
	attune_close(ctx);
	return 0;
}
SOURCE
build() { # FLAG...: builds and runs use.c
	# shellcheck disable=SC2086
	${CC:-cc} $sanitize "$tmp/use.c" -o "$tmp/use" "$@" >"$tmp/log" 2>&1 && LD_LIBRARY_PATH=$lib "$tmp/use" >"$tmp/log" 2>&1
}
if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$lib/pkgconfig"
	# shellcheck disable=SC2046
	is "$lib $tmp/headers" "$(pkg-config --variable=libdir attune) $(pkg-config --variable=includedir attune)" &&
		build $(pkg-config --cflags --libs attune)
	row $? "pkg-config: libdir, includedir, a program"
	# shellcheck disable=SC2046
	build $(pkg-config --cflags attune) -Wl,-Bstatic $(pkg-config --static --libs attune | sed 's/-lattune/& -Wl,-Bdynamic/') &&
		! readelf -d "$tmp/use" | grep libattune >"$tmp/log"
	row $? "pkg-config --static: a program that needs no libattune.so"
fi

if command -v cmake >/dev/null; then
	mkdir "$tmp/project" && cp "$tmp/use.c" "$tmp/project"
	cat >"$tmp/project/CMakeLists.txt" <<-'END'
		cmake_minimum_required(VERSION 3.10)
		project(uses_attune C)
		find_package(attune ${WANTED} REQUIRED)
		add_executable(shared use.c)
		target_link_libraries(shared attune::attune)
		add_executable(static use.c)
		target_link_libraries(static attune::attune_static)
	END
	project() { # VERSION
		rm -rf "$tmp/cmake"
		cmake -S "$tmp/project" -B "$tmp/cmake" -Dattune_DIR="$lib/cmake/attune" -DWANTED="$1" -DCMAKE_C_FLAGS="$sanitize" >"$tmp/log" 2>&1
	}
	project 0.1 && cmake --build "$tmp/cmake" >"$tmp/log" 2>&1 && "$tmp/cmake/shared" && "$tmp/cmake/static" &&
		readelf -d "$tmp/cmake/shared" | grep -q 'NEEDED.*libattune.so.0' && ! readelf -d "$tmp/cmake/static" | grep -q libattune
	row $? "CMake: shared and static programs"
	! project 1 && grep -q 'with requested version "1"' "$tmp/log"
	row $? "CMake: version 1 is not there"
	! project 0.99 && grep -q 'with requested version "0.99"' "$tmp/log"
	row $? "CMake: nor is 0.99"
else
	row 0 "CMake # SKIP there is none"
fi

# Man pages: one for each line of attune --help, with all options.
man=$tmp/usr/share/man/man1
"$B/attune" --help | sed -n 's/^  \([a-z][a-z]*\)\( --\([a-z]*\)\)\{0,1\} .*/attune-\1-\3.1/p' | sed 's/-\././' >"$tmp/want"
ls "$man" >"$tmp/got"
{ echo attune.1 && cat "$tmp/want"; } | sort | diff - "$tmp/got" >"$tmp/log"
row $? "a man page for each command"
options() { # FILE: of what argp prints: names in column 2 or 6, each with its text in column 29 or in the next line
	sed -n 's/^  \(    \)\{0,1\}\(-., \)\{0,1\}--\([a-z-]*\).*/\3/p' "$1"
}
good=0
for c in tune scenarios sweep show merge; do # scenarios: its texts have lines that begin with an option
	"$B/attune" $c --help >"$tmp/help" && options "$tmp/help" >"$tmp/want" && [ -s "$tmp/want" ] || good=1
	sed -n 's/\\-/-/g; s/^\.B \(-., \)\{0,1\}--\([a-z-]*\).*/\2/p' "$man/attune-$c.1" | diff "$tmp/want" - >"$tmp/log" || good=1
done
[ "$(grep -c '^\.SH OPTIONS' "$man/attune-scenarios.1")" = 1 ] || good=1 # also behind a title of several lines
grep -q '^\.B \\-\\-max\\-batched\\-tokens=N$' "$man/attune-scenarios.1" || good=1 # a blank stands between it and its text
[ $good = 0 ] && [ "$(sed -n '/^\.SH NAME/{n;p;}' "$man/attune-sweep.1")" = 'attune\-sweep \- measures kernels on scenarios into a database; resumes' ]
row $? "man pages have their names and all their options"
if command -v groff >/dev/null; then
	for page in "$man"/*; do groff -man -ww -Tutf8 "$page" >/dev/null; done 2>"$tmp/log"
	[ ! -s "$tmp/log" ]
	row $? "groff has no warning of any"
fi

# Completion: the words that follow these, joined by blanks.
completed() { # WORD...
	bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$#; ((COMP_CWORD--)); _attune; echo ${COMPREPLY[*]}' \
		"$tmp/usr/share/bash-completion/completions/attune" "$tmp/usr/bin/attune" "$@" 2>&1
}
if command -v bash >/dev/null; then
	is "scenarios show sweep" "$(completed s)"
	row $? "completion of commands"
	is "--corners=" "$(completed scenarios --co)"
	row $? "completion of an option that the text of another names"
	is "--page-size= --phases= --preset= --protocol= --peer= --python=" "$(completed sweep --p)"
	row $? "completion of a command's options"
	is "--bridge|--db= --dry-run" "$(completed merge --br)|$(completed --machine EPYC merge --bridge --d)"
	row $? "completion of a mode, and of its options"
fi

touch "$tmp/usr/bin/other" && mkdir "$tmp/usr/include"
make_it uninstall LOCAL=no B="$tmp/none" PREFIX="$tmp/usr" && find "$tmp/usr" "$tmp/headers" ! -type d >"$tmp/log" &&
	is "$tmp/usr/bin/other" "$(cat "$tmp/log")" && [ -d "$tmp/usr/include" ] &&
	find "$tmp/usr" "$tmp/headers" -name attune >"$tmp/log" && [ ! -s "$tmp/log" ]
row $? "uninstall, from any tree, leaves what is not attune's"

# A compiler for another machine, by its word: what runs while building is compiled by HOSTCC, from this build's objects.
cat >"$tmp/aarch64-cc" <<SCRIPT
#!/bin/sh
case " \$* " in *" -E -P -x c - ") exec sed 's/__x86_64__ __aarch64__/__x86_64__ 1/; s/__SIZEOF_POINTER__/8/' ;; esac
echo "\$*" >>"$tmp/compiled"
exec ${CC:-cc} "\$@"
SCRIPT
chmod +x "$tmp/aarch64-cc" && mkdir "$tmp/arm" && seed_build "$tmp/arm/host" &&
	make_it LOCAL=no B="$tmp/arm" CC="$tmp/aarch64-cc" HOSTCC="${CC:-cc}" NVCC= HIPCC= "$tmp/arm/shipped.mk" "$tmp/arm/kernels/spec/status.o" &&
	grep -q 'SIMD_SCALAR' "$tmp/arm/shipped.mk" && grep -q 'neon' "$tmp/arm/shipped.mk" && ! grep avx "$tmp/arm/shipped.mk" >"$tmp/log" &&
	grep -q ' kernels/spec/status.c ' "$tmp/compiled" && ! grep 'list_\|selector\|sources_hash' "$tmp/compiled" >"$tmp/log"
row $? "a cross build: HOSTCC compiles what runs while building, and the other machine's kernels are listed"
strip -o "$tmp/attune" "$B/attune" && case $B in /*) ;; *) grep -lF "$here" "$tmp/attune" "$tmp/arm/kernels/spec/status.o" ;; esac >"$tmp/log"
[ ! -s "$tmp/log" ]
row $? "neither a fresh object nor the tool has the name of the sources' folder"

if command -v dpkg-shlibdeps >/dev/null; then
	export DEBEMAIL=attune@example.org DEB_COMPRESS=-Znone
	# Into a folder of its own: a build folder of links.
	mkdir "$tmp/b" && for f in attune libattune.a libattune.so; do ln -s "$here/$B/$f" "$tmp/b"; done
	make_it deb LOCAL=no B="$tmp/b" && is 3 "$(wc -l <"$tmp/out" | tr -d ' ')"
	row $? "make deb"
	mkdir "$tmp/bin" && cat >"$tmp/bin/dpkg-shlibdeps" <<'SCRIPT' && chmod +x "$tmp/bin/dpkg-shlibdeps"
#!/bin/sh
echo 'dpkg-shlibdeps: warning: odd' >&2
echo 'dpkg-shlibdeps: error: no dependency information found' >&2
exit 2
SCRIPT
	mkdir "$tmp/c" && ln -s "$here/$B/attune" "$here/$B/libattune.a" "$here/$B/libattune.so" "$tmp/c"
	PATH=$tmp/bin:$PATH make_it deb LOCAL=no B="$tmp/c"
	row "$([ $? = 2 ] && is "attune: dpkg-shlibdeps cannot say which packages $tmp/c/deb/libattune0/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/libattune.so.0 needs: dpkg-shlibdeps: error: no dependency information found" \
		"$(grep -v '^make' "$tmp/err")" && [ ! -s "$tmp/out" ]; echo $?)" "make deb stops where dpkg-shlibdeps fails"
	cat "$tmp"/b/deb/*.deb | cksum >"$tmp/first" && make_it deb LOCAL=no B="$tmp/b" && cat "$tmp"/b/deb/*.deb | cksum | diff - "$tmp/first" >"$tmp/log"
	row $? "two runs give the same bytes"
	mkdir -p "$tmp/root/var/lib/dpkg/info" "$tmp/root/var/lib/dpkg/updates" && : >"$tmp/root/var/lib/dpkg/status"
	dpkg_root() { # WORD...: there are no other packages
		dpkg --root="$tmp/root" --force-depends --force-bad-path --log=/dev/null "$@" >"$tmp/log" 2>&1
	}
	if [ "$(id -u)" = 0 ]; then
		dpkg_root -i "$tmp"/b/deb/*.deb
		row $? "dpkg installs them"
		lib=$(dirname "$(find "$tmp/root/usr/lib" -name libattune.a)")
		build -I"$tmp/root/usr/include" -L"$lib" -lattune && readelf -d "$tmp/use" | grep -q 'NEEDED.*libattune.so.0' &&
			build -I"$tmp/root/usr/include" "$lib/libattune.a" -lpthread -ldl -lm &&
			"$tmp/root/usr/bin/attune" show --gpu h200 --model llama3.1-8b@1 --batch 32q1s16k --why >"$tmp/log" 2>&1
		row $? "programs build against them, and the tool finds its data"
		dpkg_root -P attune libattune-dev libattune0 && [ ! -e "$tmp/root/usr/bin" ] && [ ! -e "$tmp/root/usr/lib" ]
		row $? "dpkg takes them out again"
	fi
fi
end_rows
