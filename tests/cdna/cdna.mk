# SPDX-License-Identifier: Apache-2.0
# cdna.mk - builds the interpreter of code objects for AMD's GPUs, included by the Makefile.
#
#   tests/cdna/*.c -> cdna.a: uses the memory of simt.a

cdna_objs := $(patsubst %.c,$(B)/%.o,$(wildcard tests/cdna/*.c))

$(B)/tests/cdna/ops.o: tests/cdna/vector.def tests/cdna/scalar.def
$(cdna_objs): override CFLAGS := $(if $(SAN),-O1,-O3) -fno-trapping-math -fno-math-errno \
	-g -std=c11 -fPIC $(WARN) $(sanitize)
$(B)/cdna.a: $(cdna_objs)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
