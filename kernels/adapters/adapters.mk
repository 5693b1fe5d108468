# adapters.mk - kernels of other projects as plug-ins, included by the Makefile. README.md in this
# folder says how to build and race each.
#
#   kernels/adapters/NAME.cu or .c + the project's sources -> build/adapters/NAME.so
#
# The sources are in a folder of the user's. Nothing is downloaded, nothing of theirs is kept here.
# Each adapter has one block: its target, and rules that exist only where it is asked for.

# $(call revision_of,FOLDER,FILES): the version of a kernel, "617264c1 (2026-08-06)". REVISION= says
# it; else it is the checkout's, with " +changes" where FILES differ from it.
revision_of = $(or $(REVISION),$(shell cd '$(1)' && git log -1 --abbrev=8 --format='%h (%cs)' 2>/dev/null && \
	{ git diff --quiet HEAD -- $(2) || echo +changes; }))
# A word of a version decides what is compiled, so objects depend on a file that holds it.
$(B)/adapters/%/version: FORCE
	@mkdir -p $(@D)
	@echo '$(adapter_version)' >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
FORCE:
.PHONY: FORCE adapter-fa3

# ---- FlashAttention-3: FA3=FOLDER, a checkout of vllm-project/flash-attention ---------------------

CUTLASS ?=# another CUTLASS than FA3's own in csrc/cutlass
adapter-fa3: $(B)/adapters/fa3.so ## FlashAttention-3 as a plug-in: FA3=FOLDER [CUTLASS=FOLDER]
ifneq ($(filter adapter-fa3,$(MAKECMDGOALS)),)
fa3_cutlass := $(or $(CUTLASS),$(FA3)/csrc/cutlass)
fa3_needs   := attune: make adapter-fa3 needs
$(if $(NVCC),,$(error $(fa3_needs) nvcc))
$(if $(FA3),,$(error $(fa3_needs) FA3=FOLDER, a checkout of github.com/vllm-project/flash-attention))
$(if $(wildcard $(FA3)/hopper/flash_fwd_launch_template.h),,$(error $(fa3_needs) FA3=FOLDER, a checkout of \
	github.com/vllm-project/flash-attention: $(FA3) has no hopper/flash_fwd_launch_template.h))
$(if $(wildcard $(fa3_cutlass)/include/cutlass/cutlass.h),,$(error $(fa3_needs) CUTLASS=FOLDER, a checkout of \
	github.com/NVIDIA/cutlass: $(fa3_cutlass) has no include/cutlass/cutlass.h))
adapter_version := $(call revision_of,$(FA3),hopper)
$(if $(adapter_version),,$(error $(fa3_needs) REVISION=, the name of this version: $(FA3) is no git checkout))
cutlass_version := $(shell cd '$(fa3_cutlass)' && git log -1 --abbrev=8 --format=', CUTLASS %h' 2>/dev/null)

fa3_dir  := $(B)/adapters/fa3
# 0 or 1 each: FA3_SPLIT, FA3_GATHER of fa3_kernels.cu
fa3_objs := $(addprefix $(fa3_dir)/,fa3.o fa3_call.o prepare.o $(foreach s,0 1,$(foreach g,0 1,kernels_$(s)_$(g).o)))
# As vLLM compiles it, which leaves out what its calls do not use.
fa3_flags = -std=c++17 -O3 -DNDEBUG --use_fast_math --expt-relaxed-constexpr --expt-extended-lambda \
	-Wno-deprecated-declarations -gencode arch=compute_90a,code=sm_90a -Xcompiler -fPIC,-fvisibility=hidden -MMD -MP -MF $(@:.o=.d) \
	-Ikernels -I'$(FA3)/hopper' -I'$(fa3_cutlass)/include' -I$(fa3_dir)/include \
	-D'STD_TORCH_CHECK(...)=((void)0)' -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90 \
	$(addprefix -DFLASHATTENTION_,VARLEN_ONLY PACKGQA_ONLY \
		$(addprefix DISABLE_,CLUSTER SM8x APPENDKV HDIMDIFF64 BACKWARD UNEVEN_K))

$(B)/adapters/fa3.so: $(fa3_objs)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xlinker --exclude-libs=ALL,--strip-all $^ -o $@
$(fa3_objs): $(fa3_dir)/version | $(fa3_dir)/include
# FA3 includes one header of PyTorch, for a macro that fa3_flags define.
$(fa3_dir)/include:
	@mkdir -p $@/torch/headeronly/util
	@: >$@/torch/headeronly/util/Exception.h
$(fa3_dir)/%.o: kernels/adapters/%.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fa3_flags) -DFA3_VERSION='"$(adapter_version)$(cutlass_version)"' -c $< -o $@
$(fa3_dir)/prepare.o: $(FA3)/hopper/flash_prepare_scheduler.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fa3_flags) -c $< -o $@
# The stem is FA3_SPLIT_FA3_GATHER: a minute or more each.
$(fa3_dir)/kernels_%.o: kernels/adapters/fa3_kernels.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fa3_flags) -DFA3_SPLIT=$(word 1,$(subst _, ,$*)) -DFA3_GATHER=$(word 2,$(subst _, ,$*)) \
		-c $< -o $@
endif
