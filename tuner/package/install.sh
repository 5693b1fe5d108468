#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh - copies what make built into a prefix, and takes it out again. It compiles nothing.
#
#   sh tuner/package/install.sh install|uninstall
#
# From the environment, as make's settings are: B DESTDIR PREFIX LIBDIR INCLUDEDIR STRIP EMULATOR, VERSION
# ("0.2.0") and LIBS. The list of what was copied is PREFIX/share/attune/installed; uninstall removes what
# it names, also where another version put it there.
set -u
export LC_ALL=C
share=$PREFIX/share/attune
list=$DESTDIR$share/installed
soname=libattune.so.${VERSION%%.*}

give_up() { # LINE
	echo "attune: $1" >&2
	exit 2
}

# A list of an older attune may name the same files.
note() { # PATH
	echo "$1" >>"$list" || exit 2
}

put() { # MODE FOLDER FILE...
	mode=$1 folder=$2
	shift 2
	install -d "$DESTDIR$folder" && install -m "$mode" "$@" "$DESTDIR$folder" || exit 2
	for file; do note "$folder/${file##*/}"; done
}

filled() { # TEMPLATE PATH: the template with the values of this installation
	install -d "$DESTDIR${2%/*}" && awk '
		{
			while (match($0, /@[a-z_]+@/))
				$0 = substr($0, 1, RSTART - 1) ENVIRON["at_" substr($0, RSTART + 1, RLENGTH - 2)] \
					substr($0, RSTART + RLENGTH)
			print
		}' "tuner/package/$1" >"$DESTDIR$2" && chmod 644 "$DESTDIR$2" || exit 2
	note "$2"
}

stripped() { # OPTION PATH
	[ -z "$STRIP" ] || $STRIP "$1" "$DESTDIR$2" || exit 2
}

of_pkg_config() { # PATH: with its blanks escaped, by the prefix where it is below that
	case $1 in
	"$PREFIX"/*) printf %s "\${prefix}${1#"$PREFIX"}" ;;
	*) printf %s "$1" ;;
	esac | sed 's/ /\\ /g'
}

library() {
	put 644 "$LIBDIR" "$B/libattune.a"
	install -m 755 "$B/libattune.so" "$DESTDIR$LIBDIR/$soname" &&
		ln -sf "$soname" "$DESTDIR$LIBDIR/libattune.so" || exit 2
	note "$LIBDIR/$soname"
	note "$LIBDIR/libattune.so"
	stripped -g "$LIBDIR/libattune.a"
	stripped --strip-unneeded "$LIBDIR/$soname"
	put 644 "$INCLUDEDIR" kernels/attune.h kernels/attune_settle.h kernels/attune_plugin.h
	put 644 "$INCLUDEDIR/attune" generated/attune_*.h kernels/attune_features.h kernels/attune_list.h kernels/features.def

	at_version=$VERSION at_major=${VERSION%%.*} at_soname=$soname at_libs=$LIBS
	at_prefix=$(printf %s "$PREFIX" | sed 's/ /\\ /g')
	at_libdir=$(of_pkg_config "$LIBDIR") at_includedir=$(of_pkg_config "$INCLUDEDIR")
	at_cmake_libs=$(echo "$LIBS" | sed 's/^ *-l//; s/ *-l/;/g')
	at_cmake_include=$(realpath -m --relative-to="$LIBDIR/cmake/attune" "$INCLUDEDIR") || exit 2
	export at_version at_major at_soname at_libs at_prefix at_libdir at_includedir at_cmake_libs at_cmake_include
	filled attune.pc.in "$LIBDIR/pkgconfig/attune.pc"
	filled attuneConfig.cmake.in "$LIBDIR/cmake/attune/attuneConfig.cmake"
	filled attuneConfigVersion.cmake.in "$LIBDIR/cmake/attune/attuneConfigVersion.cmake"
}

# The tool compiles what it measures, so the sources of kernels go along.
tool() {
	put 755 "$PREFIX/bin" "$B/attune"
	stripped --strip-all "$PREFIX/bin/attune"
	for d in kernels kernels/cpu kernels/gpu kernels/gpu/*/ harness/check harness/ceilings harness/peers; do
		d=${d%/}
		# shellcheck disable=SC2046
		put 644 "$share/$d" $(find "$d" -maxdepth 1 -type f ! -path 'harness/*.c')
	done
	for d in tuner/plot/pictures tuner/show/tables; do put 644 "$share/$d" "$d"/*; done
	put 644 "$share/scenarios" scenarios/*.json
	put 644 "$share/generated" generated/attune_*.h
	put 644 "$share/results" results/*.sqlite
	filled attune.bash "$PREFIX/share/bash-completion/completions/attune"
}

# A page for each line of `attune --help`, from the --help of its command.
pages() {
	run="$EMULATOR $B/attune"
	unset ARGP_HELP_FMT
	man=$PREFIX/share/man/man1
	$run --help >"$list.help" 2>/dev/null || {
		echo "attune: without man pages: $B/attune does not run here; EMULATOR= names what runs it" >&2
		rm -f "$list.help"
		return
	}
	install -d "$DESTDIR$man" || exit 2
	for name in attune $(sed -n 's/^  \([a-z]\{2,\}\)\( --\([a-z]*\)\)\{0,1\} .*/\1 \3/p' "$list.help" |
		sed 's/ $//; s/ /-/; s/^/attune-/'); do
		mode=${name#attune} command=${mode#-}
		case $command in *-*) command="${command%-*} --${command#*-}" ;; esac
		# shellcheck disable=SC2086
		$run $command --help | awk -v page="$name" -v version="$VERSION" -f tuner/package/man.awk "$list.help" - \
			>"$DESTDIR$man/$name.1" && chmod 644 "$DESTDIR$man/$name.1" || exit 2
		note "$man/$name.1"
	done
	rm -f "$list.help"
}

install_all() {
	for file in libattune.a libattune.so; do
		[ -e "$B/$file" ] || give_up "$B/ has no $file to install; build it first: make"
	done
	install -d "$DESTDIR$share" && note "$share/installed"
	library
	if [ -e "$B/attune" ]; then
		tool
		pages
	else
		echo "attune: $B/ has no tool (make builds it): the library alone is installed" >&2
	fi
	sort -u -o "$list" "$list"
	echo "attune $VERSION: library in $DESTDIR$LIBDIR, headers in $DESTDIR$INCLUDEDIR, the rest in $DESTDIR$PREFIX"
}

# Of folders only attune's own go.
uninstall_all() {
	[ -e "$list" ] || give_up "$list is missing: no attune is installed there"
	sort -r "$list" | while IFS= read -r path; do
		rm -f "$DESTDIR$path" || exit 2
		folder=${path%/*}
		while case $folder in */attune | */attune/*) ;; *) false ;; esac && rmdir "$DESTDIR$folder" 2>/dev/null; do
			folder=${folder%/*}
		done
	done
}

for path in "$PREFIX" "$LIBDIR" "$INCLUDEDIR"; do
	case $path in
	/*) ;;
	*) give_up "\"$path\" is no absolute path, and attune.pc names it: PREFIX, LIBDIR and INCLUDEDIR begin with /" ;;
	esac
done
case ${1:-} in
install) install_all ;;
uninstall) uninstall_all ;;
*) give_up "usage: install.sh install|uninstall" ;;
esac
