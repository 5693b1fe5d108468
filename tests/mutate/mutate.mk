# SPDX-License-Identifier: Apache-2.0
# mutate.mk - changes places of the sources at random and looks which tests notice, included by the
# Makefile. mutate.py says how; tests/MUTANTS.md has what was found.

N       ?= 100
SEED    ?= 1
FIRST   ?= 1
SECONDS ?= 60
mutant_flags = $(filter-out -I$(B) -MMD -MP,$(CPPFLAGS)) -Ibuild -std=c11 -fPIC -O1

mutants: ## changes N=100 places, one at a time, SEED=1: which does no test notice?
	@mkdir -p $(B)/mutants
	$(Q)nice -n 15 python3 tests/mutate/mutate.py --n $(N) --seed $(SEED) --first $(FIRST) \
		--only '$(ONLY)' --also '$(ALSO)' --retry '$(RETRY)' --tests '$(TESTS)' \
		--seconds $(SECONDS) --leave-out 'nvidia gfx90a gfx942 gfx950 $(other_isas)' \
		--home $(B)/mutants -- $(mutant_flags)
