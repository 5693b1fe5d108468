# SPDX-License-Identifier: Apache-2.0
# simt.mk - the emulated GPU, included by the Makefile.
#
#   kernels/gpu, kernels/*.h -host.awk-> simt/: kernels as a host's C++ compiler takes them
#   tests/simt/*.c             -> simt.a: the device, in tests
#   list_shipped --table       -> simt/shipped.o: replaces the GPU's binaries in the tests named
#                                 below, where those are not linked
#
# Fibers abandon their stacks, which the address sanitizer reports: with SAN=1 it skips these files,
# and kernels trap where behaviour is undefined.

simt_text := $(patsubst kernels/%,$(B)/simt/%,$(wildcard kernels/*.h kernels/*.def \
	kernels/gpu/*.h kernels/gpu/*/*.h kernels/gpu/*/*.inc kernels/gpu/*/*.cu))
simt_objs := $(patsubst %.c,$(B)/%.o,$(wildcard tests/simt/*.c))

$(simt_text): $(B)/simt/%: kernels/% tests/simt/text/host.awk tests/simt/text/gpu_emulated.h
	@mkdir -p $(@D)
	@awk -v emulated=tests/simt/text/gpu_emulated.h -f tests/simt/text/host.awk $< >$@
$(simt_objs): override CFLAGS := -O2 -g -std=c11 -fPIC $(WARN) $(if $(SAN),-DSIMT_SANITIZE)
$(B)/simt.a: $(simt_objs)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# The table as with all compilers; each binary is one zero byte.
$(B)/simt/shipped.inc: $(B)/list_shipped FORCE
	@mkdir -p $(@D)
	@$(B)/list_shipped --table --machine=$(machine) --amd=gfx90a,gfx942,gfx950 \
		--leave-out='$(filter-out nvidia gfx%,$(LEAVE_OUT))' $(skip_stale) | \
		sed 's/^extern const \(unsigned char attune_b[0-9a-f]*\)\[\]/static \1[1]/' >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/simt/shipped.o: kernels/ship/shipped.c $(B)/simt/shipped.inc
	$(Q)$(CC) -I$(B)/simt $(CPPFLAGS) $(CFLAGS) -c $< -o $@
ifeq ($(if $(filter nvidia,$(LEAVE_OUT)),,$(NVCC)),)
$(addprefix $(B)/t_,gpu_replay side_streams_runs fused_runs fitted_runs formula_runs e4m3_library invariant field_bugs \
	gpu_settle settled_runs plugin_device write_kv gpu_lists lone_strides write_then_run): $(B)/simt/shipped.o
endif
# They plan for chips that the compilers here may not know, and run nothing there.
$(B)/t_hip $(B)/t_api: $(B)/simt/shipped.o
