# adapters.mk - kernels of other projects as plug-ins, included by the Makefile. README.md in this
# folder says how to build and race each.
#
#   kernels/adapters/NAME.cu or .c + the project's sources -> build/adapters/NAME.so
#
# The sources are in a folder of the user's. Nothing is downloaded, nothing of theirs is kept here.
# An adapter has one block: a target adapter-NAME, and rules that exist only where it is asked for.

# What a kernel's version is named after: REVISION=, else that of the checkout $(1), "617264c1
# (2026-08-06)", with "+" where its files $(2) differ from it.
revision_of = $(or $(REVISION),$(shell cd $(1) && git log -1 --abbrev=8 --format='%h (%cs)' 2>/dev/null && \
	{ git diff --quiet HEAD -- $(2) || echo +; }))
.PHONY: adapter-fa3

# vllm_triton: Triton compiles vLLM's file to cubins, which the object carries.
# VLLM_SHAPES: QUERY_HEADS/KV_HEADS/PAGE_SIZE, by default those of Llama 3.1 8B and 70B, of Qwen3 14B,
# 30B and 235B in scenarios/h200.json.
VLLM_SHAPES ?= $(patsubst %,32/8/%,16 32 48 64 128) \
	$(patsubst %,%/16,16/4 8/2 4/1 64/8 32/4 16/2 8/1 40/8 32/2 16/1)
PYTHON ?= python3
.PHONY: adapter-vllm-triton
adapter-vllm-triton: $(B)/adapters/vllm_triton.so
ifneq ($(filter adapter-vllm-triton,$(MAKECMDGOALS)),)
ifeq ($(wildcard $(VLLM)/vllm/v1/attention/ops/triton_unified_attention.py),)
$(error VLLM=$(VLLM): expected a folder with vllm/v1/attention/ops/triton_unified_attention.py)
endif
vllm_triton := kernels/adapters/vllm_triton
asked       := $(VLLM) $(VLLM_SHAPES) $(PYTHON)
# What the cubins depend on besides files: other shapes, another VLLM= or PYTHON= compile again.
$(B)/adapters/vllm_triton/asked: FORCE
	@mkdir -p $(@D)
	@echo '$(asked)' | cmp -s - $@ || echo '$(asked)' >$@
$(B)/adapters/vllm_triton/vllm_triton_table.h: $(vllm_triton).py $(B)/adapters/vllm_triton/asked \
		$(wildcard $(VLLM)/vllm/v1/attention/ops/triton_*attention*.py)
	$(call say,PY,$@)
	$(Q)$(PYTHON) $< $(VLLM) $(@D) $(VLLM_SHAPES)
$(B)/adapters/vllm_triton/cubins.S: $(B)/adapters/vllm_triton/vllm_triton_table.h
	@printf '%s\n' '.section .rodata' '.balign 64' '.hidden attune_vllm_triton_cubins' \
		'.global attune_vllm_triton_cubins' \
		'attune_vllm_triton_cubins: .incbin "$(@D)/vllm_triton.bin"' \
		'.section .note.GNU-stack' >$@
$(B)/adapters/vllm_triton.so: $(vllm_triton).c $(vllm_triton).h kernels/adapters/driver.c \
		kernels/adapters/driver.h kernels/attune_plugin.h kernels/attune.h $(B)/adapters/vllm_triton/cubins.S
	$(call say,CC,$@)
	$(Q)$(CC) -iquote kernels -I$(B)/adapters/vllm_triton -D_GNU_SOURCE $(CFLAGS) -fvisibility=hidden \
		-shared -o $@ $(filter %.c %.S,$^) -ldl -lm
endif
