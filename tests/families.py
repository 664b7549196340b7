"""Tiny random models of the families that a recording must understand, built offline.

Every layer matters: weights are scaled so that activations neither die nor blow up.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
import transformers

VOCABULARY: Final = 64
"""Token ids are below this; 0 is the pad."""

_LIBRARY: Final[Any] = transformers
"""Untyped: the library's own hints do not know all of its configurations' names."""
_BASE: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BARE: Final[dict[str, Any]] = {
    name: _BASE[name]
    for name in ("vocab_size", "hidden_size", "pad_token_id", "bos_token_id", "eos_token_id")
}
_DELTA: Final[dict[str, Any]] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
}
_MAMBA: Final[dict[str, Any]] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
}

CONFIGS: Final[dict[str, Callable[[], Any]]] = {
    "llama": lambda: _LIBRARY.LlamaConfig(**_BASE, num_hidden_layers=3),
    "gemma3": lambda: _LIBRARY.Gemma3TextConfig(
        **_BASE,
        num_hidden_layers=6,
        head_dim=16,
        sliding_window=8,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
    ),
    "qwen3_next": lambda: _LIBRARY.Qwen3NextConfig(
        **_BASE,
        **_DELTA,
        num_hidden_layers=4,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    ),
    "qwen3_5": lambda: _LIBRARY.Qwen3_5TextConfig(
        **_BASE, **_DELTA, num_hidden_layers=4, head_dim=16
    ),
    "mamba": lambda: _LIBRARY.MambaConfig(**_BARE, num_hidden_layers=3, state_size=8),
    "mamba2": lambda: _LIBRARY.Mamba2Config(
        **_BARE,
        num_hidden_layers=3,
        state_size=16,
        num_heads=8,
        head_dim=16,
        n_groups=2,
        expand=2,
        chunk_size=16,
    ),
    "jamba": lambda: _LIBRARY.JambaConfig(
        **_BASE,
        num_hidden_layers=4,
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        num_experts_per_tok=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=8,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_dt_rank=8,
        use_mamba_kernels=False,
    ),
    "bamba": lambda: _LIBRARY.BambaConfig(
        **_BASE, **_MAMBA, num_hidden_layers=4, attn_layer_indices=[1, 3]
    ),
    "falcon_h1": lambda: _LIBRARY.FalconH1Config(
        **_BASE, **_MAMBA, num_hidden_layers=3, head_dim=16, mamba_d_ssm=128
    ),
    "zamba2": lambda: _LIBRARY.Zamba2Config(
        **{**_BASE, "num_key_value_heads": 4},
        num_hidden_layers=4,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        hybrid_layer_ids=[1, 3],
        num_mem_blocks=1,
        mamba_d_state=16,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_ngroups=1,
        n_mamba_heads=8,
        mamba_headdim=16,
        chunk_size=16,
        use_mamba_kernels=False,
    ),
    "nemotron_h": lambda: _LIBRARY.NemotronHConfig(
        **_BASE,
        num_hidden_layers=4,
        layers_block_type=["mamba", "attention", "mamba", "mlp"],
        head_dim=16,
        ssm_state_size=16,
        mamba_num_heads=8,
        mamba_head_dim=16,
        n_groups=1,
        conv_kernel=4,
        expand=2,
        chunk_size=16,
        use_mamba_kernels=False,
    ),
    "granitemoehybrid": lambda: _LIBRARY.GraniteMoeHybridConfig(
        **_BASE,
        **_MAMBA,
        num_hidden_layers=4,
        layer_types=["mamba", "attention", "mamba", "attention"],
        num_local_experts=2,
        num_experts_per_tok=1,
        shared_intermediate_size=96,
    ),
    "lfm2": lambda: _LIBRARY.Lfm2Config(
        **_BASE,
        num_hidden_layers=4,
        layer_types=["conv", "conv", "full_attention", "conv"],
        conv_L_cache=3,
    ),
}


def build(family: str, dtype: torch.dtype = torch.float32, *, seed: int = 0) -> Any:
    """A model of *family* in evaluation mode with eager attention."""
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.manual_seed(seed)
    model: Any = transformers.AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        CONFIGS[family](), attn_implementation="eager"
    )
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2 or "A_log" in name:
                continue
            scale = 0.4 if "conv" in name else 1.5 / parameter.shape[-1] ** 0.5
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * scale)
    return model.to(dtype).eval()


def tokens(batch: int, width: int, *, seed: int = 0) -> torch.Tensor:
    """Token ids [batch, width] without pads and special tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (batch, width), generator=generator)
