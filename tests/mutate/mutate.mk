# mutate.mk - changes places of the sources at random and looks which tests notice, included by the
# Makefile. See mutate.py; tests/MUTANTS.md has what was found.

N     ?= 100
SEED  ?= 1
FIRST ?= 1
SECONDS ?= 60

mutants: ## N=100 SEED=1: changes so many places, one at a time, and says which no test notices
	@mkdir -p $(B)/mutants
	$(Q)nice -n 15 python3 tests/mutate/mutate.py --n $(N) --seed $(SEED) --first $(FIRST) --only '$(ONLY)' \
		--also '$(ALSO)' --retry '$(RETRY)' --tests '$(TESTS)' --seconds $(SECONDS) --home $(B)/mutants \
		--leave-out 'nvidia gfx90a gfx942 gfx950 $(other_isas)' -- $(filter-out -I$(B) -MMD -MP,$(CPPFLAGS)) -Ibuild -std=c11 -fPIC -O1
