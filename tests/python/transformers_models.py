# SPDX-License-Identifier: Apache-2.0
"""transformers_models.py - small models with random weights, and the tokens that they generate."""

import copy

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GenerationConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.generation.configuration_utils import ContinuousBatchingConfig

VOCABULARY, NEW_TOKENS, PAGE = 512, 12, 16
SIZES = dict(
    vocab_size=VOCABULARY,
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=2048,
    initializer_range=0.2,
    tie_word_embeddings=False,
)
HYBRID = dict(
    SIZES,
    num_hidden_layers=4,
    layer_types=["sliding_attention", "full_attention"] * 2,
    sliding_window=24,
)
GEMMA = dict(HYBRID, query_pre_attn_scalar=64)
MAKERS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_hidden_layers=2)),
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(**SIZES, num_hidden_layers=2)
    ),  # norms of q and k
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**GEMMA, attn_logit_softcapping=20.0)),
    "gemma2 without softcap": lambda: Gemma2ForCausalLM(
        Gemma2Config(**GEMMA, attn_logit_softcapping=None)
    ),
    "gpt-oss": lambda: GptOssForCausalLM(GptOssConfig(**HYBRID, num_local_experts=4)),  # sinks
}


def make(name, dtype=torch.float32, device="cpu"):
    torch.manual_seed(0)
    return MAKERS[name]().to(device, dtype).eval()


def prompts():
    """Of 10 to 155 tokens: some are chunked at 96 tokens a step. The last two begin like the one
    before for more than four pages."""
    some = [[1 + (i * 7 + j * 13) % 500 for j in range(10 + 29 * i)] for i in range(6)]
    return some + [some[5][:70] + [3 + i, 5 + i, 7] for i in range(2)]


def _greedy():
    return GenerationConfig(
        max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=VOCABULARY - 1, pad_token_id=0
    )


def alone(model, attention="eager"):
    """Tokens of each prompt by generate, one prompt at a time."""
    model.set_attn_implementation(attention)
    return [
        model.generate(
            torch.tensor([p], device=model.device),
            attention_mask=torch.ones(1, len(p), dtype=torch.long, device=model.device),
            generation_config=_greedy(),
        )[0, len(p) :].tolist()
        for p in prompts()
    ]


def padded(model, attention):
    """Tokens of each prompt by generate, all prompts as one batch that is padded at the left."""
    model.set_attn_implementation(attention)
    longest = max(map(len, prompts()))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts()], device=model.device)
    return model.generate(ids, attention_mask=(ids != 0).long(), generation_config=_greedy())[
        :, longest:
    ].tolist()


def batched(model, attention, **config):
    """Tokens of each prompt by generate_batch: chunks, decodes, and the prefix shared."""
    model.set_attn_implementation(attention)
    config = dict(num_blocks=64, block_size=PAGE, max_batch_tokens=96) | config
    out = model.generate_batch(
        prompts(),
        generation_config=_greedy(),
        continuous_batching_config=ContinuousBatchingConfig(**config),
    )
    errors = [o.error for o in out.values() if o.error]
    if errors or len(out) != len(prompts()):
        raise RuntimeError(f"{attention}: {len(out)} of {len(prompts())} done: {errors[:1]}")
    return [o.generated_tokens for o in out.values()]


def gap(model, prompt, before, one, other):
    """How far two tokens' logits are apart behind a prompt and tokens, in standard deviations. In fp32
    of the same weights: with 16 bits eager's own rounding changes tokens."""
    exact = copy.deepcopy(model).float()
    exact.set_attn_implementation("eager")
    with torch.no_grad():
        ids = torch.tensor([prompts()[prompt] + before], device=model.device)
        logits = exact(ids).logits[0, -1]
    return (abs(logits[one] - logits[other]) / logits.std()).item()
