#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deps.sh - finds packages that a build needs and the machine lacks, and installs them if possible.
#
#   sh harness/commands/deps.sh check|install|ask GROUP...
#
#   library   for libattune                  pictures  for attune plot
#   tool      for attune, in addition        font      of the width that pictures are laid out for;
#   test      for make test, in addition               without it they are still drawn
#   python    for the tests of the Python package
#   amd       a compiler for AMD's GPUs: ROCm's, the one that HIPCC names, or clang
#
# check: exit 0 if nothing is missing, else one line on stderr and exit 1. install: prints one line
# and installs with the system's package manager, as root or by sudo without a password; if that is
# not possible, the line of check and exit 1. ask: for large packages: installs if the user at the
# terminal answers y; else the line of check and exit 2.
#
# CC and CXX name the compilers (default: cc, c++). Headers in other prefixes are found by CPATH and
# by -I in CPPFLAGS.
set -u

# group    what to look for   kind      apt                 dnf
table='
library    cc                 command   gcc                 gcc
library    stdio.h            header    libc6-dev           glibc-headers
tool       sqlite3.h          header    libsqlite3-dev      sqlite-devel
tool       jansson.h          header    libjansson-dev      jansson-devel
tool       xxhash.h           header    libxxhash-dev       xxhash-devel
test       c++                command   g++                 gcc-c++
test       cmocka.h           header    libcmocka-dev       libcmocka-devel
test       prove              command   perl                perl-Test-Harness
test       sqlite3            command   sqlite3             sqlite
pictures   gnuplot            command   gnuplot-nox         gnuplot-minimal
font       Liberation         font      fonts-liberation    liberation-sans-fonts
python     cffi               import    python3-cffi        python3-cffi
python     numpy              import    python3-numpy       python3-numpy
python     ensurepip          import    python3-venv        python3-pip
amd        clang-22           gfx942    clang-22            clang
amd        lld-22             gfx942    lld-22              lld
amd        llvm-objdump-22    gfx942    llvm-22             llvm
'
cc=${CC:-cc}

# present KIND NAME. Without a compiler no header counts as present.
present() {
	case $1 in
	header) printf '#include <stddef.h>\n#include <%s>\n' "$2" |
		$cc ${CPPFLAGS:-} -E -x c - >/dev/null 2>&1 ;;
	import) # one Python that has all of them
		for python in "${ATTUNE_TEST_PYTHON:-python3}" python3 /usr/bin/python3; do
			! "$python" -c "import cffi, numpy, ensurepip" >/dev/null 2>&1 || return 0
		done
		return 1 ;;
	font) ! command -v fc-list >/dev/null 2>&1 || fc-list | grep -qE "$2|Nimbus|Helvetica" ;;
	gfx*) for clang in ${HIPCC:-"${ROCM_PATH:-/opt/rocm}/llvm/bin/clang" clang-22 clang-21 \
			clang-20 clang-19 clang hipcc}; do
			! $clang -x hip --offload-arch="$1" --offload-device-only -nogpuinc -nogpulib \
				--no-gpu-bundle-output -mcode-object-version=5 /dev/null -o /dev/null \
				>/dev/null 2>&1 || return 0
		done
		return 1 ;;
	*) [ "$2" = cc ] && set -- "$1" "$cc"
		[ "$2" = c++ ] && set -- "$1" "${CXX:-c++}"
		command -v "${2%% *}" >/dev/null 2>&1 ;;
	esac
}

# missing GROUP...: "<thing> <apt name> <dnf name>" a line.
missing() {
	echo "$table" | while read -r group thing kind apt dnf; do
		case " $* " in
		*" $group "*) [ -z "$group" ] || present "$kind" "$thing" ||
			echo "$thing $apt $dnf" ;;
		esac
	done
}

column() {
	echo "$lacking" | cut -d ' ' -f "$1" | tr '\n' ' ' | sed 's/ $//'
}

# The package manager on PATH, and its command to install.
manager() {
	if command -v apt-get >/dev/null 2>&1; then
		packages=$(column 2)
		refresh='apt-get update'
		install='apt-get install -y --no-install-recommends'
	elif command -v dnf >/dev/null 2>&1; then
		packages=$(column 3)
		refresh=true
		install='dnf install -y'
	else
		return 1
	fi
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

say_missing() {
	if manager; then
		[ "$(id -u)" = 0 ] && sudo= || sudo='sudo '
		echo "attune: missing $(column 1); to install: $sudo$install $packages" >&2
	else
		echo "attune: missing $(column 1); Debian calls the packages $(column 2)" >&2
	fi
	return 1
}

mode=${1:-}
[ $# -gt 1 ] && shift || mode=
lacking=$(missing "$@")

install_lacking() { # GROUP...
	manager || { say_missing; return 1; }
	[ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { say_missing; return 1; }
	echo "attune: missing $(column 1); installing $packages" >&2
	export DEBIAN_FRONTEND=noninteractive
	# Package lists may be absent or old.
	# shellcheck disable=SC2086
	as_root $install $packages >/dev/null 2>&1 || {
		as_root $refresh >/dev/null 2>&1
		as_root $install $packages >/dev/null 2>&1
	}
	lacking=$(missing "$@")
	[ -z "$lacking" ] || say_missing
}

# Reads the terminal, as standard input may belong to another job of make.
somebody_agrees() {
	manager && [ -t 2 ] && { : </dev/tty; } 2>/dev/null || return 1
	printf 'attune: missing %s; install %s (clang and LLVM take 115 MB)? [y/N] ' "$(column 1)" \
		"$packages" >&2
	read -r answer </dev/tty
	case $answer in [yY]*) ;; *) return 1 ;; esac
}

[ -n "$lacking" ] || [ -z "$mode" ] || exit 0
case $mode in
check) say_missing ;;
install) install_lacking "$@" ;;
ask)
	if somebody_agrees; then
		install_lacking "$@"
	else
		say_missing
		exit 2
	fi
	;;
*)
	echo "usage: deps.sh check|install|ask library|tool|test|pictures|font|python|amd..." >&2
	exit 2
	;;
esac
