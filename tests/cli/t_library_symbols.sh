#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_library_symbols.sh - the library holds what its API needs and nothing else: the linker finds no
# function or table in it that attune.h and attune_settle.h do not reach.
. tests/support/tap.sh
[ -z "${SAN:-}" ] || {
	echo "1..0 # SKIP what a sanitizer adds is reached by nothing"
	exit 0
}

unused() { # ARCHIVE: its functions and tables that no name of its headers reaches
	cc -shared -Wl,--gc-sections -Wl,--print-gc-sections -Wl,--version-script="$B/exports.map" \
		-Wl,--whole-archive "$1" -Wl,--no-whole-archive -o "$tmp/library.so" -lm -ldl -lpthread 2>&1 |
		sed -n "s/.*unused section '\.\(text\|rodata\|data\|data\.rel\.ro\|data\.rel\.ro\.local\)\.\([a-z_]*\)' in file.*/\2/p"
}

names() { # FILE: of all functions and tables, also of those that do not leave
	nm "$1" | awk '$2 ~ /^[TtDdRr]$/ { sub(/^__attune_/, "", $3); print $3 }' | sort
}

# The same without that step, as it is inside the tool.
cc -r -nostdlib $(find "$B/kernels/spec" "$B/kernels/select" "$B/space" -name '*.o' ! -name 'list_*') -o "$tmp/whole.o"
ar rcs "$tmp/whole.a" "$tmp/whole.o"
unused "$tmp/whole.a" | grep -qx choice_family
row $? "the linker tells what is unused"
unused "$B/libattune.a" >"$tmp/log"
[ ! -s "$tmp/log" ] && [ -s "$tmp/library.so" ]
row $? "no function of the library is unused by its headers"
for library in libattune.a libattune.so; do
	names "$B/$library" >"$tmp/names"
	grep -x 'choice_family\|config_next\|cpu_run\|selector_next_binary\|attune_adopt\|power_.*\|hip_sensors_.*\|.*_joules' "$tmp/names" >"$tmp/log"
	[ ! -s "$tmp/log" ] && grep -qx choice_text "$tmp/names"
	row $? "$library has what the library calls, and not what the tool alone does"
done

# A program that settles nothing links no code of attune_settle.h.
calls() { # NAME CALL: has the program any of it?
	printf '#include "attune_settle.h"\nint main(void)\n{\n\tattune_context *ctx = 0;\n\treturn %s;\n}\n' "$2" >"$tmp/$1.c"
	cc -Ikernels "$tmp/$1.c" "$B/libattune.a" -lm -ldl -lpthread -o "$tmp/$1" 2>"$tmp/log" &&
		nm "$tmp/$1" | grep -c ' [Tt] \(attune_settle\|settled_\|table_put\)' || true
}
[ "$(calls opens 'attune_open(&ctx, "cpu") != 0')" = 0 ] && [ "$(calls settles 'attune_settled_commit(ctx) != 0')" -gt 0 ]
row $? "a program that settles nothing links nothing of it"
end_rows
