# adapters.mk - kernels of other projects as plug-ins, included by the Makefile. README.md in this
# folder says how to build and race each.
#
#   kernels/adapters/NAME.cu or .c + the project's sources -> build/adapters/NAME.so
#
# The sources are in a folder of the user's. Nothing is downloaded, nothing of theirs is kept here.
# Each adapter has one block: its target, and rules that exist only where it is asked for.

# $(call revision_of,FOLDER,FILES): the version of a kernel, "617264c1 2026-08-06". REVISION= says it;
# else it is that of the checkout FOLDER, with " +changes" where FILES differ from it.
is_checkout = test -z "$$(git rev-parse --show-cdup 2>&1)"
revision_of = $(or $(REVISION),$(shell cd '$(1)' && $(is_checkout) && git log -1 --abbrev=8 --format='%h %cs' && \
	{ git diff --quiet HEAD -- $(2) || echo +changes; }))
# Objects depend on this file, so that another version, NAME_version, is compiled anew.
$(B)/adapters/%/version: FORCE
	@mkdir -p $(@D)
	@echo '$($*_version)' >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
FORCE:
.PHONY: FORCE adapter-fa3
# What adapters share is tested; their sources need others'.
$(B)/t_plugin_cpu: kernels/adapters/openmp.c

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
fa3_version := $(call revision_of,$(FA3),hopper)
$(if $(fa3_version),,$(error $(fa3_needs) REVISION=, the name of this version: $(FA3) is no git checkout))
fa3_version += $(shell cd '$(fa3_cutlass)' && $(is_checkout) && git log -1 --abbrev=8 --format='cutlass %h')

fa3_dir  := $(B)/adapters/fa3
# 0 or 1 each: FA3_SPLIT, FA3_GATHER of fa3_kernels.cu
fa3_objs := $(addprefix $(fa3_dir)/,fa3.o fa3_call.o prepare.o $(foreach s,0 1,$(foreach g,0 1,kernels_$(s)_$(g).o)))
# As vLLM compiles it, which leaves out what its calls do not use.
fa3_flags = -std=c++17 -O3 -DNDEBUG --use_fast_math --expt-relaxed-constexpr --expt-extended-lambda \
	-Wno-deprecated-declarations -gencode arch=compute_90a,code=sm_90a \
	-Xcompiler -fPIC,-fvisibility=hidden -MMD -MP -MF $(@:.o=.d) \
	-Ikernels -I'$(FA3)/hopper' -I'$(fa3_cutlass)/include' -I$(fa3_dir)/include \
	-D'STD_TORCH_CHECK(...)=((void)0)' -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90 \
	$(addprefix -DFLASHATTENTION_,VARLEN_ONLY PACKGQA_ONLY \
		$(addprefix DISABLE_,CLUSTER SM8x APPENDKV HDIMDIFF64 BACKWARD UNEVEN_K))

$(B)/adapters/fa3.so: $(fa3_objs)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xcompiler -static-libstdc++,-static-libgcc \
		-Xlinker --exclude-libs=ALL,--strip-all $^ -o $@
$(fa3_objs): $(fa3_dir)/version | $(fa3_dir)/include
# FA3 includes one header of PyTorch, for a macro that fa3_flags define.
$(fa3_dir)/include:
	@mkdir -p $@/torch/headeronly/util
	@: >$@/torch/headeronly/util/Exception.h
$(fa3_dir)/%.o: kernels/adapters/%.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fa3_flags) -DFA3_VERSION='"$(fa3_version)"' -c $< -o $@
$(fa3_dir)/prepare.o: $(FA3)/hopper/flash_prepare_scheduler.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fa3_flags) -c $< -o $@
# The stem is FA3_SPLIT_FA3_GATHER: a minute or more each.
$(fa3_dir)/kernels_%.o: kernels/adapters/fa3_kernels.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fa3_flags) -DFA3_SPLIT=$(word 1,$(subst _, ,$*)) -DFA3_GATHER=$(word 2,$(subst _, ,$*)) \
		-c $< -o $@
endif

# ---- vLLM's Triton attention: VLLM=FOLDER, which has vllm/, and a PYTHON that has Triton ------------

# QUERY_HEADS/KV_HEADS/PAGE_SIZE, by default of Llama 3.1 8B and 70B and of Qwen3 14B, 30B and 235B
# in scenarios/h200.json; with /e4m3 over such a cache, by default the ones of scenarios/fp8_h200.json
VLLM_SHAPES ?= $(patsubst %,32/8/%,16 32 48 64 128) \
	$(patsubst %,%/16,16/4 8/2 4/1 64/8 32/4 16/2 8/1 40/8 32/2 16/1) \
	$(patsubst %,%/16/e4m3,32/8 16/2 24/8)
PYTHON ?= python3
.PHONY: adapter-vllm-triton
adapter-vllm-triton: $(B)/adapters/vllm_triton.so ## vLLM's Triton attention as a plug-in: VLLM=FOLDER [PYTHON=python3]
ifneq ($(filter adapter-vllm-triton,$(MAKECMDGOALS)),)
vllm_dir := $(B)/adapters/vllm_triton
vllm_ops := $(VLLM)/vllm/v1/attention/ops
$(if $(wildcard $(vllm_ops)/triton_unified_attention.py),,$(error attune: make adapter-vllm-triton needs \
	VLLM=FOLDER, which has vllm/v1/attention/ops/triton_unified_attention.py$(if $(VLLM),: $(VLLM) has not)))
# The script finds the version; what it is called with decides, too, what is compiled.
vllm_triton_version := $(VLLM) $(VLLM_SHAPES) $(PYTHON)

$(vllm_dir)/vllm_triton_table.h: kernels/adapters/vllm_triton.py $(vllm_dir)/version \
		$(wildcard $(vllm_ops)/triton_*attention*.py)
	$(call say,PY,$@)
	$(Q)$(PYTHON) $< $(VLLM) $(@D) $(VLLM_SHAPES)
$(vllm_dir)/cubins.S: $(vllm_dir)/vllm_triton_table.h
	@printf '%s\n' '.section .rodata' '.balign 64' '.hidden attune_vllm_triton_cubins' \
		'.global attune_vllm_triton_cubins' \
		'attune_vllm_triton_cubins: .incbin "$(@D)/vllm_triton.bin"' '.section .note.GNU-stack' >$@
$(B)/adapters/vllm_triton.so: kernels/adapters/vllm_triton.c kernels/adapters/driver.c $(vllm_dir)/cubins.S \
		$(addprefix kernels/,adapters/vllm_triton.h adapters/driver.h attune_plugin.h attune.h)
	$(call say,CC,$@)
	$(Q)$(CC) -iquote kernels -I$(vllm_dir) -D_GNU_SOURCE $(CFLAGS) -fvisibility=hidden -shared -o $@ \
		$(filter %.c %.S,$^) -ldl -lm
endif

# ---- FlashAttention-4: a PYTHON that has flash-attn-4 ----------------------------------------------

FA4_GROUPS ?= 4 5 8 16
.PHONY: adapter-fa4
adapter-fa4: $(B)/adapters/fa4.so ## FlashAttention-4 on Hopper as a plug-in: [PYTHON=python3]
ifneq ($(filter adapter-fa4,$(MAKECMDGOALS)),)
fa4_dir     := $(B)/adapters/fa4
fa4_needs   := attune: make adapter-fa4 needs
fa4_site    := $(shell '$(PYTHON)' -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
fa4_runtime := $(firstword $(wildcard $(fa4_site)/nvidia_cutlass_dsl/cu1*/lib/libcuda_dialect_runtime_static.a))
$(if $(NVCC),,$(error $(fa4_needs) nvcc))
$(if $(fa4_runtime),,$(error $(fa4_needs) PYTHON=, a Python that has flash-attn-4: $(fa4_site) has no nvidia_cutlass_dsl))
fa4_version := $(fa4_site) $(FA4_GROUPS) $(notdir $(wildcard $(fa4_site)/flash_attn_4-*.dist-info $(fa4_site)/nvidia_cutlass_dsl-*.dist-info))

$(fa4_dir)/fa4_table.h: kernels/adapters/fa4/fa4.py $(fa4_dir)/version
	$(call say,PY,$@)
	$(Q)'$(PYTHON)' -W ignore $< $(@D) $(FA4_GROUPS)
$(fa4_dir)/fa4.o: kernels/adapters/fa4/fa4.c $(fa4_dir)/fa4_table.h
	$(call say,CC,$@)
	$(Q)$(CC) -iquote kernels -I$(fa4_dir) $(addprefix -isystem ,$(CUDA_HOME)/include $(fa4_site)/tvm_ffi/include) \
		$(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(B)/adapters/fa4.so: $(fa4_dir)/fa4.o
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xcompiler -static-libstdc++,-static-libgcc -Xlinker --exclude-libs=ALL,--strip-all \
		$< $(fa4_dir)/fa4_*_*.o $(fa4_runtime) -o $@ -lm
endif

# ---- TileOPs' paged decode: a PYTHON that has tileops ------------------------------------------------

TILEOPS_SHAPES ?= 32/8/16 32/8/128# QUERY_HEADS/KV_HEADS/PAGE_SIZE
.PHONY: adapter-tileops
adapter-tileops: $(B)/adapters/tileops.so ## TileOPs' paged GQA decode as a plug-in: [PYTHON=python3]
ifneq ($(filter adapter-tileops,$(MAKECMDGOALS)),)
to_dir   := $(B)/adapters/tileops
to_needs := attune: make adapter-tileops needs
to_site  := $(shell '$(PYTHON)' -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
$(if $(NVCC),,$(error $(to_needs) nvcc))
$(if $(wildcard $(to_site)/tilelang/src/tl_templates),,$(error $(to_needs) PYTHON=, a Python that has tileops: \
	$(to_site) has no tilelang))
tileops_version := $(to_site) $(TILEOPS_SHAPES) $(notdir $(wildcard $(to_site)/tileops-*.dist-info $(to_site)/tilelang-*.dist-info))
to_kernels := $(foreach s,$(TILEOPS_SHAPES),$(foreach n,16 4 1,$(to_dir)/tileops_$(subst /,_,$(s))_$(n).o))

$(to_dir)/tileops_table.h: kernels/adapters/tileops/compile_tileops.py $(to_dir)/version
	$(call say,PY,$@)
	$(Q)'$(PYTHON)' -W ignore $< $(@D) $(TILEOPS_SHAPES)
$(to_dir)/tileops.o: kernels/adapters/tileops/tileops.c $(to_dir)/tileops_table.h
	$(call say,CC,$@)
	$(Q)$(CC) -iquote kernels -I$(to_dir) -isystem $(CUDA_HOME)/include $(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
# With the flags of TileLang's own compilation.
$(to_kernels): %.o: $(to_dir)/tileops_table.h
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -std=c++20 -w -Xcudafe --diag_suppress=177 --use_fast_math -O3 -DENABLE_BF16 \
		-gencode arch=compute_90a,code=sm_90a -Xcompiler -fPIC,-fvisibility=hidden \
		-I$(to_site)/tilelang/src -I$(to_site)/tilelang/3rdparty/cutlass/include -c $*.cu -o $@
# muldefs: TileLang's debug.h has functions that are not inline, the same ones in each source.
$(B)/adapters/tileops.so: $(to_dir)/tileops.o $(to_kernels)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xcompiler -static-libstdc++,-static-libgcc \
		-Xlinker --exclude-libs=ALL,--strip-all,-z,muldefs $^ -o $@ -lm
endif

# ---- FlashInfer: FLASHINFER=FOLDER, a checkout of flashinfer-ai/flashinfer -------------------------

.PHONY: adapter-flashinfer
CCCL       ?=# another CCCL than FlashInfer's own in 3rdparty/cccl; CUDA 13.0's is too old
XQA_PAGES  ?= 16 32 64 128
XQA_GROUPS ?= 4 8
adapter-flashinfer: $(B)/adapters/flashinfer.so ## FlashInfer as a plug-in: FLASHINFER=FOLDER [CUTLASS=FOLDER CCCL=FOLDER]
ifneq ($(filter adapter-flashinfer,$(MAKECMDGOALS)),)
fi_cutlass := $(or $(CUTLASS),$(FLASHINFER)/3rdparty/cutlass)
fi_cccl    := $(or $(CCCL),$(FLASHINFER)/3rdparty/cccl)
fi_needs   := attune: make adapter-flashinfer needs
$(if $(NVCC),,$(error $(fi_needs) nvcc))
$(if $(FLASHINFER),,$(error $(fi_needs) FLASHINFER=FOLDER, a checkout of github.com/flashinfer-ai/flashinfer))
$(if $(wildcard $(FLASHINFER)/csrc/xqa/mha.cu),,$(error $(fi_needs) FLASHINFER=FOLDER, a checkout of \
	github.com/flashinfer-ai/flashinfer: $(FLASHINFER) has no csrc/xqa/mha.cu))
$(if $(wildcard $(fi_cutlass)/include/cutlass/cutlass.h),,$(error $(fi_needs) CUTLASS=FOLDER, a checkout of \
	github.com/NVIDIA/cutlass: $(fi_cutlass) has no include/cutlass/cutlass.h))
$(if $(wildcard $(fi_cccl)/libcudacxx/include),,$(error $(fi_needs) CCCL=FOLDER, a checkout of \
	github.com/NVIDIA/cccl: $(fi_cccl) has no libcudacxx/include))
flashinfer_version := $(call revision_of,$(FLASHINFER),include csrc)
$(if $(flashinfer_version),,$(error $(fi_needs) REVISION=, the name of this version: $(FLASHINFER) is no git checkout))
flashinfer_version += $(shell cd '$(fi_cutlass)' && $(is_checkout) && git log -1 --abbrev=8 --format='cutlass %h')

fi_dir   := $(B)/adapters/flashinfer
fi_tiles := 16_kNone 16_kCausal 64_kCausal 128_kCausal
fi_fa2   := $(foreach c,bf16 e4m3,$(addsuffix _$(c),$(fi_tiles)))
fi_xqa   := $(foreach p,$(XQA_PAGES),$(foreach g,$(XQA_GROUPS),$(addprefix $(p)_$(g)_,bf16 dequant fp8)))
fi_heavy := fa3_kernels batch_kernels $(addprefix pod_kernels_,16 64 128) $(addprefix fa2_kernels_,$(fi_fa2)) $(addprefix xqa_kernels_,$(fi_xqa))
fi_objs  := $(patsubst %,$(fi_dir)/%.o,flashinfer pages fa2 fa2_plan fa3 batch pod xqa driver $(fi_heavy))
# As its wrappers compile at run time.
fi_flags = -std=c++17 -O3 -DNDEBUG -use_fast_math --expt-relaxed-constexpr -Wno-deprecated-declarations \
	-gencode arch=compute_90a,code=sm_90a -Xfatbin=-compress-all \
	-Xcompiler -fPIC,-fvisibility=hidden -MMD -MP -MF $(@:.o=.d) \
	-Ikernels -I$(fi_dir)/generated $(addprefix -I'$(fi_cccl)'/,libcudacxx/include cub thrust) \
	-isystem '$(FLASHINFER)/include' -isystem '$(FLASHINFER)/csrc' \
	-isystem '$(fi_cutlass)/include' -isystem '$(fi_cutlass)/tools/util/include' \
	$(addprefix -DFLASHINFER_ENABLE_,F16 BF16 FP8_E4M3 FP8_E5M2 FP8_E8M0 FP4_E2M1) \
	-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DVERSION='"$(strip $(flashinfer_version))"'
fi_xqa_flags := -DBEAM_WIDTH=1 -DUSE_INPUT_KV=0 -DUSE_CUSTOM_BARRIER=1 -DINPUT_FP16=0 -DDTYPE=__nv_bfloat16 \
	-DHEAD_ELEMS=128 -DSLIDING_WINDOW=0 -DLOW_PREC_OUTPUT=0 -DSPEC_DEC=0 -DMLA_WRAPPER=0 -DUSE_SM90_MHA=1
stem      = $(word $(1),$(subst _, ,$*))

$(B)/adapters/flashinfer.so: $(fi_objs)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -cudart static -Xcompiler -static-libstdc++,-static-libgcc -Xlinker --exclude-libs=ALL,--strip-all $^ -o $@
$(fi_objs): $(fi_dir)/version
$(fi_dir)/xqa.o: $(fi_dir)/generated/xqa_list.h
$(fi_dir)/generated/xqa_list.h: FORCE
	@mkdir -p $(@D)
	@echo '#define XQA_LIST $(foreach p,$(XQA_PAGES),$(foreach g,$(XQA_GROUPS),X($(p), $(g))))' >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
$(fi_dir)/%.o: kernels/adapters/flashinfer/%.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fi_flags) -c $< -o $@
# Stems: rows of a tile, the mask and the type of the cache; page size, heads of a group and the math of xqa.h.
$(fi_dir)/fa2_kernels_%.o: kernels/adapters/flashinfer/fa2_kernels.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fi_flags) -DTILE=$(call stem,1) -DMASK=$(call stem,2) \
		-DCACHE=fa2_$(call stem,3) -c $< -o $@
$(fi_dir)/pod_kernels_%.o: kernels/adapters/flashinfer/pod_kernels.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fi_flags) -DTILE=$* -c $< -o $@
$(fi_dir)/xqa_kernels_%.o: kernels/adapters/flashinfer/xqa_kernels.cu
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(fi_flags) $(fi_xqa_flags) -DTOKENS_PER_PAGE=$(call stem,1) -DHEAD_GRP_SIZE=$(call stem,2) \
		-DXQA_MATH=$(call stem,3) -DCACHE_ELEM_ENUM=$(if $(filter bf16,$(call stem,3)),0,2) -c $< -o $@
endif

# ---- vLLM's CPU attention: VLLM=FOLDER, which has csrc/cpu ----------------------------------------

.PHONY: adapter-vllm-cpu
adapter-vllm-cpu: $(B)/adapters/vllm_cpu.so ## vLLM's CPU attention as a plug-in: VLLM=FOLDER
ifneq ($(filter adapter-vllm-cpu,$(MAKECMDGOALS)),)
vc_dir   := $(B)/adapters/vllm_cpu
vc_needs := attune: make adapter-vllm-cpu needs
$(if $(wildcard $(VLLM)/csrc/cpu/cpu_attn_vec16.hpp),,$(error $(vc_needs) \
	VLLM=FOLDER, which has csrc/cpu/cpu_attn_vec16.hpp$(if $(VLLM),: $(VLLM) has not)))
vllm_cpu_version := $(or $(call revision_of,$(VLLM),csrc/cpu),$(shell sed -n 's/^Version: //p' '$(VLLM)/PKG-INFO' 2>&-))
$(if $(vllm_cpu_version),,$(error $(vc_needs) REVISION=, the name of this version: $(VLLM) is no git checkout))
vllm_cpu_version += $(shell $(CXX) -dumpfullversion | sed 's/^/gcc /')
# Headers of PyTorch and SLEEF that vLLM includes; vllm_cpu/torch.h has what it uses of them.
vc_empty := $(addprefix $(vc_dir)/include/,torch/all.h ATen/cpu/Utils.h c10/util/Exception.h sleef.h)
vc_objs  := $(addprefix $(vc_dir)/,openmp.o vllm_cpu.o kernels_f32.o kernels_f16.o kernels_bf16.o)
# The flags of vLLM's build for AVX-512.
vc_flags = -std=c++20 -O2 -DNDEBUG -fopenmp -DVLLM_CPU_EXTENSION -mf16c $(addprefix -mavx512,f vl bw dq) \
	-fPIC -fvisibility=hidden -MMD -MP -MF $(@:.o=.d) -Ikernels -I$(vc_dir)/include \
	-include kernels/adapters/vllm_cpu/torch.h -isystem '$(VLLM)/csrc' -DVERSION='"$(strip $(vllm_cpu_version))"'
vc_types_f32  := -DSCALAR=float -DDTYPE=ATTUNE_F32
vc_types_f16  := -DSCALAR=c10::Half -DDTYPE=ATTUNE_F16
vc_types_bf16 := -DSCALAR=c10::BFloat16 -DDTYPE=ATTUNE_BF16

# openmp.o stands in for GCC's runtime, so -fopenmp is not given here.
$(B)/adapters/vllm_cpu.so: $(vc_objs)
	$(call say,LD,$@)
	$(Q)$(CXX) -shared -static-libstdc++ -static-libgcc -Wl,--exclude-libs=ALL,-z,defs,--strip-all $^ -o $@
$(vc_objs): $(vc_dir)/version $(vc_empty)
$(vc_empty):
	@mkdir -p $(@D)
	@: >$@
$(vc_dir)/openmp.o: kernels/adapters/openmp.c
	$(call say,CC,$@)
	$(Q)$(CC) -iquote kernels $(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(vc_dir)/vllm_cpu.o: kernels/adapters/vllm_cpu/vllm_cpu.cpp
	$(call say,CXX,$@)
	$(Q)$(CXX) $(vc_flags) -c $< -o $@
$(vc_dir)/kernels_%.o: kernels/adapters/vllm_cpu/vllm_cpu_kernels.cpp
	$(call say,CXX,$@)
	$(Q)$(CXX) $(vc_flags) $(vc_types_$*) -DLIST=vllm_kernels_$* -c $< -o $@
endif

# ---- llama.cpp's attention on the CPU: LLAMA=FOLDER, where llama.cpp is installed ------------------

.PHONY: adapter-llama-cpp
adapter-llama-cpp: $(B)/adapters/llama_cpp.so ## llama.cpp's CPU attention as a plug-in: LLAMA=FOLDER
ifneq ($(filter adapter-llama-cpp,$(MAKECMDGOALS)),)
llama_dir   := $(B)/adapters/llama_cpp
llama_needs := attune: make adapter-llama-cpp needs
llama_lib   := $(abspath $(dir $(firstword $(wildcard $(LLAMA)/lib/libggml-cpu.so $(LLAMA)/lib64/libggml-cpu.so))))
$(if $(wildcard $(LLAMA)/include/ggml-cpu.h),$(if $(llama_lib),,$(error $(llama_needs) \
	LLAMA=FOLDER: $(LLAMA) has no lib/libggml-cpu.so)),$(error $(llama_needs) \
	LLAMA=FOLDER, where llama.cpp is installed$(if $(LLAMA),: $(LLAMA) has no include/ggml-cpu.h)))
# Two builds of one release differ, so the library's contents count.
llama_cpp_version := $(or $(REVISION),ggml $(shell sed -n 's/^set(PACKAGE_VERSION "\([^$$]*\)")/\1/p' \
	'$(llama_lib)/cmake/ggml/ggml-config-version.cmake') \
	$(shell cat '$(llama_lib)/libggml-cpu.so' '$(llama_lib)/libggml-base.so' | sha256sum | cut -c1-12))

llama_objs  := $(addprefix $(llama_dir)/,llama_cpp.o openmp.o)
$(llama_objs): $(llama_dir)/version
$(llama_dir)/%.o: kernels/adapters/%.c
	$(call say,CC,$@)
	$(Q)$(CC) -iquote kernels -isystem '$(LLAMA)/include' -D_GNU_SOURCE $(CFLAGS) -fvisibility=hidden \
		-DVERSION='"$(strip $(llama_cpp_version))"' -MMD -MP -c $< -o $@
# The library finds openmp.o's functions in front of those of its own runtime.
$(B)/adapters/llama_cpp.so: $(llama_objs)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $^ -L'$(llama_lib)' -Wl,-rpath,'$(llama_lib)',--no-as-needed -lggml-cpu -lggml-base -lm -o $@
endif
