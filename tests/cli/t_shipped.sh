#!/bin/sh
# t_shipped.sh - binaries that the library carries but `make test` does not link, since they run
# elsewhere, compile by the rules of `make`. Of NVIDIA's, the first of each kernel and then every 56th:
# t_nvidia_compile.c compiles all of them for one architecture. Of others the first of each architecture
# and kernel and then every 240th.
. tests/support/tap.sh

# $(eval $(call shipped_gpu,0123456789abcdef,sm_90,kernels/gpu/baselines/naive.cu,-DHEAD_SIZE=64 ...,))
# linked_blobs += 0123456789abcdef
awk -F'[ ,]' '
/^linked/ { linked[$3] = 1 }
/shipped_/ { rows[++n] = $0 }
END {
	for (i = 1; i <= n; i++) {
		split(rows[i], word, ",")
		if (word[2] in linked) continue
		nvidia = word[1] ~ /gpu/
		step = nvidia ? 56 : 240
		if (seen[nvidia ? "" : word[3], word[4]]++ % step == 0)
			print word[2] (word[1] ~ /cpu/ ? ".o" : ".bin"), word[3], word[4], word[5]
	}
}' "$B/shipped.mk" >"$tmp/rows"
if [ ! -s "$tmp/rows" ]; then
	echo "1..0 # SKIP all that there is a compiler for is linked"
	exit 0
fi

compile() { # OPTION NAME...
	option=$1
	shift
	# shellcheck disable=SC2046
	MAKEFLAGS='' ${MAKE:-make} "$option" B="$B" SAN="${SAN:-}" $(printf "$B/shipped/b%s " "$@")
}

# shellcheck disable=SC2046
compile -k $(cut -d' ' -f1 "$tmp/rows") >"$tmp/made" 2>&1
compiled=$?
while read -r name of; do
	[ $compiled -eq 0 ] || compile -q "$name" >/dev/null 2>&1
	row $? "$of"
done <"$tmp/rows"
grep -i 'error' "$tmp/made" | sed 's/^/# /' | head -20
end_rows
