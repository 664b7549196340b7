"""Hunts: a case runs one engine under several conditions, and controls settle why they differ."""

from layerdiff_hooks.hunt.arm import Arm
from layerdiff_hooks.hunt.case import Case
from layerdiff_hooks.hunt.errors import ArmFailed, Unsupported
from layerdiff_hooks.hunt.loading import load_case

__all__ = ["Arm", "ArmFailed", "Case", "Unsupported", "load_case"]
