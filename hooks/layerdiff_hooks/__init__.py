"""Capture: what a running model computes and reads, reduced to digests while it runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layerdiff_hooks.capture import ModelRecorder
    from layerdiff_hooks.record import record
    from layerdiff_hooks.recorder import Recorder

__all__ = ["ModelRecorder", "Recorder", "record"]

_HOMES = {
    "ModelRecorder": "layerdiff_hooks.capture",
    "Recorder": "layerdiff_hooks.recorder",
    "record": "layerdiff_hooks.record",
}


def __getattr__(name: str) -> object:
    # Dump mode imports this package in every Python process of a run, also in those without torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
