# SPDX-License-Identifier: Apache-2.0
# package.mk - what make built into a prefix or into Debian's packages, included by the Makefile.
#
# Nothing here compiles: make with the settings of the build may not be what `sudo make install` is called with.
# `make all install` builds first.
STRIP    ?= $(call binutil,strip)# empty: debug information stays
PYTHON   ?= python3
EMULATOR ?=# runs what another machine's compiler made, for the man pages: qemu-aarch64 -L /usr/aarch64-linux-gnu
package   = B=$(B) VERSION=$(subst $(blank),.,$(version)) LIBS='$(LIBS)' STRIP=$(call quoted,$(STRIP)) \
	EMULATOR=$(call quoted,$(EMULATOR)) DESTDIR=$(call quoted,$(DESTDIR)) PREFIX=$(call quoted,$(PREFIX)) \
	LIBDIR=$(call quoted,$(LIBDIR)) INCLUDEDIR=$(call quoted,$(INCLUDEDIR))
install uninstall deb wheel: $(filter all lib,$(MAKECMDGOALS))
install: ## library, headers, tool and what finds them, into PREFIX; LIBDIR= INCLUDEDIR= DESTDIR= STRIP=
	$(Q)$(package) sh tuner/package/install.sh install
uninstall: ## takes out of PREFIX what install put there
	$(Q)$(package) sh tuner/package/install.sh uninstall
deb: ## libattune0, libattune-dev and attune for Debian, in build/deb
	$(Q)$(package) CC='$(CC)' sh tuner/package/deb.sh
wheel: ## the Python package with the library inside, in build/: libattune-VERSION-py3-none-PLATFORM.whl
	$(Q)$(PYTHON) kernels/python/wheel.py $(B)/libattune.so $(B) $(STRIP)
.PHONY: install uninstall deb wheel
