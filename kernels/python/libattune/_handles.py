# SPDX-License-Identifier: Apache-2.0
"""Closes contexts and ops of the library once no object holds them, a context after its ops.

Python's collector of cycles may finalize a Context before its layers, so what counts is the last
owner. At exit nothing is closed, since threads may still run."""

import weakref

from ._library import C, check, ffi


class Opened:
    """An attune_context. Its Context and each Layer own it."""

    def __init__(self, name):
        made = ffi.new("attune_context **")
        check(C.attune_open(made, name.encode()))
        self.handle = made[0]
        self._owners, self._open = set(), [made[0]]

    def owned_by(self, owner, release=None):
        """Until `owner` is gone; then calls release()."""
        token = object()
        self._owners.add(token)
        weakref.finalize(owner, self._drop, token, release).atexit = False

    def _drop(self, token, release):
        if release:
            release()
        self._owners.discard(token)
        if not self._owners:
            try:  # one thread gets it; no lock, for finalizers come at any time
                handle = self._open.pop()
            except IndexError:
                return
            C.attune_close(handle)
