# SPDX-License-Identifier: Apache-2.0
"""vLLM's attention by libattune. Where both are installed, vLLM finds it by itself:

    vllm serve MODEL --attention-backend ATTUNE          # all batches
    vllm serve MODEL --attention-backend ATTUNE_DECODE   # batches of decodes; others as FLASH_ATTN

The entry point vllm.general_plugins calls register() in each of vLLM's processes."""

BACKENDS = {
    "ATTUNE": "libattune.vllm_backend.AttuneBackend",
    "ATTUNE_DECODE": "libattune.vllm_backend.AttuneDecodeBackend",
}


def register():
    """Makes the backends known to vLLM; again is no harm."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    for name, path in BACKENDS.items():
        if name not in AttentionBackendEnum.__members__:
            register_backend(name, path)
