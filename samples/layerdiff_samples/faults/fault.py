"""What a fault is: a change to an engine's parts or sizes, switched on by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.parts import Parts


def _same(config: EngineConfig) -> EngineConfig:
    return config


@dataclass(frozen=True, slots=True)
class Fault:
    """One mechanism by which an engine goes wrong.

    It replaces parts of the engine and sizes of its configuration; none touches a dump.
    """

    name: str
    parts: Callable[[Parts], Parts]
    config: Callable[[EngineConfig], EngineConfig] = _same
    zero_slack: Callable[[], None] | None = None
    """Clears the memory that the fault lets a kernel read though no token owns it."""


def build(
    faults: Iterable[Fault], config: EngineConfig, parts: Parts | None = None
) -> tuple[EngineConfig, Parts]:
    """An engine's configuration and parts with the faults in them, in order."""
    parts = parts or Parts()
    for fault in faults:
        config, parts = fault.config(config), fault.parts(parts)
    return config, parts


def registry(*modules: Iterable[Fault]) -> Mapping[str, Fault]:
    """All faults by name.

    Raises:
        ValueError: Two have one name.
    """
    found: dict[str, Fault] = {}
    for fault in (fault for module in modules for fault in module):
        if fault.name in found:
            raise ValueError(f"two faults are called {fault.name!r}")
        found[fault.name] = fault
    return found
