"""A tiny random hybrid language model, built offline: linear and full attention, experts."""

import torch
from torch import nn


def tiny_hybrid(seed: int = 0) -> nn.Module:
    """A Qwen3-Next of 8 layers and width 64 with random weights, in eval mode, float32."""
    import transformers  # takes seconds: only when a model is really built

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.manual_seed(seed)
    config = transformers.Qwen3NextConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    )
    built = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model: nn.Module = built.eval()
    return model


def prompt(length: int, vocabulary: int = 512, seed: int = 0) -> torch.Tensor:
    """Random token ids, int64 [1, length]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (1, length), generator=generator)


def flip_one_bit(cache: object) -> None:
    """Flips the lowest bit of one cached key: layer 3, token 24, head 0, element 0."""
    layers = getattr(cache, "layers")  # noqa: B009 - any cache of transformers, whatever its class
    bits = layers[3].keys[0, 0, 24].view(torch.int32)
    bits[0] ^= 1
