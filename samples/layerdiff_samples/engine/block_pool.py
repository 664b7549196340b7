"""Paged keys and values of the attention layers."""

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Request


class BlockPool:
    """Blocks of rows, one number for all attention layers, counted by their users."""

    def __init__(self, config: EngineConfig, recording: Recording) -> None:
        shape = (config.blocks, config.block, config.kv_heads, config.head_dim)
        paged = [index for index, kind in enumerate(config.layers) if kind == "a"]
        self.keys = {index: torch.zeros(shape) for index in paged}
        self.values = {index: torch.zeros(shape) for index in paged}
        self.generation = [0] * config.blocks
        self.users = [0] * config.blocks
        self.recording = recording
        self.size = config.block
        self._free = deque(range(config.blocks))

    @property
    def free_blocks(self) -> int:
        """Blocks that neither a request nor the prefix cache holds."""
        return len(self._free)

    def allocate(self, request: Request) -> None:
        """Appends a free block to a request's table; the caller checked that there is one."""
        block = self.next_block()
        self.generation[block] += 1
        self.users[block] = 1
        request.table.append(block)
        self._tell(EventKind.ALLOC, block, request)

    def next_block(self) -> int:
        """Takes the block that was freed the longest ago."""
        return self._free.popleft()

    def share(self, block: int) -> None:
        """One more user of a block."""
        self.users[block] += 1

    def release(self, block: int, *, published: bool) -> None:
        """One user less; a block that the prefix cache does not hold is free after its last."""
        self.users[block] -= 1
        if not self.users[block] and not published:
            self._give_back(block, EventKind.FREE)

    def evict(self, block: int) -> None:
        """A published block that nobody uses becomes free."""
        self._give_back(block, EventKind.EVICT)

    def claim(self, block: int, generation: int) -> None:
        """Takes one certain block without a user, as it was when it was stored."""
        self._free.remove(block)
        self.generation[block] = generation

    def truncate(self, request: Request, length: int) -> None:
        """Forgets a request's rows from *length* on, and whole blocks behind them."""
        request.kv_length = length
        while len(request.table) > -(-length // self.size):
            self.release(request.table.pop(), published=False)

    def write(self, request: Request, layer: int, start: int, key: Tensor, value: Tensor) -> None:
        """Rows [start, start + n) of a request's cache; key and value [n, kv_heads, head_dim]."""
        floor = self.write_floor(request)
        for row, at in enumerate(range(start, start + len(key))):
            if at < floor:
                continue
            block, slot = request.table[at // self.size], at % self.size
            self.keys[layer][block, slot] = key[row]
            self.values[layer][block, slot] = value[row]

    def write_floor(self, request: Request) -> int:
        """Rows of a request's cache below this are kept as they are, whatever is computed."""
        return 0

    def table_for_kernel(self, request: Request) -> Sequence[int]:
        """The block table that attention reads through."""
        return tuple(request.table)

    def read(self, table: Sequence[int], layer: int) -> tuple[Tensor, Tensor]:
        """All rows of some blocks, owned by a token or not: each [rows, kv_heads, head_dim]."""
        index = torch.tensor(table)
        return self.keys[layer][index].flatten(0, 1), self.values[layer][index].flatten(0, 1)

    def export(self) -> dict[str, Tensor]:
        """The contents of all blocks, by name, for a file."""
        pools = (("key", self.keys), ("value", self.values))
        return {f"{port}.{i}": tensor for port, pool in pools for i, tensor in pool.items()}

    def restore(self, stored: dict[str, Tensor]) -> None:
        """Takes what `export` gave."""
        for port, pool in (("key", self.keys), ("value", self.values)):
            for index, tensor in pool.items():
                tensor.copy_(stored[f"{port}.{index}"])

    def _give_back(self, block: int, kind: EventKind) -> None:
        self._free.append(block)
        self._tell(kind, block, None)

    def _tell(self, kind: EventKind, block: int, request: Request | None) -> None:
        self.recording.event(
            kind, request=request, place=block, generation=self.generation[block], text="kv"
        )
