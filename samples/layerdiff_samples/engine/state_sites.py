"""What the states of a request are, by their names."""

from dataclasses import dataclass

from layerdiff.vocabulary import TensorKind

LAYER_KINDS = {
    "g": "gated delta net",
    "a": "paged attention",
    "s": "sliding attention",
}
"""How a layer's letter reads."""

RECURRENT_INPUTS = ("query", "key", "value", "decay", "beta")
"""Ports that the recurrence reads row by row."""


@dataclass(frozen=True, slots=True)
class StateSite:
    """Where a state is observed."""

    kind: TensorKind
    layer_index: int | None
    layer_kind: str
    inputs: tuple[str, ...]
    """Sites whose rows it sums up."""


def state_site(name: str) -> StateSite | None:
    """The site of a state; None for a ring, whose rows are observed as keys and values."""
    prefix, port = name.split(":")
    if port == "conv":
        return StateSite(TensorKind.CONV_STATE, None, "", (f"{prefix}:rows",))
    layer = int(prefix.split(".")[1])
    if port == "conv_state":
        return StateSite(TensorKind.CONV_STATE, layer, LAYER_KINDS["g"], (f"{prefix}:projected",))
    if port == "recurrent":
        rows = tuple(f"{prefix}:{source}" for source in RECURRENT_INPUTS[1:])
        return StateSite(TensorKind.RECURRENT_STATE, layer, LAYER_KINDS["g"], rows)
    return None
