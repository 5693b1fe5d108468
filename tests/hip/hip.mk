# hip.mk - a stand-in for AMD's runtime, included by the Makefile; tests/hip/stand_in.h says
# what it does. t_hip and t_hip_runs name it in ATTUNE_HIP_LIBRARY.

$(B)/hip/libamdhip64.so: $(patsubst %.c,$(B)/%.o,$(wildcard tests/hip/*.c))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared $^ -o $@
$(B)/t_hip $(B)/t_hip_runs: | $(B)/hip/libamdhip64.so
