#!/bin/sh
# t_library_symbols.sh - the library holds what its API needs. Its sources are compiled with a section
# for each function, and the linker says which of them no function of attune.h reaches. Those of
# `tool` below read and write choices, spaces and headers as the library does, for the tool and for
# the list of binaries; none may be added.
. tests/support/tap.sh

tool='attune_adopt plan_serial
cpu_run cpu_last_play_share cpu_compile_flags pool_run_together
device_text gpu_name_is_valid device_for
device_of_arch node_reaches reaches backend_of choice_at helper_at selector_next_binary
header_device config_fitted
selector_kernel_is_stale selector_is_stale units_of borrowed is_part own_why selector_why
space_spares choice_spares choice_early choice_overlaps choice_compare choice_same choice_family parts_parse
kernel_path kernel_arch axis_is_swept config_next config_first put_word put_flag entry_name
in_phase sum_over part_live_keys part_pairs part_make'

mkdir "$tmp/objects"
for source in kernels/*/*.c kernels/*/*/*.c; do
	case $source in
	kernels/cpu/* | kernels/spec/space.c | */list_*) ;;
	*) echo "$source" ;;
	esac
done | xargs -P 2 -I{} sh -c '
	cc -iquote . -iquote kernels -iquote generated -I"$0" -D_GNU_SOURCE -std=c11 -O0 -w -fPIC \
		-ffunction-sections -fdata-sections -c "$2" -o "$1/$(echo "$2" | tr / _).o"
' "$B" "$tmp/objects" {} >"$tmp/log" 2>&1
row $? "each source of the library compiles"

find "$B/space" -name '*.o' >"$tmp/spaces"
# shellcheck disable=SC2046
cc -shared -Wl,--gc-sections -Wl,--print-gc-sections -Wl,--version-script="$B/exports.map" "$tmp"/objects/*.o \
	$(cat "$tmp/spaces") -o "$tmp/library.so" -lm -ldl -lpthread >"$tmp/log" 2>&1
row $? "they are linked"

sed -n "s|.*section '\.text\.\([^']*\)' in file '$tmp/objects/.*|\1|p" "$tmp/log" | sort >"$tmp/unused"
printf '%s\n' $tool | sort >"$tmp/known"
grep -qx choice_same "$tmp/unused" && ! grep -qx choice_text "$tmp/unused"
row $? "the linker tells what is used"
comm -23 "$tmp/unused" "$tmp/known" >"$tmp/log"
[ ! -s "$tmp/log" ]
row $? "no function but the tool's is unused by attune.h"
comm -13 "$tmp/unused" "$tmp/known" >"$tmp/log"
[ ! -s "$tmp/log" ]
row $? "none of the tool's is listed that is used, or gone"
end_rows
