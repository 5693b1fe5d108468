# SPDX-License-Identifier: Apache-2.0
# campaign.mk - the crash campaign, included by the Makefile. t_campaign.sh runs a short one.

$(B)/campaign/fault.so: tests/campaign/fault.c | $(B)/has_test
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(filter-out -fsanitize%,$(CPPFLAGS) $(CFLAGS)) $(LDFLAGS) -shared $< -o $@ -ldl

campaign: ## kills and disturbs every command, KILLS=100 SEED=1: nothing may be lost
	$(Q)LOCAL=no STALE=skip $(MAKE) $(B)/attune $(B)/campaign/fault.so $(B)/hip/libamdhip64.so
	$(Q)B=$(B) sh tests/campaign/campaign.sh
