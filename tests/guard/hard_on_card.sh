#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# hard_on_card.sh - t_hard_gpu for a machine with an H100 or H200 that has neither this checkout nor a
# compiler: `sh tests/guard/hard_on_card.sh FOLDER` makes a folder, and `sh FOLDER/run.sh` runs it there.
set -e
folder=${1:?usage: sh tests/guard/hard_on_card.sh FOLDER}
B=${B:-build}
mkdir -p "$folder/code" "$folder/lib"
cp "$B/t_hard_gpu" "$folder"
ldd "$B/t_hard_gpu" | sed -n 's/.*=> \(.*\/lib\(inside\|cmocka\|jansson\|xxhash\)\.so[^ ]*\) .*/\1/p' |
	while read -r lib; do cp "$lib" "$folder/lib"; done
"$B/t_hard_gpu" compile "$folder/code"
cat >"$folder/run.sh" <<'RUN'
#!/bin/sh
cd "$(dirname "$0")"
LD_LIBRARY_PATH=$PWD/lib exec ./t_hard_gpu run code
RUN
