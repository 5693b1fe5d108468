# adapters.mk - kernels of other projects as plug-ins, included by the Makefile. README.md in this
# folder says how to make and race each.
#
#   kernels/adapters/NAME.c + a package that the user has installed -> build/adapters/NAME.so
#
# Nothing is downloaded, nothing of theirs is kept here, and no checkout of their sources is built.
# Each adapter has one block: its target, and rules that exist only where it is asked for.

# Objects depend on this file, so that another version, NAME_version, is compiled anew.
$(B)/adapters/%/version: FORCE
	@mkdir -p $(@D)
	@echo '$($*_version)' >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
FORCE:
.PHONY: FORCE

# ---- vLLM's Triton attention: an installed vLLM, and a PYTHON that has Triton ---------------------------------------------------

# QUERY_HEADS/KV_HEADS/PAGE_SIZE, by default of Llama 3.1 8B and 70B and of Qwen3 14B, 30B and 235B
# in scenarios/h200.json; with /e4m3 over such a cache, by default the ones of scenarios/fp8_h200.json
VLLM_SHAPES ?= $(patsubst %,32/8/%,16 32 48 64 128) \
	$(patsubst %,%/16,16/4 8/2 4/1 64/8 32/4 16/2 8/1 40/8 32/2 16/1) \
	$(patsubst %,%/16/e4m3,32/8 16/2 24/8)
PYTHON ?= python3
.PHONY: adapter-vllm-triton
adapter-vllm-triton: $(B)/adapters/vllm_triton.so ## vLLM's Triton attention as a plug-in: VLLM=SITE_PACKAGES [PYTHON=python3]
ifneq ($(filter adapter-vllm-triton,$(MAKECMDGOALS)),)
vllm_dir := $(B)/adapters/vllm_triton
vllm_ops := $(VLLM)/vllm/v1/attention/ops
vllm_needs := attune: make adapter-vllm-triton needs VLLM=FOLDER, the site-packages of an installed vLLM
$(if $(VLLM),,$(error $(vllm_needs)))
$(if $(wildcard $(VLLM)/vllm*.dist-info),,$(error $(vllm_needs): $(VLLM) has no vllm*.dist-info, so none is installed there))
$(if $(wildcard $(VLLM)/.git),$(error $(vllm_needs): $(VLLM) is a git checkout))
$(if $(wildcard $(vllm_ops)/triton_unified_attention.py),,$(error $(vllm_needs), 0.25 or later: $(VLLM) has no \
	vllm/v1/attention/ops/triton_unified_attention.py))
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
