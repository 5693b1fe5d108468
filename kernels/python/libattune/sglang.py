# SPDX-License-Identifier: Apache-2.0
"""SGLang's attention by libattune. Where both are installed, SGLang finds it by itself:

    python -m sglang.launch_server --model-path MODEL --attention-backend attune --page-size 16

The entry point sglang.srt.plugins calls register() in each of SGLang's processes."""

NAME = "attune"


def register():
    """Makes the backend known to SGLang; again is no harm."""
    from sglang.srt.arg_groups import choices
    from sglang.srt.layers.attention.attention_registry import (
        ATTENTION_BACKENDS,
        register_attention_backend,
    )

    if NAME not in ATTENTION_BACKENDS:
        register_attention_backend(NAME)(_create)
    if NAME not in choices.ATTENTION_BACKEND_CHOICES:
        choices.add_attention_backend_choices([NAME])


def _create(runner):
    from .sglang_backend import AttuneBackend

    return AttuneBackend(runner)
