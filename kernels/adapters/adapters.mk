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
