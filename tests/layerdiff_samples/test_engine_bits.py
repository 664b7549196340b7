"""Cached, batched, drafted or preempted: every tensor of a request has the same bits."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layerdiff.vocabulary import EventKind, Phase
from layerdiff_samples.engine import Engine, EngineConfig
from tests.layerdiff_samples.spying import Spy, differing

SMALL = EngineConfig(layers="gas", width=16, head_dim=4, block=16, chunk=8, max_length=128)


@dataclass(frozen=True, slots=True)
class Mix:
    """Some requests, and how an engine runs them."""

    prompts: tuple[tuple[int, ...], ...]
    max_new: tuple[int, ...]
    together: tuple[bool, ...]
    """Whether a request is submitted along with the one before it."""
    config: EngineConfig


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    """Prompts that share prefixes, on an engine with little or much room."""
    seed = random.Random(draw(st.integers(0, 2**16)))
    stem = [seed.randrange(128) for _ in range(90)]
    count = draw(st.integers(1, 4))
    prompts = []
    for _ in range(count):
        shared = draw(st.sampled_from([0, 15, 16, 17, 32, 47, 64]))
        own = draw(st.integers(1, 24))
        prompts.append(tuple(stem[:shared] + [seed.randrange(128) for _ in range(own)]))
    if draw(st.booleans()):
        prompts.append(prompts[0])
    config = replace(
        SMALL,
        layers=draw(st.sampled_from(["ga", "gas", "sg"])),
        stride=draw(st.sampled_from([None, 32])),
        drafts=draw(st.sampled_from([0, 2, 3])),
        blocks=draw(st.sampled_from([7, 9, 40])),
        slots=draw(st.sampled_from([4, 7, 24])),
        budget=draw(st.sampled_from([12, 24, 64])),
    )
    sizes = [draw(st.integers(1, 6)) for _ in prompts]
    together = [draw(st.booleans()) for _ in prompts]
    return Mix(tuple(prompts), tuple(sizes), tuple(together), config)


def run_shared(mix: Mix, config: EngineConfig) -> tuple[dict[str, list[int]], Spy]:
    """All requests in one engine."""
    spy = Spy()
    engine = Engine(config, spy)
    for index, prompt in enumerate(mix.prompts):
        if not mix.together[index]:
            engine.run()
        engine.submit(f"r{index}", prompt, mix.max_new[index])
    return engine.run(), spy


def run_alone(mix: Mix) -> tuple[dict[str, list[int]], Spy]:
    """Each request in an engine of its own, which has room for all of it."""
    spy, found = Spy(), {}
    config = replace(mix.config, blocks=40, slots=24, budget=64)
    for index, prompt in enumerate(mix.prompts):
        name = f"r{index}"
        found[name] = Engine(config, spy).generate(name, prompt, mix.max_new[index])
    return found, spy


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(mixes())
def test_cold_warm_and_uncached_runs_have_the_same_bits(mix: Mix) -> None:
    """Tokens and every hidden row, logit, key, value and state that both runs show."""
    tokens, cold = run_alone(mix)
    for config in (mix.config, replace(mix.config, caching=False)):
        found, spy = run_shared(mix, config)
        assert found == tokens
        assert differing(spy.cells, cold.cells) == []


def prompt(seed: int, length: int) -> list[int]:
    """Random tokens."""
    source = random.Random(seed)
    return [source.randrange(128) for _ in range(length)]


def test_requests_without_room_are_preempted_and_replayed() -> None:
    """The property above is not vacuous: with few blocks there are replays, and the same bits."""
    config = replace(SMALL, blocks=9, max_running=3)
    mix = Mix(tuple(tuple(prompt(seed, 44)) for seed in (1, 2, 3)), (9, 9, 9), (True,) * 3, config)
    tokens, cold = run_alone(mix)
    found, spy = run_shared(mix, config)
    assert Phase.REPLAY in spy.phases or Phase.MIXED in spy.phases
    assert spy.counted(EventKind.EVICT) > 0
    assert found == tokens
    assert differing(spy.cells, cold.cells) == []


@pytest.mark.parametrize("drafts", [0, 3])
def test_a_layout_on_the_grid_changes_no_bit_and_one_off_the_grid_does(drafts: int) -> None:
    """The chunked kernel counts from the start of its pass."""
    tokens, config = prompt(4, 60), replace(SMALL, layers="gg", drafts=drafts)
    spies = {}
    layouts = {"plain": None, "on": [(0, 40), (40, 60)], "off": [(0, 37), (37, 60)]}
    for name, layout in layouts.items():
        spies[name] = Spy()
        engine = Engine(config, spies[name])
        engine.submit("r", tokens, 3, chunks=layout)
        engine.run()
    assert differing(spies["on"].cells, spies["plain"].cells) == []
    places = differing(spies["off"].cells, spies["plain"].cells)
    assert ("layers.0:mixed", "r", 36) not in places
    assert any(site == "layers.0:mixed" and position >= 37 for site, _, position in places)
