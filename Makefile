# SPDX-License-Identifier: Apache-2.0
# attune - settings, then what is built from what, then the targets of `make help`.

# Settings come from the command line: other programs, too, use names such as GPU, MODEL and B in
# the environment. Only a make that attune's own make runs takes them from there.
settings := GPU PRESET BUDGET MODEL SCENARIOS STEPS TRACE TRACE_OPTIONS ANYWAY COMPILE_ONLY DRY_RUN UNDO FILL CHECK RESULTS \
	GENERATED PREFIX LIBDIR INCLUDEDIR EMULATOR PLUGIN LEAVE_OUT LOCAL STALE AMD B SAN V N PART PYTHON TORCH
ifeq ($(ATTUNE_MAKE),)
$(foreach v,$(settings),$(if $(filter environment,$(origin $(v))),$(eval undefine $(v))))
endif
export ATTUNE_MAKE := 1

GPU       ?=# e.g. h200, cpu; empty: the machine's own
PRESET    ?= quick
BUDGET    ?=# e.g. 10m; empty: the preset's
MODEL     ?=# e.g. llama3.1-8b@1; empty: all
SCENARIOS ?=# a JSON file; empty: the GPU's own
STEPS     ?=# steps that libattune.capture wrote, to tune for that traffic too
TRACE     ?=# a CSV of requests, to tune for that traffic too
TRACE_OPTIONS ?=# of attune scenarios --trace: your engine's, say --max-batched-tokens 2048
ANYWAY    ?=# 1: measure although other programs use the machine
COMPILE_ONLY ?=# 1: compile what would be raced on GPU, which need not be here; say what it takes
RESULTS   ?= results
GENERATED ?= generated
PREFIX    ?= /usr/local
LIBDIR    ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
CUDA_HOME ?= /usr/local/cuda
PLUGIN    ?=# a folder with kernels of your own: NAME.def with NAME.cu or NAME.c, kernels/PLUGINS.md
LEAVE_OUT ?=# what is compiled and not linked, see kernels/ship/shipped.mk
TORCH     ?=# 1: installs torch into build/torch by pip, for the tests of the Python package
PART      ?=# 2/3: the second of three parts of the tests, for machines that limit a command's time
# SAN=1 checks addresses and undefined behaviour, V=1 shows whole commands.
B         ?= build$(if $(SAN),/san)
CFLAGS    ?= $(if $(SAN),-O1,-O2) -g -pipe
ifeq ($(origin NVCC),undefined) # NVCC= builds without the GPU's binaries
NVCC := $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc))
endif
# Binaries for AMD's GPUs: where one is here, GPU= names one, AMD=1 or HIPCC= asks for them. A
# compiler alone changes nothing. make test sets AMD=1 for what it builds.
AMD       ?=# 1: by the compiler that is found; HIPCC=... names one
ifeq ($(origin HIPCC),undefined)
HIPCC := $(if $(AMD)$(filter mi%,$(GPU))$(wildcard /dev/kfd),$(firstword \
	$(wildcard $(or $(ROCM_PATH),/opt/rocm)/llvm/bin/clang) \
	$(foreach c,clang-22 clang-21 clang-20 clang-19 hipcc,$(shell command -v $(c)))))
endif

comma    := ,
empty    :=
blank    := $(empty) $(empty)
quoted    = '$(subst ','\'',$(1))'# for a shell
# Make splits a name at a blank, and a shell reads other signs.
$(foreach v,B RESULTS GENERATED PLUGIN,$(if $(shell printf %s $(call quoted,$($(v))) | tr -d 'a-zA-Z0-9_./+@,:=~-'),\
	$(error attune: $(v)=$($(v)): the name of this folder may have letters, digits and _./+@,:=~- only)))
# Libraries in a prefix: CPATH and LIBRARY_PATH are the compiler's; of those that pkg-config finds there
# what is built here finds the folders when it runs.
ifneq ($(PKG_CONFIG_PATH),)
prefix_flags := $(shell for p in sqlite3 jansson libxxhash cmocka; do \
	pkg-config --exists $$p && pkg-config --cflags-only-I --libs-only-L $$p; done 2>/dev/null)
endif
override CPPFLAGS += $(sort $(filter -I%,$(prefix_flags)))
override LDFLAGS  += $(foreach f,$(sort $(filter -L%,$(prefix_flags))),$(f) $(f:-L%=-Wl,-rpath,%))

WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
# Equal sources give equal binaries, whatever their folder.
no_folder := -ffile-prefix-map=$(call quoted,$(CURDIR))=.
sanitize := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
# Rules of this machine are in $(GENERATED)/local, before those of the project; LOCAL=no leaves them out.
LOCAL     ?= yes
override CPPFLAGS += -iquote . -iquote kernels -iquote $(GENERATED) -I$(B) -D_GNU_SOURCE -MMD -MP
override CFLAGS   += -std=c11 -fPIC -ffunction-sections -fdata-sections $(no_folder) $(WARN) $(sanitize)
# Leaves out of the library what no function of its headers needs.
used_only := $(if $(SAN),,-Wl,--gc-sections)
# What the compiler compiles for: the size of a pointer, and the machine. attune is for 64-bit machines.
target   := $(shell echo __SIZEOF_POINTER__ __x86_64__ __aarch64__ | $(CC) $(filter -m%,$(CPPFLAGS) $(CFLAGS)) -E -P -x c - 2>/dev/null)
machine  := $(if $(filter 1,$(word 2,$(target))),x86_64,$(if $(filter 1,$(word 3,$(target))),aarch64,other))
# Where that is not this machine, HOSTCC compiles what runs while building.
HOSTCC   ?= $(if $(filter-out other $(shell uname -m),$(machine)),cc)
binutil   = $(shell $(CC) -print-prog-name=$(1))
ifeq ($(origin AR),default)
AR       := $(call binutil,ar)
endif
NM       ?= $(call binutil,nm)
OBJCOPY  ?= $(call binutil,objcopy)
$(if $(filter 4,$(firstword $(target))),$(error attune: $(CC) $(filter -m%,$(CPPFLAGS) $(CFLAGS)) makes code for a 32-bit machine; attune needs a 64-bit one))
LIBS     := -lpthread -ldl -lm
TOOLLIBS := -lsqlite3 -ljansson -lxxhash
version  := $(foreach part,MAJOR MINOR PATCH,$(shell sed -n 's/^.define ATTUNE_VERSION_$(part) //p' kernels/attune.h))
soname   := libattune.so.$(firstword $(version))

deps    = CC='$(CC)' CXX='$(CXX)' CPPFLAGS='$(filter -I/%,$(CPPFLAGS))' sh harness/commands/deps.sh
Q      := $(if $(V),,@)
say     = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif
MAKEFLAGS += -r --no-print-directory
.DELETE_ON_ERROR:

# Targets that work before anything can be built, or call make again.
passive_goals := help campaign mutants clean format fuzz fuzz-api deps deps-tune deps-test test test-quick tune confirm heuristics heuristics-check plot tables tables-check bench bench-tools bench-threads bench-plans install uninstall deb wheel

defs    := $(wildcard kernels/cpu/*.def kernels/gpu/*/*.def)
spaces  := $(defs:kernels/%.def=$(B)/space/%.o)
plugins := $(patsubst %.def,%,$(if $(PLUGIN),$(wildcard $(abspath $(PLUGIN))/*.def)))
$(if $(PLUGIN),$(if $(plugins),,$(error PLUGIN=$(PLUGIN): has no NAME.def)))
$(foreach p,$(plugins),$(if $(wildcard $(p).cu $(p).c),,$(error $(p).def: has no $(notdir $(p)).cu or .c beside it)))
$(foreach p,$(notdir $(plugins)),$(if $(shell echo '$(p)' | grep -x '[a-z][a-z0-9_]*'),,$(error $(p).def: a kernel's name has lower-case letters, digits and _)))
$(foreach p,$(notdir $(plugins)),$(if $(filter $(p),$(notdir $(basename $(defs)))),$(error $(p): attune has a kernel of this name)))
where    = $(if $(wildcard $(1).cu),gpu,cpu)
spaces  += $(foreach p,$(plugins),$(B)/space/plugin/$(call where,$(p))_$(notdir $(p)).o)
libobj  := $(patsubst %.c,$(B)/%.o,$(filter-out kernels/cpu/% \
	kernels/spec/space.c kernels/ship/list_%.c kernels/select/list_%.c,$(sort $(wildcard kernels/*/*.c kernels/*/*/*.c)))) $(spaces)
toolobj := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard harness/*/*.c tuner/*.c tuner/*/*.c)))
sources := $(sort $(wildcard tests/*/t_*.c))
tests   := $(patsubst %.c,$(B)/%,$(notdir $(sources)))
scripts := $(sort $(wildcard tests/*/t_*.sh))
vpath t_%.c $(sort $(dir $(sources)))

all: $(B)/has_tool $(B)/attune lib ## the tool and the library (default)
lib: $(B)/libattune.a $(B)/libattune.so ## the library alone

include kernels/ship/shipped.mk
include tests/simt/simt.mk
include tests/cdna/cdna.mk
include tests/hip/hip.mk
include tests/fuzz/fuzz.mk
include tests/sanitizers/sanitizers.mk
include tests/campaign/campaign.mk
include tests/mutate/mutate.mk
include tuner/package/package.mk

# What is inside is for the tool and the tests; what leaves has the names of its headers and no others.
# Tests link it as a shared object, beside their own table of binaries (ship/shipped.o): what a test defines
# stands in for what is inside.
insideobj := $(libobj) $(filter-out $(B)/tuner/main.o,$(toolobj))
$(B)/inside.a: $(insideobj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsT $@ $^
$(B)/libinside.so: $(filter-out %/ship/shipped.o,$(insideobj)) $(shipped_objs) $(B)/shipped.inc
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) $(filter %.o,$^) -o $@ $(TOOLLIBS) $(LIBS)
exported = sed -n 's/^[a-z].*[ *]\(attune_[a-z_]*\)(.*/\1/p'
$(B)/exports: kernels/attune.h kernels/attune_settle.h
	@mkdir -p $(@D)
	$(Q)$(exported) $^ >$@
# Programs ask for their functions by this node, so it keeps its name in later versions.
$(B)/exports.map: $(B)/exports Makefile
	$(Q){ echo 'LIBATTUNE_0.2 { global:'; sed 's/$$/;/' $<; echo 'local: *; };'; } >$@
# The archive has two objects, so that a program which settles nothing links no code of attune_settle.h.
# What that calls in the other object has __attune_ before its name.
settleobj := $(filter $(B)/kernels/settle/%,$(libobj))
names      = awk '{ print $$NF }' | LC_ALL=C sort -u
$(B)/libattune_settle.o: $(settleobj) $(B)/exports
	$(Q)$(CC) -r -nostdlib $(used_only) $$($(exported) kernels/attune_settle.h | sed 's/^/-Wl,-u,/') $(settleobj) -o $@
$(B)/called_inside: $(B)/libattune_settle.o $(libobj)
	$(Q)$(NM) -g --defined-only $(filter-out $< $(settleobj),$^) | $(names) >$@.has
	$(Q)$(NM) -u $< | $(names) | LC_ALL=C comm -12 - $@.has | grep -vxFf $(B)/exports >$@
$(B)/libattune.a: $(libobj) $(shipped_objs) $(B)/called_inside $(B)/exports
	$(call say,AR,$@)
	$(Q)$(CC) -r -nostdlib $(used_only) $$($(exported) kernels/attune.h | sed 's/^/-Wl,-u,/' - $(B)/called_inside) \
		$(filter-out $(settleobj),$(filter %.o,$^)) -o $(B)/libattune.o
	$(Q)cat $(B)/exports $(B)/called_inside >$@.keep
	$(Q)sed 's/.*/& __attune_&/' $(B)/called_inside >$@.rename
	$(Q)for o in libattune libattune_settle; do $(OBJCOPY) --keep-global-symbols=$@.keep $(B)/$$o.o $(B)/$$o.named.o && \
		$(OBJCOPY) --redefine-syms=$@.rename $(B)/$$o.named.o || exit; done
	$(Q)rm -f $@ && $(AR) rcsD $@ $(B)/libattune.named.o $(B)/libattune_settle.named.o
$(B)/libattune.so: $(libobj) $(shipped_objs) $(B)/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared $(used_only) -Wl,-soname,$(soname) -Wl,--version-script=$(B)/exports.map \
		$(filter %.o,$^) -o $@ $(LIBS)
$(B)/attune: $(B)/tuner/main.o $(B)/inside.a $(shipped_objs)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(TOOLLIBS) $(LIBS)
# The tool without shipped binaries, for what measures: the library is linked when its rules are
# known.
bare := $(B)/bare/attune
$(B)/bare/shipped.o: kernels/ship/shipped.c | $(B)/has_library
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DNOTHING_SHIPPED -c $< -o $@
$(bare): $(B)/tuner/main.o $(B)/bare/shipped.o $(B)/inside.a | $(B)/has_tool
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(TOOLLIBS) $(LIBS)
# Kernels made for the host find the emulated GPU in the program that loads them.
$(B)/t_%: t_%.c $(B)/cdna.a $(B)/simt.a $(B)/libinside.so $(B)/kernels/ship/shipped.o | $(B)/has_test $(simt_text)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -rdynamic -Wl,-rpath,'$$ORIGIN' $(filter %.c,$^) \
		$(or $(filter %/simt/shipped.o,$^),$(filter %/shipped.o,$^)) $(filter %.a %.so,$^) -o $@ -lcmocka $(TOOLLIBS) $(LIBS)
$(B)/t_cliffs: tests/costmodel/estimates.c tests/costmodel/estimates_fit.c

$(B)/space/%.o: kernels/%.def kernels/spec/space.c | $(B)/has_library
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DSPACE='"$*.def"' -DNAME=$(firstword $(subst /, ,$*))_$(notdir $*)_space -c kernels/spec/space.c -o $@
define plugins_text
$(foreach p,$(plugins),PLUGIN($(call where,$(p)), $(notdir $(p)), "$(p)$(if $(wildcard $(p).cu),.cu,.c)")
)
endef
$(B)/plugins.inc: FORCE | $(B)/has_library
	$(file >$@.$(aside),$(plugins_text))
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
$(B)/kernels/spec/kernel.o: $(B)/plugins.inc
define plugin_space
$(B)/space/plugin/$(call where,$(1))_$(notdir $(1)).o: $(1).def kernels/spec/space.c | $(B)/has_library
	@mkdir -p $$(@D)
	$$(call say,CC,$$<)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) -DSPACE='"$(1).def"' -DNAME=$(call where,$(1))_$(notdir $(1))_space -c kernels/spec/space.c -o $$@
endef
$(foreach p,$(plugins),$(eval $(call plugin_space,$(p))))
# torch's errors are C++ exceptions, which pass through it.
$(B)/kernels/api/torch_register.o: override CFLAGS += -fexceptions
$(B)/kernels/%.o: kernels/%.c | $(B)/has_library
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(B)/%.o: %.c | $(B)/has_tool
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(filter $(B)/harness/store/%,$(toolobj)): $(wildcard harness/store/*.sql) # inside them
# The hash of all sources goes into one object, so that a change compiles no other for it.
$(B)/built_from.inc: FORCE $(B)/sources_hash
	$(Q)$(B)/sources_hash >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
$(B)/harness/base/built_from.o: $(B)/built_from.inc
$(B)/harness/peers/python.o: harness/peers/host.py
$(patsubst %.sql,$(B)/%.o,$(wildcard tuner/*/*.sql)): $(B)/%.o: %.sql
# The way to the sources from the tool's folder.
$(B)/source_tree.inc: FORCE
	@mkdir -p $(@D)
	@echo '"'$$(realpath --relative-to=$(B) .)'"' >$@.$(aside)
	@cmp -s $@.$(aside) $@ && rm $@.$(aside) || mv $@.$(aside) $@
$(B)/harness/base/data_files.o: $(B)/source_tree.inc
# The machine's ceilings are measured by code as fast as the kernels', which SAN=1 leaves alone.
$(B)/harness/ceilings/cpu_ceilings.o: override CFLAGS := -O2 -g -std=c11 -fPIC $(no_folder) $(WARN)
$(addprefix $(B)/has_,library tool test):
	@mkdir -p $(@D)
	@$(deps) check $(@F:has_%=%)
	@touch $@
# Objects from before 27 November 2026 depend on files that have moved or are gone.
$(if $(filter clean help,$(MAKECMDGOALS)),,$(if $(wildcard $(B)/harness/talk.o)$(shell grep -sl openmp $(B)/t_plugin_cpu.d),$(error $(B)/ was made by an older attune: make clean)))
-include $(wildcard $(B)/*.d $(B)/*/*.d $(B)/*/*/*.d $(B)/*/*/*/*.d)

# ---- what people ask for ---------------------------------------------------------

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile tuner/package/package.mk tests/campaign/campaign.mk tests/mutate/mutate.mk
	@echo '  with GPU=h200 PRESET=smoke|quick|full BUDGET=10m MODEL=NAME@TP SCENARIOS=FILE STEPS=FILE TRACE=CSV TRACE_OPTIONS='; \
	echo '       PLUGIN=DIR DRY_RUN=1 UNDO=1 ANYWAY=1 COMPILE_ONLY=1 PART=1/3 TORCH=1 PYTHON=python3 PREFIX=DIR LIBDIR=DIR'; \
	echo '       INCLUDEDIR=DIR DESTDIR=DIR STRIP= B=DIR SAN=1 V=1 CC=cc HOSTCC=cc NVCC= HIPCC= AMD=1'

deps: deps-test ## installs what building, tuning, testing and pictures need
	@$(deps) install font >/dev/null 2>&1 || true # nothing stops without it
deps-tune:
	@$(deps) install library tool
	@$(if $(and $(COMPILE_ONLY),$(filter mi%,$(GPU))),$(deps) ask amd)
deps-test:
	@$(deps) install library tool test
	@$(deps) install pictures || true # without them their tests are skipped
	@$(deps) install python || true

# GPU, else the first device that the tool finds; and the GPUs that have results to learn from.
gpu      = gpu=$${GPU:-$$($(or $(wildcard $(B)/attune),$(bare)) devices --format tsv 2>/dev/null | awk 'NR == 2 { print $$2 }')}
measured = $(or $(GPU),$(filter-out %_steady %_peers %_bench,$(patsubst $(RESULTS)/%.sqlite,%,$(wildcard $(RESULTS)/*.sqlite))))
portable = $(if $(GPU),,$(if $(wildcard $(GENERATED)/attune_portable.h),portable))
tool     = STALE=skip $(B)/attune
anyway   = $(if $(ANYWAY),--anyway)
# --NAME VALUE, if the value is not empty: $(call option,NAME,VALUE)
option   = $(if $(2),--$(1) $(call quoted,$(2)))
export GPU

# TRACE= as a set beside the others: its last third is held out. A CPU gets a small engine.
trace_set  = $(RESULTS)/local/trace_$(trace_name).json
trace_name := $(if $(TRACE),$(shell basename -- $(call quoted,$(TRACE)) | sed 's/\.[^.]*$$//; s/[^a-zA-Z0-9._-]/_/g'))
trace_size = small='--max-seqs 8 --max-batched-tokens 512 --kv-tokens 32k --max-request 8k --max-gflop 4'; \
	test "$$gpu" = cpu || small='--max-request 128k --max-gflop 8000'

$(if $(TRACE),$(if $(STEPS),$(error attune: STEPS and TRACE are one traffic each; give one of them)))

# COMPILE_ONLY=1, for a GPU that is not here: what all that would be raced takes of it.
ifneq ($(COMPILE_ONLY),)
tune: deps-tune
	$(Q)STALE=skip $(MAKE) $(bare)
	$(Q)$(bare) sweep --gpu $(call quoted,$(or $(GPU),h200)) --compile-only $(call option,preset,$(PRESET)) \
		--db $(B)/compiled_$(call quoted,$(or $(GPU),h200)).sqlite $(call option,model,$(MODEL)) \
		$(call option,scenarios,$(SCENARIOS))
else
tune: deps-tune ## rules of this machine, in the library where they are faster; UNDO=1 DRY_RUN=1
	@mkdir -p $(B) && date +%s >$(B)/tune_times
	$(Q)STALE=skip $(MAKE) $(bare)
ifneq ($(TRACE),)
	@mkdir -p $(RESULTS)/local
	$(Q)gpu=$${GPU:-$$($(bare) devices --format tsv 2>/dev/null | awk 'NR == 2 { print $$2 }')}; $(trace_size); \
		$(bare) scenarios $$small $(call option,model,$(MODEL)) \
		--hold-out 0.33 $(TRACE_OPTIONS) $(call option,trace,$(TRACE)) >'$(trace_set).new' && \
		mv '$(trace_set).new' '$(trace_set)' || { rm -f '$(trace_set).new'; exit 2; }
endif
	@date +%s >>$(B)/tune_times
	$(Q)$(bare) tune $(call option,preset,$(PRESET)) --results $(RESULTS) --generated $(GENERATED) $(anyway) \
		$(call option,gpu,$(GPU)) $(call option,budget,$(BUDGET)) $(call option,model,$(MODEL)) \
		$(call option,scenarios,$(SCENARIOS)) $(if $(TRACE),--steps '$(trace_set)',$(call option,steps,$(STEPS))) \
		$(if $(DRY_RUN),--dry-run) $(if $(UNDO),--undo)
ifeq ($(DRY_RUN),)
	@date +%s >>$(B)/tune_times
	$(Q)LEAVE_OUT='$(strip $(not_here))' $(MAKE) all
	@set -- $$(cat $(B)/tune_times) $$(date +%s); echo \
		"make tune took $$(($$4 - $$1)) s: building the tool $$(($$2 - $$1)) s, the tune $$(($$3 - $$2)) s, building the library $$(($$4 - $$3)) s"
endif
endif

confirm: ## a second pass over what was picked and its rivals: the times that judge; FILL=--fill
	$(Q)STALE=skip $(MAKE) $(bare)
	$(Q)$(gpu); $(bare) sweep --confirm --gpu $$gpu --db $(RESULTS)/$$gpu.sqlite \
		--header $(GENERATED)/attune_$$gpu.h $(FILL) $(anyway) $(call option,budget,$(BUDGET))

# Binaries for GPUs that are neither here nor named, and for instruction sets that this machine has
# better than, are not linked, but where `make` did so before: t_shipped.sh compiles some of them.
# gfx942 stays, which the stand-in of tests/hip has.
cpu_has     = $(shell grep -swm 1 '$(1)' /proc/cpuinfo)
was_linked  = $(shell grep -sm 1 '"$(1)"' $(B)/shipped.inc)
nvidia_here = $(filter-out cpu mi%,$(GPU))$(wildcard /dev/nvidia[0-9]* /dev/nvhost-gpu /dev/nvgpu /dev/dxg)
amd_here    = $(filter mi%,$(GPU))$(wildcard /dev/kfd /dev/dxg)
other_isas  = $(if $(call cpu_has,avx512vl),avx2 scalar,$(if $(call cpu_has,avx2),avx512 scalar))
not_here    = $(if $(nvidia_here)$(call was_linked,ptx),,nvidia) \
	$(if $(amd_here)$(call was_linked,gfx90a),,gfx90a gfx950) \
	$(if $(call was_linked,scalar),,$(other_isas))
# A minute and more, begun first, so that no CPU is without work at the end.
long = $(filter %/t_committed.sh %/t_shipped.sh %/t_amd_tune.sh %/t_sanitizers.sh,$(scripts)) \
	$(addprefix $(B)/t_,gpu_kernels hip_on_cuda_kernels simt_kernels cpu_kernels cdna amd_compile)
test: export LEAVE_OUT := $(strip $(not_here))
test: export AMD := 1
ifneq ($(TORCH),)
test: export ATTUNE_TEST_PYTHON := $(abspath $(B))/torch/bin/python
test: $(B)/torch/ready
$(B)/torch/ready:
	$(PYTHON) -m venv $(@D) && $(@D)/bin/python -m pip install torch numpy cffi && touch $@
endif
test: deps-test ## builds and runs all that this machine can; GPU=h200 for the GPU's own
	@test -z '$(LEAVE_OUT)' || echo 'linked without $(LEAVE_OUT): not for this machine; `make` links all'
	$(Q)LOCAL=no $(MAKE) all $(tests) $(B)/fuzz_replay $(B)/campaign/fault.so
	$(Q)B=$(B) CC='$(CC)' CXX='$(CXX)' MAKE='$(MAKE)' ATTUNE_TEST_GPU=$(call quoted,$(GPU)) PART=$(call quoted,$(PART)) \
		sh tests/run.sh $(long) $(filter-out $(long),$(scripts) $(tests))

# Programs that take a second or less and need no emulated GPU.
quick_dirs = costmodel harness library measure plugin scenario store sweep tree tune tuner
not_quick  = answers api bridge check confirm damage decode_trees emit eval gpu_replay heuristics invariant \
	languages languages_segments machine_code noisy_sweep race roofline transfer worker worker_failures
quick      = $(filter-out $(addprefix $(B)/t_,$(not_quick)),$(patsubst %.c,$(B)/%,$(notdir \
	$(filter $(foreach d,$(quick_dirs),tests/$(d)/%),$(sources)))))
test-quick: export LEAVE_OUT := $(strip $(not_here))
test-quick: deps-test ## only the quick test programs, in two minutes
	$(Q)LOCAL=no $(MAKE) $(quick)
	$(Q)B=$(B) sh tests/run.sh $(quick)

FUZZ_SECONDS ?= 3600
fuzz: ## libFuzzer on all that parses files, for FUZZ_SECONDS=3600; needs clang
	@echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { return 0 * n * *b; }' | \
		$(or $(FUZZ_CC),false) -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null || \
		{ echo '$(fuzz_needs)' >&2; exit 2; }
	+$(Q)$(fuzz_make) $(B)/fuzz/fuzz
	$(Q)B=$(B) FUZZ_SECONDS=$(FUZZ_SECONDS) sh tests/fuzz/run.sh

fuzz-api: export LEAVE_OUT := $(strip $(not_here))
fuzz-api: ## random calls of the library against the reference, for FUZZ_SECONDS=3600; SAN=1
	$(Q)LOCAL=no $(MAKE) $(B)/t_api
	$(Q)printf '%s\n' cpu h200 mi300x | xargs -I{} -P 3 nice -n 19 $(B)/t_api {} $(FUZZ_SECONDS)

heuristics: ## results/ to generated/, for GPU= or all
	$(Q)$(MAKE) $(tool)
	$(Q)for gpu in $(measured) $(portable); do $(B)/attune induce --gpu $$gpu \
		--db $(RESULTS)/ --out $(GENERATED)/attune_$$gpu.h $(CHECK) || exit; done

heuristics-check: ## fails, with the diff, where `make heuristics` would change something
	$(Q)$(MAKE) heuristics CHECK=--check

# A header that cannot be remade, since its times are of older sources, is drawn with these. A page shows the
# PNG files of results/, which are renewed.
plot: ## results/ to pictures, SVG and PNG, in build/pictures, for GPU= or all; renews those of results/
	$(Q)$(MAKE) $(tool)
	@mkdir -p $(B)/pictures
	$(Q)for gpu in $(measured); do header=$(GENERATED)/attune_$$gpu.h; \
		$(B)/attune plot --gpu $$gpu $$(grep -qs '^ \*   stale ' $$header && echo --stale) \
		--db $(RESULTS)/$$gpu.sqlite --header $$header --out $(B)/pictures || exit; \
		for p in $(RESULTS)/$${gpu}_*.png; do test ! -e $$p || cp $(B)/pictures/$${p##*/} $$p || exit; done; done

# The pages whose tables are queries of results/.
pages := README.md results/README.md results/PEERS.md results/ROWS.md results/SETTLED.md
tables: ## results/ to the tables of the pages
	$(Q)$(MAKE) $(tool)
	$(Q)sh tuner/show/tables.sh $(B)/attune $(CHECK) $(pages)

tables-check: ## fails, with the diff, where `make tables` would change something
	$(Q)$(MAKE) tables CHECK=--check

bench: ## the tuned library beside its baselines, on held-out scenarios
	$(Q)$(MAKE) $(B)/attune
	$(Q)$(gpu); db=$(RESULTS)/local/$$gpu.sqlite; test -e $$db || db=$(RESULTS)/$$gpu.sqlite; \
		$(B)/attune bench --gpu $$gpu --db $$db $(anyway)

bench-tools: ## CPU time and memory of the tools, beside what they took
	$(Q)$(MAKE) $(B)/attune $(B)/bench_tools
	$(Q)$(B)/bench_tools $(B)/attune $(RESULTS)
$(B)/bench_tools: tests/bench_tools.c
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -O2 -std=c11 $(WARN) $< -o $@

bench-threads: ## the library's calls by threads, alone and beside a busy program
	$(Q)$(MAKE) $(B)/bench_threads
	$(Q)$(B)/bench_threads 10000 0 && $(B)/bench_threads 10000 1
$(B)/bench_threads: tests/bench_threads.c $(B)/libattune.a
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) -O2 -std=c11 $(WARN) $(filter %.c %.a,$^) -o $@ $(LIBS)

bench-plans: ## a call of attune_plan_batch, without and with a memory of what was settled
	$(Q)$(MAKE) $(B)/bench_plans
	$(Q)$(B)/bench_plans
$(B)/bench_plans: tests/bench_plans.c $(B)/libattune.a
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) -O2 -std=c11 $(WARN) $(filter %.c %.a,$^) -o $@ $(LIBS)

clean: ## removes what was built
	rm -rf $(B)

format: ## clang-format over all C, tables excepted
	clang-format -i $$(find kernels harness tuner tests -name '*.[ch]' -o -name '*.cu')

.PHONY: all lib help campaign mutants deps deps-tune deps-test tune confirm test test-quick fuzz fuzz-api heuristics heuristics-check plot tables tables-check bench bench-tools bench-threads bench-plans clean format
