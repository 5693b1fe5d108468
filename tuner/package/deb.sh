#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh - Debian's packages of what make built, in $B/deb: libattune0 has the shared library, libattune-dev what
# programs are built with, attune the tool. It needs dpkg-dev, and compiles nothing.
#
#   sh tuner/package/deb.sh
#
# From the environment: what install.sh takes, but for its folders; CC; DEBFULLNAME and DEBEMAIL, the maintainer;
# DEB_COMPRESS, dpkg-deb's options for it. Two runs on one build give the same bytes: all dates are CHANGELOG.md's.
set -u
umask 022
export LC_ALL=C

give_up() { # LINE
	echo "attune: $1" >&2
	exit 2
}
for tool in dpkg-deb dpkg-architecture dpkg-shlibdeps; do
	command -v $tool >/dev/null || give_up "make deb needs $tool: apt-get install dpkg-dev"
done

triplet=$($CC -dumpmachine) || exit 2
multiarch=$(dpkg-architecture -t"$triplet" -qDEB_HOST_MULTIARCH 2>/dev/null)
arch=$(dpkg-architecture -t"$triplet" -qDEB_HOST_ARCH 2>/dev/null) ||
	give_up "dpkg-architecture does not know the machine that $CC compiles for, $triplet"
soname=${VERSION%%.*}
maintainer="${DEBFULLNAME:-attune maintainers} <${DEBEMAIL:-attune@$(hostname)}>"
day=$(sed -n "s/^## $VERSION (\(.*\))$/\1/p" CHANGELOG.md)
[ -n "$day" ] || give_up "CHANGELOG.md has no line \"## $VERSION (YYYY-MM-DD)\""
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date -u -d "$day" +%s)}
export SOURCE_DATE_EPOCH

deb=$B/deb
rm -rf "$deb" && mkdir -p "$deb/debian" || exit 2
export DESTDIR="$deb/all" PREFIX=/usr LIBDIR="/usr/lib/$multiarch" INCLUDEDIR=/usr/include
sh tuner/package/install.sh install >/dev/null || exit 2
rm "$DESTDIR/usr/share/attune/installed"

take() { # PACKAGE PATH...: moves these of all files into the package
	root=$deb/$1
	mkdir -p "$root/DEBIAN"
	shift
	for path; do
		mkdir -p "$root${path%/*}" && mv "$DESTDIR$path" "$root$path" || exit 2
	done
}

# CHANGELOG.md as Debian writes it.
changelog() {
	grep -E '^(## |- |  [^ ])' CHANGELOG.md | sed 's/^  /    /; s/^- /  * /' | {
		while IFS= read -r line; do
			case $line in
			'## '*)
				[ -z "${date:-}" ] || printf '\n -- %s  %s\n\n' "$maintainer" "$date"
				date=$(date -u -R -d "$(echo "$line" | sed 's/.*(\(.*\))/\1/')") || exit 2
				line=${line#\#\# }
				printf 'attune (%s) unstable; urgency=medium\n\n' "${line%% *}"
				;;
			*) printf '%s\n' "$line" ;;
			esac
		done
		printf '\n -- %s  %s\n' "$maintainer" "$date"
	}
}

copyright() {
	cat <<-END
		Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
		Upstream-Name: attune

		Files: *
		Copyright: 2026 the authors of attune
		License: Apache-2.0
		 On Debian systems the text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
	END
}

# dpkg-shlibdeps reads a debian/control, and prints shlibs:Depends=...
needs() { # FILE: sets needed to the packages whose libraries it links
	printf 'Source: attune\n\nPackage: attune\nArchitecture: any\n' >"$deb/debian/control"
	needed=$(file=$(realpath "$1") && cd "$deb" && dpkg-shlibdeps -O "$file" 2>debian/said) ||
		give_up "dpkg-shlibdeps cannot say which packages $1 needs: $(tail -n 1 "$deb/debian/said")"
	cat "$deb/debian/said" >&2
	needed=$(echo "$needed" | sed -n 's/^shlibs:Depends=//p')
}

finish() { # PACKAGE SECTION MULTI-ARCH DESCRIPTION DEPENDS [MORE], the rest of the description in stdin
	root=$deb/$1
	doc=$root/usr/share/doc/$1
	mkdir -p "$doc" && changelog >"$doc/changelog" && gzip -9n "$doc/changelog" && copyright >"$doc/copyright" || exit 2
	{
		printf '%s: %s\n' Package "$1"
		[ "$1" = attune ] || echo 'Source: attune'
		printf '%s: %s\n' Version "$VERSION" Architecture "$arch" Maintainer "$maintainer" Section "$2" Priority optional \
			Installed-Size "$(du -k -s --apparent-size "$root/usr" | cut -f 1)" Multi-Arch "$3" Depends "$5" \
			${6:+Recommends "$6"} Description "paged attention chosen by measurement, $4"
		cat
	} >"$root/DEBIAN/control"
	(cd "$root" && find usr -type f | sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums" || exit 2
	# shellcheck disable=SC2086
	dpkg-deb --root-owner-group ${DEB_COMPRESS:-} --build "$root" "$deb/$1_${VERSION}_$arch.deb" >/dev/null || exit 2
	echo "$deb/$1_${VERSION}_$arch.deb"
}

library=libattune$soname
take "$library" "$LIBDIR/libattune.so.$soname"
chmod 644 "$deb/$library$LIBDIR/libattune.so.$soname"
echo "libattune $soname $library (>= $VERSION)" >"$deb/$library/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$deb/$library/DEBIAN/triggers"
needs "$deb/$library$LIBDIR/libattune.so.$soname"
finish "$library" libs same 'shared library' "$needed" <<'END'
 libattune runs attention over a paged KV cache: prefill, chunked prefill and
 decode on NVIDIA GPUs and CPUs. For each batch it picks the kernel and the
 parameters that were fastest when they were measured.
END

take libattune-dev "$LIBDIR/libattune.a" "$LIBDIR/libattune.so" "$LIBDIR/pkgconfig" "$LIBDIR/cmake" /usr/include
finish libattune-dev libdevel same 'headers' "$library (= $VERSION)" <<'END'
 Programs that use libattune are built with this package. It has the headers,
 the static library, and files for pkg-config and CMake.
END

if [ -e "$DESTDIR/usr/bin/attune" ]; then
	take attune /usr/bin /usr/share
	find "$deb/attune/usr/share/man" -name '*.1' -exec gzip -9n {} +
	needs "$deb/attune/usr/bin/attune"
	finish attune science foreign 'tool' "$needed" 'gcc, gnuplot-nox' <<'END'
 attune measures kernels for paged attention on the machine's GPU or CPU,
 learns which one is fastest for which batch, and writes the rules as a C
 header. It comes with measurements of several GPUs.
END
fi
find "$DESTDIR" -type f | sed "s,^,attune: in no package: ," >&2
rm -rf "$DESTDIR" "$deb/debian"
