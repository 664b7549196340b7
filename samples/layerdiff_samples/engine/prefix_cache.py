"""Which blocks and checkpoints belong to which prefix of tokens."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.checkpoints import Checkpoint, Checkpoints
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.request import Request
from layerdiff_samples.engine.writer import Writer


@dataclass(slots=True, eq=False)
class Entry:
    """One published block."""

    block: int
    writer: Writer
    content: str
    """Digest of the tokens up to the block's end, as its writer had them."""
    used: int
    """When it was last asked for; larger is later."""
    depth: int
    """Which block of its prefix it is, 0-based."""
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a lookup gives: nothing, or a prefix with all it takes to go on from there."""

    length: int = 0
    """Tokens that need not be computed."""
    kv_length: int = 0
    """Rows of the paged cache that come with it."""
    blocks: tuple[int, ...] = ()
    writers: tuple[Writer, ...] = ()
    checkpoint: Checkpoint | None = None
    key: str = ""
    content: str = ""
    """Digest of the tokens that the key stands for, as stored."""
    possible: int = 0
    """Tokens whose blocks are there, with or without a checkpoint."""


class PrefixCache:
    """Published blocks by the key of all tokens up to their end."""

    def __init__(self, config: EngineConfig, blocks: BlockPool, checkpoints: Checkpoints) -> None:
        self.config = config
        self.blocks = blocks
        self.checkpoints = checkpoints
        self.entries: dict[str, Entry] = {}
        self._clock = 0

    def key(self, previous: str, tokens: Sequence[int]) -> str:
        """The key of a block: that of the block before it, and its own tokens."""
        text = f"{previous}:{','.join(map(str, tokens))}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def keys(self, tokens: Sequence[int]) -> list[str]:
        """The key of every whole block of *tokens*."""
        found, previous = [], ""
        for start in range(0, len(tokens) - self.config.block + 1, self.config.block):
            previous = self.key(previous, tokens[start : start + self.config.block])
            found.append(previous)
        return found

    def lookup(self, request: Request) -> Hit:
        """The longest prefix with blocks, a checkpoint and the drafter's rows."""
        entries = []
        for key in self.keys(request.prompt[: self.limit(request)]):
            if key not in self.entries:
                break
            entries.append((key, self.entries[key]))
        size = self.config.block
        nothing = Hit(possible=len(entries) * size)
        for count in range(len(entries), 0, -1):
            key, entry = entries[count - 1]
            if self.complete(entry.checkpoint):
                parts = [entry for _, entry in entries[:count]]
                return Hit(
                    count * size,
                    count * size,
                    tuple(part.block for part in parts),
                    tuple(part.writer for part in parts),
                    entry.checkpoint,
                    key,
                    entry.content,
                    nothing.possible,
                )
        return nothing

    def limit(self, request: Request) -> int:
        """Tokens of a prompt that a hit may cover: the last one has to be computed."""
        return len(request.prompt) - 1

    def complete(self, checkpoint: Checkpoint | None) -> bool:
        """Whether a checkpoint has all that a request needs."""
        if checkpoint is None:
            return False
        return self.config.drafts == 0 or checkpoint.draft_rows is not None

    def take(self, hit: Hit) -> None:
        """A request becomes a user of the blocks of a hit."""
        self._clock += 1
        for block in hit.blocks:
            self.blocks.share(block)
            entry = self._holding(block)
            if entry is not None:
                entry.used = self._clock

    def publishable(self, request: Request, stop: int) -> int:
        """How many whole blocks of a request were computed by prefill passes on the grid."""
        return min(stop, len(request.prompt)) // self.config.block if request.on_grid else 0

    def publish(self, request: Request, stop: int, writer: Writer) -> None:
        """Offers the blocks that a prefill pass up to *stop* completed."""
        count = self.publishable(request, stop)
        keys = self.keys(request.prompt)[:count]
        self._clock += 1
        for depth in range(request.published, count):
            # An older copy is as good: the newer one stays with its request.
            if keys[depth] not in self.entries:
                content = content_digest(request.prompt[: (depth + 1) * self.config.block])
                self.entries[keys[depth]] = Entry(
                    request.table[depth], writer, content, self._clock, depth
                )
        request.published = max(request.published, count)

    def wants_checkpoint(self, request: Request, stop: int) -> str | None:
        """The key under which the states at *stop* are missing, if they may be kept."""
        if stop % self.config.block or stop % self.config.chunk or not request.on_grid:
            return None
        count = stop // self.config.block
        if stop > len(request.prompt) or count > request.published:
            return None
        key = self.keys(request.prompt)[count - 1]
        entry = self.entries.get(key)
        return key if entry is not None and entry.checkpoint is None else None

    def published(self, block: int) -> bool:
        """Whether a block is held for later requests."""
        return self._holding(block) is not None

    def evictable(self) -> int:
        """Published blocks that no request uses."""
        return sum(not self.blocks.users[entry.block] for entry in self.entries.values())

    def evict_block(self) -> bool:
        """Frees the unused block that was asked for the longest ago, with its checkpoint."""
        idle = [
            (entry.used, -entry.depth, key)
            for key, entry in self.entries.items()
            if not self.blocks.users[entry.block]
        ]
        if not idle:
            return False
        entry = self.entries.pop(min(idle)[2])
        if entry.checkpoint is not None:
            self.checkpoints.drop(entry.checkpoint)
        self.blocks.evict(entry.block)
        return True

    def evict_checkpoint(self) -> bool:
        """Frees the slot of the checkpoint that was asked for the longest ago."""
        kept = [entry for entry in self.entries.values() if entry.checkpoint is not None]
        if not kept:
            return False
        entry = min(kept, key=lambda entry: (entry.used, -entry.depth))
        assert entry.checkpoint is not None
        self.checkpoints.drop(entry.checkpoint)
        entry.checkpoint = None
        return True

    def _holding(self, block: int) -> Entry | None:
        return next((e for e in self.entries.values() if e.block == block), None)


def content_digest(tokens: Sequence[int]) -> str:
    """Hex digest of some tokens."""
    text = ",".join(map(str, tokens))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
