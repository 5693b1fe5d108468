#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_shipped.sh - binaries that the library carries but `make test` does not link, since they run
# elsewhere, compile by the rules of `make`. Of NVIDIA's, the first of each kernel and then every 56th:
# t_nvidia_compile.c compiles all of them for one architecture. Of others the first of each architecture
# and kernel and then every 240th. With all of them libattune.a has at most 40 MB.
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
compile() { # OPTION NAME...
	option=$1
	shift
	# shellcheck disable=SC2046
	MAKEFLAGS='' ${MAKE:-make} "$option" B="$B" SAN="${SAN:-}" $(printf "$B/shipped/b%s " "$@")
}

# shellcheck disable=SC2046
[ ! -s "$tmp/rows" ] || compile -k $(cut -d' ' -f1 "$tmp/rows") >"$tmp/made" 2>&1
compiled=$?
while read -r name of; do
	[ $compiled -eq 0 ] || compile -q "$name" >/dev/null 2>&1
	row $? "$of"
done <"$tmp/rows"
[ $compiled -eq 0 ] || grep -i 'error' "$tmp/made" | sed 's/^/# /' | head -20

# What is linked counts with the library. The rest has its own size where it is compiled, else the mean of
# what is compiled from its source for its architecture, or for any. AMD's count only where they are linked.
{
	find "$B/shipped" -name 'b*.bin' -printf '%f %s\n' -o -name 'b*.o' -printf '%f %s\n' | sed 's/\.[a-z]*//'
	nm "$B/libattune.a" | sed -n 's/.* /attune /p'
} | awk -F'[ ,]' -v total="$(wc -c <"$B/libattune.a")" '
$1 == "attune" { linked[$2] = 1; next }
NF == 2 { size[$1] = $2; next }
/shipped_(cpu|gpu)/ { rows[++n] = $0 }
END {
	for (i = 1; i <= n; i++) {
		split(rows[i], word, ",")
		name = "b" word[2]
		if (!(name in size)) continue
		count[word[4]]++; sum[word[4]] += size[name]
		count[word[3] word[4]]++; sum[word[3] word[4]] += size[name]
	}
	for (i = 1; i <= n; i++) {
		split(rows[i], word, ",")
		name = "b" word[2]
		entry = substr(word[7], 1, length(word[7]) - 2)
		key = word[3] word[4] in count ? word[3] word[4] : word[4]
		if ("attune_" name in linked || entry in linked) continue
		if (!(name in size)) means++
		total += name in size ? size[name] : sum[key] / count[key]
	}
	printf "libattune.a with all %d binaries has %.1f MB, at most 40 (%d by the mean of others)\n",
		n, total / 1e6, means
	exit total > 40e6
}' - "$B/shipped.mk" >"$tmp/size"
row $? "$(cat "$tmp/size")"
end_rows
