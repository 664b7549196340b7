"""Slots for states: those of running requests and those of checkpoints."""

from collections import deque
from collections.abc import Mapping

import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine.config import CONV_WIDTH, EngineConfig
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Request, State


class StatePool:
    """A number of slots, each with one value of every state of the model."""

    def __init__(self, config: EngineConfig, recording: Recording) -> None:
        shapes = state_shapes(config)
        self.tensors = {n: torch.zeros(config.slots, *shape) for n, shape in shapes.items()}
        self.generation = [0] * config.slots
        self.recording = recording
        self._free = deque(range(config.slots))

    @property
    def free_slots(self) -> int:
        """Slots that nobody holds."""
        return len(self._free)

    def allocate(self, request: Request) -> int:
        """Takes a free slot; the caller checked that there is one."""
        slot = self._free.popleft()
        self.generation[slot] += 1
        self.recording.event(
            EventKind.ALLOC,
            request=request,
            place=slot,
            generation=self.generation[slot],
            text="state",
        )
        return slot

    def free(self, slot: int, kind: EventKind = EventKind.FREE) -> None:
        """Gives a slot back; its contents stay until somebody writes."""
        self._free.append(slot)
        self.recording.event(kind, place=slot, generation=self.generation[slot], text="state")

    def claim(self, slot: int, generation: int) -> None:
        """Takes one certain slot, as it was when it was stored."""
        self._free.remove(slot)
        self.generation[slot] = generation

    def read(self, slot: int) -> State:
        """A copy of what a slot holds."""
        return {name: tensor[slot].clone() for name, tensor in self.tensors.items()}

    def write(self, slot: int, state: Mapping[str, Tensor]) -> None:
        """Fills a slot."""
        for name, value in state.items():
            self.tensors[name][slot] = value

    def export(self) -> dict[str, Tensor]:
        """The contents of all slots, by name, for a file."""
        return dict(self.tensors)

    def restore(self, stored: Mapping[str, Tensor]) -> None:
        """Takes what `export` gave."""
        for name, tensor in self.tensors.items():
            tensor.copy_(stored[name])

    def zeros(self) -> State:
        """The state before the first token."""
        return {name: torch.zeros_like(tensor[0]) for name, tensor in self.tensors.items()}


def state_shapes(config: EngineConfig) -> dict[str, tuple[int, ...]]:
    """The states of a model by name: recurrent, convolution, and rings of sliding layers."""
    channels = 3 * config.heads * config.head_dim
    ring = (config.ring, config.kv_heads, config.head_dim)
    shapes: dict[str, tuple[int, ...]] = {"ngram:conv": (CONV_WIDTH - 1, config.width)}
    for index, kind in enumerate(config.layers):
        if kind == "g":
            shapes[f"layers.{index}:recurrent"] = (config.heads, config.head_dim, config.head_dim)
            shapes[f"layers.{index}:conv_state"] = (CONV_WIDTH - 1, channels)
        elif kind == "s":
            shapes[f"layers.{index}:ring_key"] = ring
            shapes[f"layers.{index}:ring_value"] = ring
    return shapes
