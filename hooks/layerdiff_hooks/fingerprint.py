"""The header of a dump: which model, which weights, on what, with which switches."""

import hashlib
import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import torch
from torch import nn
from xxhash import xxh3_64

from layerdiff_hooks.sites import ModelMap

Weights = Literal["auto", "full", "sampled", "off"]

_AUTO_BYTES = 2 << 30
"""Above this many bytes of parameters, ``auto`` samples instead of reading them all."""
_SAMPLE_BYTES = 1 << 16
_LIBRARIES = ("torch", "transformers", "accelerate", "numpy", "layerdiff")
_VOLATILE = ("_name_or_path", "transformers_version", "_attn_implementation", "use_cache", "dtype")
"""Parts of a configuration that do not change which function the model computes."""
_ENVIRONMENT = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)


def describe(model: nn.Module, sites: ModelMap, *, weights: Weights) -> dict[str, object]:
    """Facts about a model and the machine, as JSON values."""
    config = _config(model)
    parameters = list(model.parameters())
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": "transformers" if config else "torch",
        "model": {
            "class": type(model).__qualname__,
            "architecture": _digest_config(model, config),
            **({} if weights == "off" else {"weights": digest_weights(model, weights)}),
            "parameters": sum(parameter.numel() for parameter in parameters),
            "dtype": ", ".join(sorted({_word(parameter.dtype) for parameter in parameters})),
            "adapter": ", ".join(_adapters(model)),
            "training": model.training,
        },
        "layers": [
            {"index": layer.index, "name": layer.name, "kind": layer.kind}
            for layer in sites.layers
        ],
        "device": ", ".join(sorted({str(parameter.device) for parameter in parameters})),
        "versions": {name: found for name in _LIBRARIES if (found := _version(name))},
        "python": platform.python_version(),
        "machine": {"system": platform.system(), "machine": platform.machine()},
        "switches": _switches(model),
        "environment": {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",
    }


def digest_weights(model: nn.Module, weights: Weights) -> str:
    """How much of the parameters and buffers was read, and the digest of that."""
    tensors = list(model.named_parameters()) + list(model.named_buffers())
    total = sum(tensor.numel() * tensor.element_size() for _, tensor in tensors)
    full = weights == "full" or (weights == "auto" and total <= _AUTO_BYTES)
    state = xxh3_64()
    for name, tensor in tensors:
        state.update(f"{name}:{_word(tensor.dtype)}:{tuple(tensor.shape)}".encode())
        if tensor.device.type == "meta":
            continue
        for piece in _pieces(tensor.detach(), full=full):
            state.update(piece.contiguous().view(torch.uint8).cpu().numpy().data)
    return f"{'full' if full else 'sampled'}:{state.hexdigest()}"


def _pieces(tensor: torch.Tensor, *, full: bool) -> list[torch.Tensor]:
    flat = tensor.contiguous().flatten() if full else tensor.flatten()
    count = max(1, _SAMPLE_BYTES // tensor.element_size())
    if full or flat.numel() <= 3 * count:
        return [flat]
    middle = flat.numel() // 2
    return [flat[:count], flat[middle : middle + count], flat[-count:]]


def _config(model: nn.Module) -> dict[str, Any] | None:
    to_dict = getattr(getattr(model, "config", None), "to_dict", None)
    found = to_dict() if callable(to_dict) else None
    return found if isinstance(found, dict) else None


def _digest_config(model: nn.Module, config: dict[str, Any] | None) -> str:
    """What makes two models the same architecture: the configuration, or the parameters' names."""
    facts: object
    if config is not None:
        facts = {key: value for key, value in config.items() if key not in _VOLATILE}
    else:
        facts = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    text = json.dumps([type(model).__qualname__, facts], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _adapters(model: nn.Module) -> list[str]:
    active = getattr(model, "active_adapters", None)
    try:
        found = active() if callable(active) else active
    except (AttributeError, ImportError, ValueError):
        return []
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _switches(model: nn.Module) -> dict[str, object]:
    """What may change bits without changing the model."""
    config = getattr(model, "config", None)
    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "attention": getattr(config, "_attn_implementation", None),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "mkldnn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
