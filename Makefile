# attune - settings on top, pattern rules below. `make help` lists targets.
B       ?= build
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
CPPFLAGS += -iquote kernels -iquote generated -I$(B) -D_GNU_SOURCE -MMD -MP
override CFLAGS += -std=c11 $(WARN)
LIBS    := -lpthreadpool -lpthread -ldl -lm
TOOLLIBS := -lsqlite3 -ljansson -lxxhash

defs    := $(wildcard kernels/*/*.def)
spaces  := $(defs:kernels/%.def=$(B)/space/%.o)
libobj  := $(patsubst %.c,$(B)/%.o,$(filter-out kernels/space.c kernels/shipped.c,$(wildcard kernels/*.c))) $(spaces)
toolobj := $(patsubst %.c,$(B)/%.o,$(wildcard harness/*.c tuner/*.c))
tests   := $(patsubst tests/%.c,$(B)/%,$(wildcard tests/t_*.c))

all: $(B)/attune $(B)/libattune.a
$(B)/libattune.a: $(libobj)
	$(AR) rcs $@ $^
$(B)/attune: $(toolobj) $(B)/libattune.a
	$(CC) $(CFLAGS) $^ -o $@ $(TOOLLIBS) $(LIBS)
$(B)/space/%.o: kernels/%.def kernels/space.c kernels/each.inc kernels/kernel.h kernels/device.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -DSPACE='"$*.def"' -DNAME=$(subst /,_,$*)_space -c kernels/space.c -o $@
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(B)/t_%: tests/t_%.c $(filter-out $(B)/tuner/main.o,$(toolobj)) $(B)/libattune.a
	$(CC) $(CPPFLAGS) $(CFLAGS) $^ -o $@ -lcmocka $(TOOLLIBS) $(LIBS)
-include $(wildcard $(B)/*/*.d $(B)/*/*/*.d $(B)/*.d)
.PHONY: all
