"""Every noun of the engine can be replaced, and what is replaced matters for the outputs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine import (
    Engine,
    EngineConfig,
    Parts,
    attention,
    recurrent,
    selection,
    tiles,
)
from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.checkpoints import Checkpoint, Checkpoints
from layerdiff_samples.engine.launch import Launch
from layerdiff_samples.engine.masks import CausalMask, MaskFacts
from layerdiff_samples.engine.prefix_cache import Hit, PrefixCache
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.rope import Rope
from layerdiff_samples.engine.scheduler import Scheduler
from tests.layerdiff_samples.spying import Spy, differing

CONFIG = EngineConfig(layers="gas")


def prompt(seed: int, length: int) -> list[int]:
    """Random tokens."""
    source = random.Random(seed)
    return [source.randrange(128) for _ in range(length)]


FIRST = prompt(1, 90)
SECOND = FIRST[:70] + prompt(2, 20)


def cold_and_warm(parts: Parts, new: int = 1) -> tuple[Spy, Spy]:
    """The second prompt alone in a healthy engine, and after the first in one of *parts*."""
    cold, warm = Spy(), Spy()
    Engine(CONFIG, cold).generate("b", SECOND, new)
    engine = Engine(CONFIG, warm, parts)
    engine.generate("a", FIRST, 1)
    engine.generate("b", SECOND, new)
    return cold, warm


def first_logits(spy: Spy) -> set[bytes]:
    """What the first generated token was sampled from."""
    return spy.cells["output:logits", "b", len(SECOND) - 1]


class ZeroRestore(Checkpoints):
    """Reads a slot that nothing was written to."""

    def slot_to_read(self, saved: Checkpoint) -> int:
        return len(self.pool.generation) - 1


class KeepsDrafts(Checkpoints):
    """Takes the state after all drafts, accepted or not."""

    def rollback(self, chunk: Chunk, kept: int) -> State:
        return chunk.after[chunk.stop]


class NeverTruncates(BlockPool):
    """Keeps the rows of rejected drafts."""

    def truncate(self, request: Request, length: int) -> None:
        pass


class StaleTable(BlockPool):
    """The kernel reads the first block twice."""

    def table_for_kernel(self, request: Request) -> Sequence[int]:
        table = list(request.table)
        return [table[0], table[0], *table[2:]] if request.hit else table


class RestartedRope(Rope):
    """Rotary positions of a warm pass count from its start."""

    def first(self, chunk: Chunk) -> int:
        return chunk.start - chunk.request.hit


class OtherBase(Rope):
    """Other frequencies for long requests."""

    def base(self, length: int) -> float:
        return 500.0 if length > 64 else 10000.0


class TopLeftMask(CausalMask):
    """Counts the queries of a warm pass from its own first key."""

    def allow(self, queries: Tensor, keys: Tensor, facts: MaskFacts) -> Tensor:
        shift = facts.start if facts.hit else 0
        return super().allow(queries - shift, keys, facts)


class ShortKeys(PrefixCache):
    """A block's key stands for its last tokens alone."""

    def key(self, previous: str, tokens: Sequence[int]) -> str:
        return super().key("", tokens[-2:])


class WholePrompt(PrefixCache):
    """A hit may cover all of a prompt; its last token then runs on top of that."""

    def limit(self, request: Request) -> int:
        return len(request.prompt)

    def lookup(self, request: Request) -> Hit:
        hit = super().lookup(request)
        return replace(hit, length=hit.length - 1) if hit.length == len(request.prompt) else hit


def sequential_when_warm(launch: Launch) -> recurrent.RecurrentKernel:
    """Another recurrent kernel after a hit."""
    return recurrent.SEQUENTIAL if launch.hit else recurrent.choose_recurrent(launch)


def by_queries(launch: Launch) -> attention.AttentionKernel:
    """The attention kernel by the number of rows."""
    return attention.ONE_QUERY if launch.rows == 1 else attention.SEVERAL


def another_row(logits: Tensor) -> Tensor:
    """Reports a neighbour's row."""
    return logits.roll(1, dims=-1)


def base_two(partials: Sequence[attention.Partial]) -> attention.Partial:
    """Takes the sums of partials for logarithms to base two."""
    return attention.merge_partials([(out, total * 0.6931) for out, total in partials])


@pytest.mark.parametrize(
    "parts",
    [
        Parts(checkpoints=ZeroRestore),
        Parts(block_pool=StaleTable),
        Parts(rope=RestartedRope),
        Parts(rope=OtherBase),
        Parts(mask=TopLeftMask),
        Parts(choose_recurrent=sequential_when_warm),
        Parts(merge_partials=base_two),
        Parts(report_logits=another_row),
    ],
    ids=lambda parts: next(
        value.__name__
        for value, healthy in zip(_values(parts), _values(Parts()), strict=True)
        if value is not healthy
    ),
)
def test_a_replaced_part_changes_what_a_warm_request_says(parts: Parts) -> None:
    """Each of these is read by a pass that goes on from a hit."""
    cold, warm = cold_and_warm(parts)
    assert warm.hits["b"] == 64
    assert first_logits(warm).isdisjoint(first_logits(cold))


def test_the_healthy_parts_change_nothing() -> None:
    """The look-alike of all of the above."""
    cold, warm = cold_and_warm(Parts(), new=4)
    assert warm.hits["b"] == 64
    assert differing(warm.cells, cold.cells) == []


@pytest.mark.parametrize(
    "parts", [Parts(checkpoints=KeepsDrafts), Parts(block_pool=NeverTruncates)]
)
def test_rejected_drafts_that_stay_change_what_follows(parts: Parts) -> None:
    """States and rows of the paged cache are each taken back by a part of their own."""
    cold, warm = cold_and_warm(parts, new=8)
    assert warm.counted(EventKind.ROLLBACK) > 0
    assert first_logits(warm) == first_logits(cold)
    assert any(site == "output:logits" for site, _, _ in differing(warm.cells, cold.cells))


def test_a_suffix_of_one_token_takes_another_kernel_if_rows_decide() -> None:
    """A prompt of 65 tokens leaves one after a hit of 64; the cold pass has them all."""
    tokens, found = prompt(3, 65), {}
    config = replace(CONFIG, stride=256, budget=256)
    for name, parts in {"by rows": Parts(choose_attention=by_queries), "healthy": Parts()}.items():
        cold, warm = Spy(), Spy()
        Engine(config, cold, parts).generate("b", tokens, 2)
        engine = Engine(config, warm, parts)
        engine.generate("a", tokens[:64], 1)
        engine.generate("b", tokens, 2)
        assert warm.hits["b"] == 64
        found[name] = differing(warm.cells, cold.cells)
    assert found["healthy"] == []
    assert ("layers.1:partials", "b", 64) in found["by rows"]


def test_a_key_of_few_tokens_serves_another_prefix() -> None:
    """What a lookup asked for and what was stored are both told."""
    spy = Spy()
    engine = Engine(replace(CONFIG, layers="g"), spy, Parts(prefix_cache=ShortKeys))
    engine.generate("a", [*[1] * 14, 8, 9, 3, 3])
    engine.generate("b", [*[2] * 14, 8, 9, 3, 3])
    told = [t["facts"] for kind, name, t in spy.events if kind is EventKind.LOOKUP and name == "b"]
    assert spy.hits["b"] == 16
    assert told[0]["key"] == told[0]["candidate"]
    assert told[0]["of"] != told[0]["stored_of"]


def test_a_whole_prompt_hit_doubles_the_last_row() -> None:
    """The layer's own count says so: it holds 64 rows before a pass that begins at 63."""
    spy = Spy()
    engine = Engine(CONFIG, spy, Parts(prefix_cache=WholePrompt))
    engine.generate("a", FIRST[:64], 1)
    engine.generate("b", FIRST[:64], 1)
    offsets = [t for kind, name, t in spy.events if kind is EventKind.OFFSET and name == "b"]
    assert (offsets[0]["start"], offsets[0]["value"]) == (63, 64)


class OneChunk(Scheduler):
    """Takes as much of a prompt as the budget allows."""

    def chunk_end(self, request: Request, start: int, budget: int) -> int:
        return min(len(request.prompt), start + budget)


def test_rows_of_another_chunk_differ_when_their_number_picks_the_kernel() -> None:
    """With fixed tiles they do not, whatever the chunk."""
    tiled = replace(CONFIG, layers="a")
    for config, same in ((tiled, True), (replace(tiled, projection="by_rows"), False)):
        spies = [Spy(), Spy()]
        for spy, parts in zip(spies, (Parts(), Parts(scheduler=OneChunk)), strict=True):
            Engine(config, spy, parts).generate("r", FIRST[:31], 1)
        assert (differing(spies[0].cells, spies[1].cells) == []) is same


def _values(parts: Parts) -> list[Callable[..., object]]:
    return [getattr(parts, name) for name in Parts.__slots__]


def rows(*shape: int) -> Tensor:
    """Random values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def test_kernels_agree_but_for_rounding() -> None:
    """Chunked and sequential, one query and several: the same function, other bits."""
    given = recurrent.Rows(
        rows(16, 2, 8),
        rows(16, 2, 8) / 3,
        rows(16, 2, 8),
        -rows(16, 2).abs(),
        rows(16, 2).sigmoid(),
    )
    state = rows(2, 8, 8)
    one, other = (f(given, state, 8) for f in (recurrent.chunked, recurrent.sequential))
    torch.testing.assert_close(one.out, other.out)
    torch.testing.assert_close(one.states[-1], other.states[-1])
    assert not torch.equal(one.out, other.out)
    four = recurrent.four_wide(given.between(0, 6), state, 8)
    assert torch.equal(four.out, other.out[:6])
    assert torch.equal(four.states[-1], other.states[5])
    query, key, value = rows(8, 4, 8), rows(24, 2, 8), rows(24, 2, 8)
    allowed = torch.ones(8, 24, dtype=torch.bool).tril(16)
    outs = [
        attention.attend(
            kernel, attention.merge_partials, query, key, value, start=16, allowed=allowed, split=8
        ).out
        for kernel in (attention.SEVERAL, attention.ONE_QUERY)
    ]
    torch.testing.assert_close(*outs)
    assert not torch.equal(*outs)


def test_few_blocks_leave_no_choice_and_ties_go_to_the_lower() -> None:
    """The selection only matters for prompts that are longer than the blocks always read."""
    scores = torch.tensor([[0.0, 2.0, 3.0, 3.0, 3.0]])
    few = torch.tensor([[False, True, True, False, False]])
    many = torch.tensor([[False, True, True, True, True]])
    chosen, margin = selection.select_blocks(scores, few, 2)
    assert chosen.tolist() == [[2, 1]]
    assert margin.item() == torch.tensor(selection.NO_CONTEST).item()
    chosen, margin = selection.select_blocks(scores, many, 2)
    assert chosen.tolist() == [[2, 3]]
    assert margin.item() == 0.0


def test_projection_kernels_by_rows() -> None:
    """Few rows sum two halves of the reduction."""
    choose = tiles.by_rows(24)
    assert (choose(23), choose(24)) == (tiles.split_k, tiles.wide)
    left, right = rows(8, 32), rows(32, 48)
    torch.testing.assert_close(tiles.wide(left, right), tiles.split_k(left, right))
    assert not torch.equal(tiles.wide(left, right), tiles.split_k(left, right))
