# SPDX-License-Identifier: Apache-2.0
# sanitizers.mk - programs of the library alone, with the kernels of one shape, included by the
# Makefile. t_sanitizers.sh builds them, and what they need, under sanitizers in folders of their own:
#
#   t_threads                          -> few_threads
#   t_settle_threads                   -> few_settle_threads
#   t_api without the emulated GPUs    -> few_calls
#
# `make test SAN=1` runs everything under the address sanitizer, and takes several times as long.

few         = -DHEAD_SIZE=64 -DDTYPE=F32
few_cells   = $(filter $(shell sed -n 's/.*shipped_cpu,\([0-9a-f]*\),[^,]*,[^,]*,$(few) .*/\1/p' $(B)/shipped.mk 2>/dev/null),$(linked_cells))
few_library = $(filter-out %/ship/shipped.o,$(libobj)) $(B)/few/shipped.o $(few_cells:%=$(B)/shipped/b%.o)

$(B)/few/shipped.o: kernels/ship/shipped.c $(B)/shipped.inc
	@mkdir -p $(@D)
	@awk '!/^(CELL|BLOB)/ || /$(few) /' $(B)/shipped.inc >$(@D)/shipped.inc
	$(Q)$(CC) -I$(@D) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(B)/few_threads $(B)/few_settle_threads: $(B)/few_%: tests/sanitizers/t_%.c $(few_library)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) -o $@ -lcmocka $(LIBS)
$(B)/few_calls: tests/fuzz/t_api.c $(filter-out %/api_emulated.c,$(wildcard tests/fuzz/api_*.c)) \
		tests/fuzz/api.h harness/check/tolerance.c harness/check/reference.c $(few_library)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -DLIBRARY_ALONE $(filter %.c %.o,$^) -o $@ $(LIBS)
