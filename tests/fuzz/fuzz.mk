# SPDX-License-Identifier: Apache-2.0
# fuzz.mk - the parsers fed with arbitrary bytes, included by the Makefile.
#
#   tests/fuzz/entries.c + replay.c    -> fuzz_replay: seeds and their mutants, in t_fuzz.sh
#   tests/fuzz/entries.c + libfuzzer.c -> fuzz/fuzz: `make fuzz`, all of it compiled by clang
#   tests/fuzz/t_texts.c + texts*.c    -> t_texts: hostile texts in each column of a database
#   tests/fuzz/t_api.c + api_*.c       -> t_api: random calls of the library; `make fuzz-api`: many

FUZZ_CC   ?= $(firstword $(foreach c,clang $(foreach v,22 21 20 19 18 17 16 15 14,clang-$(v)),$(shell command -v $(c))))
fuzz_flags = -fsanitize=$(1),address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# Make again, with a folder and a compiler of its own. fuzzer-no-link: without a main().
fuzz_make  = env -u LEAVE_OUT STALE=skip $(MAKE) B=$(B)/fuzz SAN= NVCC= HIPCC= LOCAL=no CC='$(FUZZ_CC)' CFLAGS='-O1 -g' \
	sanitize='$(call fuzz_flags,fuzzer-no-link)'
fuzz_needs = attune: make fuzz needs clang with libFuzzer (packages clang and libclang-rt-dev, or FUZZ_CC=clang-19)

$(B)/fuzz_replay: tests/fuzz/entries.c tests/fuzz/texts.c tests/fuzz/texts_base.c tests/fuzz/replay.c $(B)/bare/shipped.o $(B)/inside.a | $(B)/has_tool
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(filter %.c,$^) $(filter %.o,$^) \
		$(filter %.a,$^) -o $@ $(TOOLLIBS) $(LIBS)
$(B)/fuzz: tests/fuzz/entries.c tests/fuzz/texts.c tests/fuzz/texts_base.c tests/fuzz/libfuzzer.c $(B)/bare/shipped.o $(B)/inside.a | $(B)/has_tool
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(call fuzz_flags,fuzzer) $(filter %.c,$^) $(filter %.o,$^) \
		$(filter %.a,$^) -o $@ $(TOOLLIBS) $(LIBS)
$(B)/t_texts: tests/fuzz/texts.c tests/fuzz/texts_base.c tests/fuzz/texts.h
$(B)/t_api: $(wildcard tests/fuzz/api_*.c tests/fuzz/api.h)
