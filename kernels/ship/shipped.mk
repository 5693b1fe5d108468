# SPDX-License-Identifier: Apache-2.0
# shipped.mk - the binaries that libattune carries, included by the Makefile.
#
#   generated/attune_<gpu>.h -> heuristics.inc; list_trees: trees.inc -> list_shipped
#     list_shipped --make  -> shipped.mk:  one rule a binary (the two below)
#     list_shipped --table -> shipped.inc: the table that names them
#
# There is a rule for each binary that there is a compiler for; linked are those whose
# architecture LEAVE_OUT does not name: nvidia gfx90a gfx942 gfx950 avx512 avx2 neon scalar.
#
# STALE=skip leaves out headers that no longer fit the .def tables (for the
# commands that regenerate them); otherwise such a header stops the build.

# A machine's own header in the form of an older attune is left out, and make tune makes it anew.
local_all   := $(if $(filter no,$(LOCAL)),,$(wildcard $(GENERATED)/local/attune_*.h))
local_old   := $(if $(local_all),$(shell grep -L '^#define ATTUNE_[A-Z0-9_]*_SHAPES.SHAPES' $(local_all)))
$(if $(local_old),$(shell echo "attune: left out, since an older attune made it: $(local_old); make tune makes it anew" >&2))
local_gpus  := $(patsubst $(GENERATED)/local/attune_%.h,%,$(filter-out $(local_old),$(local_all)))
gpus        := $(sort $(local_gpus) $(patsubst $(GENERATED)/attune_%.h,%,$(wildcard $(GENERATED)/attune_*.h)))
header_of    = $(if $(filter $(1),$(local_gpus)),local/)attune_$(1).h
headers     := $(foreach g,$(gpus),$(GENERATED)/$(call header_of,$(g)))
upper        = $(shell echo $(1) | tr a-z A-Z)
skip_stale  := $(if $(filter skip,$(STALE)),--skip-stale)
list_flags   = --machine=$(machine) $(if $(NVCC),,--no-cuda) $(if $(HIPCC),$(addprefix --amd=,$(file <$(hip_archs)))) \
	--leave-out='$(LEAVE_OUT)' $(skip_stale)
list_objs   := $(addprefix $(B)/kernels/,ship/list_shipped.o ship/list_rows.o spec/kernel.o spec/choice.o spec/part.o spec/status.o \
	select/selector.o select/nearest.o select/header_text.o select/binaries.o device/shared/gpu_names.o ship/untuned_shapes.o \
	select/segments.o spec/formula.o device/cpu/flags.o \
	device/hip/chips.o) $(spaces)
gpu_sources := $(wildcard $(foreach e,h cu,kernels/gpu/*.$(e) kernels/gpu/*/*.$(e))) $(addprefix kernels/,args.h args_more.h args_maps.h attune_features.h features.def)
cpu_sources := $(wildcard kernels/cpu/*.h kernels/cpu/*.c) kernels/args.h

# Files whose content depends on settings, not only on files: rewritten when it
# would change, so that what hangs on them is rebuilt only then. Each make writes aside to a name
# of its own: tests run several at a time.
aside := $(shell echo $$PPID)
define heuristics_text
#ifdef HEADERS
$(foreach g,$(gpus),#include "$(call header_of,$(g))"
)#else
$(foreach g,$(gpus),HEURISTIC($(g), $(call upper,$(g)))
)#endif
endef
$(B)/heuristics.inc: FORCE | $(B)/has_library
	$(file >$@.$(aside),$(heuristics_text))
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
ifeq ($(HOSTCC),)
$(B)/list_trees: $(addprefix $(B)/kernels/select/,list_trees.o header_text.o)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@
$(B)/list_shipped: $(list_objs)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@
$(B)/sources_hash: harness/base/sources_hash.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DSOURCES_HASH_MAIN $< -o $@
else # a cross build: what runs while building is built for this machine, in a folder of its own
$(addprefix $(B)/,list_trees list_shipped sources_hash): $(B)/%: $(B)/host/made
	$(Q)cmp -s $(B)/host/$* $@ || cp $(B)/host/$* $@
$(B)/host/made: FORCE
	$(Q)$(MAKE) B=$(B)/host CC='$(HOSTCC)' HOSTCC= CFLAGS=-O1 CPPFLAGS= LDFLAGS= \
		$(addprefix $(B)/host/,list_trees list_shipped sources_hash)
endif
$(B)/trees.inc: $(B)/list_trees $(headers) $(B)/heuristics.inc
	@$(B)/list_trees $(headers) >$@.$(aside) && mv $@.$(aside) $@ || { rm -f $@.$(aside); exit 1; }
$(B)/kernels/select/selector.o: $(B)/heuristics.inc $(B)/trees.inc

# The chips that a compiler takes, asked once: older ones know fewer.
hip_flags := -x hip --offload-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -O3 -mcode-object-version=5 -std=c++17
hip_archs := $(B)/archs$(subst /,_,$(lastword $(HIPCC)))
$(hip_archs): $(wildcard $(lastword $(HIPCC))) | $(B)/has_library
	@for a in gfx90a gfx942 gfx950; do ! $(HIPCC) $(hip_flags) --offload-arch=$$a /dev/null -o /dev/null \
		2>/dev/null || printf ',%s' $$a; done | sed 's/^,//' >$@
$(B)/shipped.inc $(B)/shipped.mk: $(B)/list_shipped $(if $(HIPCC),$(hip_archs)) FORCE
	@$(B)/list_shipped $(if $(filter %.mk,$@),--make,--table) $(list_flags) >$@.$(aside) || \
		{ rm -f $@.$(aside); exit 1; }
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
$(B)/kernels/ship/shipped.o: $(B)/shipped.inc
# The names of the binaries that a library built with all compilers carries. By them the tool plans for
# GPUs that this machine does not have (harness/machine/planning_device.c).
$(B)/carried.inc: $(B)/list_shipped FORCE
	@$(B)/list_shipped --table --machine=$(machine) --amd=gfx90a,gfx942,gfx950 $(skip_stale) | \
		sed -n 's/^\([A-Z]*(.*\), [a-z0-9_]*)$$/\1)/p' >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
$(B)/harness/machine/planning_device.o: $(B)/carried.inc

# A precompiled header: GCC takes a third of the time of a CPU kernel to read <immintrin.h>. The objects are
# the same. Where x86.h.gch is missing, or was made with other flags, GCC reads x86.h itself; clang would refuse it.
# $(call intrinsics,isa,compiler flags)
is_gcc := $(shell LC_ALL=C $(CC) --version 2>/dev/null | grep 'Free Software')
define intrinsics
$(B)/shipped/$(1)/x86.h:
	@mkdir -p $$(@D)
	@echo '#include <immintrin.h>' >$$@.$(aside)
	@$$(CC) $(2) -fPIC -x c-header $$@.$(aside) -o $$@.gch.$(aside) && mv $$@.gch.$(aside) $$@.gch || \
		rm -f $$@.gch.$(aside)
	@mv $$@.$(aside) $$@
intrinsics_$(1) := $(B)/shipped/$(1)/x86.h
endef

# A GPU binary is a compressed fatbin with one image, a third of its cubin: the driver unpacks it. nvcc's own
# -compress-mode asks for no newer driver than its binaries do: CUDA 12 packs by "speed", which driver 525 unpacks, CUDA 13
# by "balance" (from 550 on), whose binaries need 580 in any mode. "speed" takes 1.4 times the bytes there, "size" 0.85.
gencode = arch=$(1:sm_%=compute_%)$(comma)code=$(1)

# $(call shipped_cpu,name,isa,source,flags,compiler flags,entry)   $(call shipped_gpu,...)   ..._hip
# KERNEL_CFLAGS: flags added after a CPU kernel's own (t_sanitizers.sh)
define shipped_cpu
$(if $(and $(is_gcc),$(filter avx%,$(2))),$(if $(intrinsics_$(2)),,$(eval $(call intrinsics,$(2),$(5)))))
$(B)/shipped/b$(1).o: $(cpu_sources) | $(intrinsics_$(2))
	@mkdir -p $$(@D)
	$$(call say,CC,$(2) $(3) $(4))
	$$(Q)$$(CC) -pipe $(5) $$(KERNEL_CFLAGS) -fPIC $(addprefix -include ,$(intrinsics_$(2))) -iquote kernels $(4) -DENTRY=$(6) \
		-c $(3) -o $$@
endef
define shipped_gpu
$(B)/shipped/b$(1).bin: $(gpu_sources)
	@mkdir -p $$(@D)
	$$(call say,NVCC,$(2) $(3) $(4))
	$$(Q)$$(NVCC) -std=c++17 -Ikernels $(4) -DENTRY=$(6) -fatbin -Xfatbin -compress-all \
		-gencode $(call gencode,$(2:ptx=compute_80)) $(3) -o $$@
endef
define shipped_hip
$(B)/shipped/b$(1).bin: $(3)
	@mkdir -p $$(@D)
	$$(call say,HIPCC,$(2) $(3) $(4))
	$$(Q)$$(HIPCC) $$(hip_flags) --offload-arch=$(2) -Ikernels $(4) -DENTRY=$(6) -Wno-pass-failed $(3) -o $$@ \
		$(addprefix -Xclang ,-dependency-file $$(@:.bin=.d) -MT $$@ -MP)
endef
ifneq ($(filter-out $(passive_goals),$(or $(MAKECMDGOALS),all)),)
-include $(B)/shipped.mk
endif
shipped_objs  := $(linked_cells:%=$(B)/shipped/b%.o) $(B)/shipped/blobs.o
shipped_blobs := $(linked_blobs:%=$(B)/shipped/b%.bin)

# all GPU binaries in one object
$(B)/shipped/blobs.S: $(B)/shipped.mk
	@mkdir -p $(@D)
	@{ echo '.section .rodata'; for b in $(basename $(notdir $(shipped_blobs))); do \
		printf '.balign 64\n.global attune_%s\nattune_%s: .incbin "$(@D)/%s.bin"\n' $$b $$b $$b; done; \
		echo '.section .note.GNU-stack'; } >$@
$(B)/shipped/blobs.o: $(B)/shipped/blobs.S $(shipped_blobs)
	$(Q)$(CC) -c $< -o $@
FORCE:
.PHONY: FORCE
