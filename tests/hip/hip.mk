# SPDX-License-Identifier: Apache-2.0
# hip.mk - builds a stand-in for AMD's runtime (tests/hip/stand_in.h), included by the Makefile.
# t_hip*.c and t_amd_tune.sh name it in ATTUNE_HIP_LIBRARY.

hip_objs := $(patsubst %.c,$(B)/%.o,$(wildcard tests/hip/*.c)) $(filter-out %/device.o %/allocations.o,$(simt_objs))

$(B)/hip/libamdhip64.so: $(hip_objs) $(B)/inside.a $(shipped_objs) | $(simt_text)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared $^ -o $@ $(TOOLLIBS) $(LIBS)
$(B)/t_hip $(B)/t_hip_runs $(B)/t_hip_library: | $(B)/hip/libamdhip64.so

# The same calls by NVIDIA's driver: tests/hip_on_cuda.
$(B)/hip_on_cuda/libamdhip64.so: $(patsubst %.c,$(B)/%.o,$(wildcard tests/hip_on_cuda/*.c))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared $^ -o $@ -ldl -lpthread
$(addprefix $(B)/,t_hip_on_cuda t_hip_on_cuda_runs t_hip_on_cuda_kernels): | $(B)/hip_on_cuda/libamdhip64.so
