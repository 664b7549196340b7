"""Which module of a model is which site, found by structure and not by model family."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

Named = tuple[str, nn.Module]


@dataclass(frozen=True, slots=True)
class Part:
    """A mixer, or an MLP or MoE block, inside a decoder layer."""

    name: str
    module: nn.Module
    container: str
    """The block between the layer and this part, where there is one: parts of one container run
    side by side, those of different containers one after the other."""
    is_mixer: bool
    has_kv: bool = False
    has_state: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    index: int
    name: str
    module: nn.Module
    kind: str
    parts: tuple[Part, ...]

    @property
    def has_mixer(self) -> bool:
        """Whether any part is known to move values between positions."""
        return any(part.is_mixer for part in self.parts)


@dataclass(frozen=True, slots=True)
class ModelMap:
    """The modules of one model that are sites."""

    root: nn.Module
    stack: nn.Module
    """The module whose child the list of layers is; a pass may begin here too."""
    embedding: Named | None
    layers: tuple[Layer, ...]
    norms: tuple[Named, ...]
    """Norms beside the layers; the one that runs after the last layer is a site."""
    head: Named | None


def map_model(model: nn.Module) -> ModelMap | None:
    """The sites of *model*, or None when it has no list of layers."""
    names = {id(module): name for name, module in model.named_modules()}
    listing = _layer_list(model)
    if listing is None:
        return None
    path, modules = listing
    if path:
        parent = model.get_submodule(path.rpartition(".")[0])
        beside = [(_join(names[id(parent)], n), m) for n, m in parent.named_children()]
    else:
        parent, beside = model, list(model.named_children())
    types = _layer_types(model, len(modules))
    layers = tuple(
        _layer(index, _join(path, name), module, types[index])
        for index, (name, module) in enumerate(modules)
    )
    inside = {id(layer.module) for layer in layers}
    beside = [(name, module) for name, module in beside if id(module) not in inside]
    return ModelMap(
        root=model,
        stack=parent,
        embedding=_embedding(model, names, beside),
        layers=layers,
        norms=tuple((n, m) for n, m in beside if _is_norm(m)),
        head=_head(model, names, path),
    )


def _layer_list(model: nn.Module) -> tuple[str, list[Named]] | None:
    """The list of modules with the most parameters, outermost first."""
    best: tuple[str, list[Named]] | None = None
    most = -1
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList | nn.Sequential):
            continue
        items = [(n, m) for n, m in module.named_children() if not isinstance(m, nn.Embedding)]
        if isinstance(module, nn.Sequential) and len(items) < 2:
            continue
        size = sum(p.numel() for _, item in items for p in item.parameters())
        if items and size > most:
            best, most = (name, items), size
    return best


def _layer_types(model: nn.Module, count: int) -> list[str | None]:
    config = getattr(model, "config", None)
    text = getattr(config, "get_text_config", None)
    config = text() if callable(text) else config
    for attribute in ("layer_types", "layers_block_type", "block_types"):
        types = getattr(config, attribute, None)
        if isinstance(types, list | tuple) and len(types) >= count:
            return [str(kind) for kind in types[:count]]
    return [None] * count


def _layer(index: int, name: str, module: nn.Module, kind: str | None) -> Layer:
    parts = tuple(_parts(name, module, ""))
    return Layer(index, name, module, _layer_kind(module, parts, kind), parts)


def _parts(prefix: str, block: nn.Module, container: str) -> Iterator[Part]:
    children = dict(block.named_children())
    stateful = {n for n, child in children.items() if _is_mixer(child) and _holds_state(child)}
    for name, child in children.items():
        path = _join(prefix, name)
        if _is_mixer(child):
            state = name in stateful
            # Without a mark of either kind a mixer may keep anything: watch for both.
            kv = _is_attention(child) or not state
            yield Part(path, child, container, True, has_kv=kv, has_state=state)
        elif any(_is_mixer(inner) for inner in child.modules()):
            yield from _parts(path, child, _join(container, name))
        elif any(parameter.ndim >= 2 for parameter in child.parameters()):
            yield Part(path, child, container, False)


def _is_mixer(module: nn.Module) -> bool:
    """The innermost module that knows its layer, or an attention without such knowledge."""
    inner = [m for m in module.modules() if m is not module]
    if isinstance(getattr(module, "layer_idx", None), int):
        if any(isinstance(getattr(m, "layer_idx", None), int) for m in inner):
            return False
        return not _is_mlp(module) or _is_attention(module) or _holds_state(module)
    if any(isinstance(getattr(m, "layer_idx", None), int) or _is_attention(m) for m in inner):
        return False
    return _is_attention(module) and any(True for _ in module.parameters())


def _is_mlp(module: nn.Module) -> bool:
    return any(word in _class(module) for word in ("mlp", "moe", "expert", "feedforward"))


def _is_attention(module: nn.Module) -> bool:
    return "attention" in _class(module) or "attn" in _class(module)


def _holds_state(module: nn.Module) -> bool:
    """Convolutions over time and decay parameters mark recurrent mixers."""
    if any(isinstance(inner, nn.Conv1d) for inner in module.modules()):
        return True
    names = {name.rpartition(".")[2] for name, _ in module.named_parameters()}
    return bool(names & {"A_log", "dt_bias", "recurrent_param"})


def _layer_kind(module: nn.Module, parts: tuple[Part, ...], kind: str | None) -> str:
    mixers = [part for part in parts if part.is_mixer]
    classes = " ".join(_class(part.module) for part in mixers)
    if kind in (None, "linear_attention") and "mamba" in classes and len(mixers) == 1:
        return "mamba"
    if kind == "conv":
        return "short conv"
    if kind is not None:
        return kind.replace("_", " ")
    if any(part.has_state for part in mixers):
        return "linear attention"
    if mixers:
        window = any(getattr(part.module, "is_sliding", False) for part in mixers)
        return "sliding attention" if window else "full attention"
    return type(module).__name__


def _embedding(model: nn.Module, names: dict[int, str], beside: list[Named]) -> Named | None:
    found = _ask(model, "get_input_embeddings")
    if found is not None and id(found) in names:
        return names[id(found)], found
    return next(((n, m) for n, m in beside if isinstance(m, nn.Embedding)), None)


def _head(model: nn.Module, names: dict[int, str], layers_path: str) -> Named | None:
    found = _ask(model, "get_output_embeddings")
    if found is not None and id(found) in names:
        return names[id(found)], found
    inner = layers_path.split(".")[0]
    outside = [(n, m) for n, m in model.named_children() if n != inner and layers_path]
    return next(((n, m) for n, m in reversed(outside) if isinstance(m, nn.Linear)), None)


def _ask(model: nn.Module, method: str) -> nn.Module | None:
    """What a model says of itself; models without an answer may raise instead of saying None."""
    try:
        found = getattr(model, method)()
    except (AttributeError, NotImplementedError, TypeError):
        return None
    return found if isinstance(found, nn.Module) else None


def _is_norm(module: nn.Module) -> bool:
    has_matrix = any(parameter.ndim >= 2 for parameter in module.parameters())
    return "norm" in _class(module) and not has_matrix


def _class(module: nn.Module) -> str:
    return type(module).__name__.lower()


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name
