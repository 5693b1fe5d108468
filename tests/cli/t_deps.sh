#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_deps.sh - the dependency installer, with a package manager that only logs its calls: it installs
# nothing when nothing is missing, refreshes lists only when needed, and prints one line with packages
# and command where it cannot install. Also the groups that each make target asks for.
. tests/support/tap.sh
unset CXX HIPCC CPPFLAGS CPATH PKG_CONFIG_PATH AMD GPU COMPILE_ONLY
export ROCM_PATH=/nowhere

# A compiler that finds all headers but those that "$tmp/lacks" names.
cat >"$tmp/fakecc" <<SCRIPT
#!/bin/sh
! grep -qFf "$tmp/lacks"
SCRIPT
# One that finds headers only in the folders of CPATH and -I.
cat >"$tmp/prefixcc" <<'SCRIPT'
#!/bin/sh
header=$(sed -n 's/^#include <\(.*\)>/\1/p' | tail -n 1)
dirs=$(echo "$CPATH" | tr : ' ')
for flag; do case $flag in -I*) dirs="$dirs ${flag#-I}" ;; esac; done
for dir in $dirs; do [ ! -e "$dir/$header" ] || exit 0; done
exit 1
SCRIPT
# apt-get: succeeds, and "installs", only after as many updates as "$tmp/updates" asks.
mkdir "$tmp/apt" "$tmp/dnf" "$tmp/none"
cat >"$tmp/apt/apt-get" <<SCRIPT
#!/bin/sh
echo "apt-get \$*" >>"$tmp/log"
case \$1 in
update) echo >"$tmp/updates" ;;
install) [ "\$(cat "$tmp/updates")" != needed ] || exit 100; echo nothing-lacks >"$tmp/lacks" ;;
esac
SCRIPT
printf '#!/bin/sh\necho "dnf $*" >>%s/log; echo nothing-lacks >%s/lacks\n' "$tmp" "$tmp" \
	>"$tmp/dnf/dnf"
chmod +x "$tmp/fakecc" "$tmp/prefixcc" "$tmp/apt/apt-get" "$tmp/dnf/dnf"
for tool in sh grep sed cut tr env cat tail prove sqlite3 c++; do
	for d in apt dnf none; do
		ln -s "$(command -v $tool || echo /bin/true)" "$tmp/$d/$tool"
	done
done
as() { # UID: what id -u says
	for d in apt dnf none; do
		printf '#!/bin/sh\necho %s\n' "$1" >"$tmp/$d/id"
		chmod +x "$tmp/$d/id"
	done
}

deps() { # MANAGER LACKS UPDATES MODE GROUP...
	d=$1
	echo "$2" >"$tmp/lacks"
	echo "$3" >"$tmp/updates"
	shift 3
	: >"$tmp/log"
	PATH=$tmp/$d CC=${found_by:-$tmp/fakecc} sh harness/commands/deps.sh "$@" >"$tmp/out" 2>"$tmp/err"
	code=$?
}

lines() {
	wc -l <"$1" | tr -d ' '
}

as 0
deps apt nothing-lacks '' install library tool test
row "$([ $code = 0 ] && [ ! -s "$tmp/log" ] && [ ! -s "$tmp/err" ]; echo $?)" "all there: silent"

deps apt jansson.h '' check library tool
row "$([ $code = 1 ] && [ ! -s "$tmp/log" ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'jansson.h; to install: apt-get install .* libjansson-dev$' "$tmp/err"; echo $?)" \
	"check names what is missing and does nothing"

deps apt jansson.h '' check library
row $code "a group that was not asked for may be missing"

deps apt sqlite3.h '' install library tool
row "$([ $code = 0 ] && [ "$(lines "$tmp/log")" = 1 ] &&
	grep -q '^apt-get install .* libsqlite3-dev$' "$tmp/log"; echo $?)" "one install, no update"
row "$([ "$(cat "$tmp/err")" = 'attune: missing sqlite3.h; installing libsqlite3-dev' ]; echo $?)" \
	"which is said before, in one line"

deps apt xxhash.h needed install library tool
row "$([ $code = 0 ] && [ "$(cut -d ' ' -f 2 "$tmp/log" | tr '\n' ' ')" = 'install update install ' ]
	echo $?)" "lists that are missing are fetched, then once more"

deps apt nothing-lacks '' check library tool amd
row "$([ $code = 1 ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'missing clang-22 lld-22 llvm-objdump-22; .* clang-22 lld-22 llvm-22$' "$tmp/err"; echo $?)" \
	"a compiler for AMD's GPUs, where that is asked for"
printf '#!/bin/sh\n[ "$3" = --offload-arch=gfx942 ]\n' >"$tmp/apt/clang-20"
chmod +x "$tmp/apt/clang-20"
deps apt nothing-lacks '' check amd
row $code "any that knows the GPU will do"

deps dnf xxhash.h '' install tool
row "$([ $code = 0 ] && grep -q '^dnf install -y xxhash-devel$' "$tmp/log"; echo $?)" "dnf's names"

deps none cmocka.h '' install test
row "$([ $code = 1 ] && [ "$(lines "$tmp/err")" = 1 ] && grep -q libcmocka-dev "$tmp/err"; echo $?)" \
	"no package manager: one line"

deps apt nothing-lacks '' check library tool test
row $code "building, tuning and testing need no gnuplot"
deps apt nothing-lacks '' check pictures
row "$([ $code = 1 ] && [ "$(lines "$tmp/err")" = 1 ] && grep -q 'missing gnuplot; .* gnuplot-nox$' "$tmp/err"
	echo $?)" "pictures do"
printf '#!/bin/sh\n[ "$2" = "import cffi, numpy, ensurepip" ]\n' >"$tmp/python" && chmod +x "$tmp/python"
export ATTUNE_TEST_PYTHON="$tmp/python"
deps apt nothing-lacks '' check python
row $code "a Python that has all that its tests import"
unset ATTUNE_TEST_PYTHON

mkdir "$tmp/prefix"
for header in stdio.h sqlite3.h jansson.h xxhash.h; do
	: >"$tmp/prefix/$header"
done
found_by=$tmp/prefixcc
deps apt '' '' check library tool
row "$([ $code = 1 ]; echo $?)" "headers are not where the compiler looks"
CPATH=/nowhere:$tmp/prefix
export CPATH
deps apt '' '' check library tool
row $code "those of a prefix that CPATH names count"
unset CPATH
CPPFLAGS=-I$tmp/prefix
export CPPFLAGS
deps apt '' '' install library tool
row "$([ $code = 0 ] && [ ! -s "$tmp/log" ]; echo $?)" "those that CPPFLAGS names, too"
unset CPPFLAGS found_by

as 1000
deps apt cmocka.h '' install test
row "$([ $code = 1 ] && [ ! -s "$tmp/log" ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'sudo apt-get install .* libcmocka-dev$' "$tmp/err"; echo $?)" \
	"neither root nor sudo: one line with the command"

printf '#!/bin/sh\n[ "$1" = -n ] && shift; exec "$@"\n' >"$tmp/apt/sudo"
chmod +x "$tmp/apt/sudo"
ln -s /bin/true "$tmp/apt/true"
deps apt cmocka.h '' install test
row "$([ $code = 0 ] && grep -q 'install .* libcmocka-dev$' "$tmp/log"; echo $?)" \
	"sudo without a password"

# What is large is installed when somebody agrees. script(1) is a terminal.
rm "$tmp/apt/clang-20"
as 0
deps apt nothing-lacks '' ask amd
row "$([ $code = 2 ] && [ ! -s "$tmp/log" ] && [ "$(lines "$tmp/err")" = 1 ] &&
	grep -q 'missing clang-22.*; to install: apt-get install .* clang-22 lld-22 llvm-22$' "$tmp/err"
	echo $?)" "nobody to ask: one line, exit 2, nothing is installed"
if command -v script >/dev/null; then
	for answer in y n; do
		: >"$tmp/log"
		echo $answer | script -qec "PATH=$tmp/apt CC=$tmp/fakecc sh harness/commands/deps.sh ask amd" \
			/dev/null >"$tmp/out" 2>"$tmp/err"
		grep -q '115 MB' "$tmp/out" && [ "$(grep -c '^apt-get install' "$tmp/log")" = \
			"$([ $answer = y ] && echo 1 || echo 0)" ]
		row $? "asked at a terminal, answered $answer"
	done
fi

sh harness/commands/deps.sh install >"$tmp/out" 2>"$tmp/err"
code=$?
row "$([ $code = 2 ] && [ "$(lines "$tmp/err")" = 1 ]; echo $?)" "no group: usage"

# ---- make -----------------------------------------------------------------------------

asks() { # GOAL [SETTING...]: the groups that make would ask for
	MAKEFLAGS='' ${MAKE:-make} -n "$@" 2>"$tmp/err" |
		sed -n "s/.*deps.sh \\(install\\|ask\\|check\\) \\([a-z ]*[a-z]\\).*/\\1 \\2;/p" | tr -d '\n'
}
row "$([ "$(asks deps-tune)" = 'install library tool;' ]; echo $?)" "tuning asks for what tuning uses"
row "$([ "$(asks deps-tune GPU=mi300)" = 'install library tool;' ]; echo $?)" "on AMD's GPUs, too"
row "$([ "$(asks deps-tune GPU=mi300 COMPILE_ONLY=1)" = 'install library tool;ask amd;' ]; echo $?)" \
	"before it compiles for one that is not here it asks for a compiler"
row "$([ "$(asks deps-test)" = 'install library tool test;install pictures;install python;' ]; echo $?)" \
	"testing asks for all that tests run, and for no font"
printf '#!/bin/sh\n[ "$2" != pictures ] || { echo "attune: missing gnuplot; to install: x" >&2; exit 1; }\n' >"$tmp/all_but"
MAKEFLAGS='' ${MAKE:-make} -s deps-test deps="sh $tmp/all_but" >"$tmp/out" 2>"$tmp/err"
row "$([ $? -eq 0 ] && [ "$(cat "$tmp/err")" = 'attune: missing gnuplot; to install: x' ]; echo $?)" \
	"without gnuplot the others are tested, and a line says what is missing"

# A compiler for AMD's GPUs, and the builds that use it. As for `make help`, the rules of the shipped
# binaries are not made again: they are those of the build that the tests run from.
mkdir "$tmp/clang"
printf '#!/bin/sh\n' >"$tmp/clang/clang-22"
chmod +x "$tmp/clang/clang-22"
hipcc() { # SETTING...
	PATH=$tmp/clang:$PATH MAKEFLAGS='' ${MAKE:-make} -s --eval 'p:;@echo $(HIPCC)' p MAKECMDGOALS=help "$@" 2>"$tmp/err"
}
if [ -e /dev/kfd ]; then
	row "$([ "$(hipcc)" = "$tmp/clang/clang-22" ]; echo $?)" "where such a GPU is, a build is for it"
else
	row "$([ -z "$(hipcc)" ]; echo $?)" "a compiler alone changes no build"
fi
for setting in GPU=mi300 AMD=1; do
	row "$([ "$(hipcc $setting)" = "$tmp/clang/clang-22" ]; echo $?)" "$setting: a build is for AMD's GPUs"
done
row "$([ "$(hipcc AMD=1 HIPCC=)" = '' ] && [ "$(hipcc HIPCC=mine)" = mine ]; echo $?)" \
	"HIPCC= is what it says"

# A library that pkg-config finds in a prefix.
if command -v pkg-config >/dev/null; then
	printf 'Name: jansson\nDescription: x\nVersion: 2\nCflags: -I%s/i\nLibs: -L%s/l -ljansson\n' \
		"$tmp" "$tmp" >"$tmp/prefix/jansson.pc"
	flags=$(PKG_CONFIG_PATH=$tmp/prefix MAKEFLAGS='' ${MAKE:-make} -s --eval \
		'p:;@echo $(CPPFLAGS) $(LDFLAGS); echo "$(deps)"' p MAKECMDGOALS=help 2>"$tmp/err")
	row "$(echo "$flags" | grep -q -e "-I$tmp/i .*-L$tmp/l -Wl,-rpath,$tmp/l" &&
		echo "$flags" | grep -q "CPPFLAGS='-I$tmp/i'"; echo $?)" \
		"what pkg-config finds in a prefix is compiled and linked with"
fi
end_rows
