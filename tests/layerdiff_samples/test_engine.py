"""What the engine serves, refuses, keeps in a file, and tells a recorder."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from layerdiff.comparison import compare_dumps
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.vocabulary import EventKind, Verdict
from layerdiff_hooks import Recorder
from layerdiff_samples.engine import Engine, EngineConfig, model_facts
from layerdiff_samples.engine.scheduler import CapacityError
from tests.layerdiff_samples.spying import Spy, differing

CONFIG = EngineConfig()
SOURCE = random.Random(1)
FIRST = [SOURCE.randrange(128) for _ in range(90)]
SECOND = FIRST[:70] + [SOURCE.randrange(128) for _ in range(10)]


def record(path: Path, arm: str, config: EngineConfig, *, reuse: bool) -> dict[str, list[int]]:
    """Both prompts, one after the other."""
    with Recorder(path, arm=arm, engine="sample", facts=model_facts(config)) as recorder:
        engine = Engine(config, recorder)
        for name, prompt in (("a", FIRST), ("b", SECOND)):
            engine.submit(name, prompt, 5, reuse=reuse)
            found = engine.run()
    return found


def compare(baseline: Path, candidate: Path) -> Report:
    """The report of two dumps."""
    with Dump.open(baseline) as first, Dump.open(candidate) as second:
        return compare_dumps(first, second).report


@pytest.mark.parametrize(
    "config",
    [CONFIG, replace(CONFIG, layers="gags", drafts=0), replace(CONFIG, layers="as", block=8)],
    ids=lambda config: f"{config.layers}-{config.drafts}",
)
def test_recorded_arms_are_identical(tmp_path: Path, config: EngineConfig) -> None:
    """With a real hit; recording changes no token."""
    cold = record(tmp_path / "cold.h5", "cold", config, reuse=False)
    warm = record(tmp_path / "warm.h5", "warm", config, reuse=True)
    plain = Engine(config)
    for name, prompt in (("a", FIRST), ("b", SECOND)):
        plain.generate(name, prompt, 5)
    assert cold == warm == plain.run()
    report = compare(tmp_path / "cold.h5", tmp_path / "warm.h5")
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens == {"a": 0, "b": 64}
    assert report.coverage.compared > 1000
    assert not report.coverage.gaps


@pytest.mark.parametrize(
    ("length", "hit"), [(15, 0), (16, 0), (17, 16), (48, 32), (49, 48), (90, 80)]
)
def test_a_hit_ends_at_a_checkpoint_and_leaves_a_token(length: int, hit: int) -> None:
    """Of a prompt that was there before, all whole blocks but the last token's."""
    spy = Spy()
    engine = Engine(replace(CONFIG, layers="ga"), spy)
    engine.generate("a", FIRST, 1)
    engine.generate("b", FIRST[:length], 1)
    assert spy.hits["b"] == hit


def test_nothing_is_reused_without_caching_or_when_told_so() -> None:
    """Also not within one engine that has the prefix."""
    for caching, reuse, hit in ((True, True, 80), (True, False, 0), (False, True, 0)):
        spy = Spy()
        engine = Engine(replace(CONFIG, layers="g", caching=caching), spy)
        engine.generate("a", FIRST, 1)
        engine.submit("b", FIRST, 1, reuse=reuse)
        engine.run()
        assert spy.hits["b"] == hit


def test_blocks_without_a_checkpoint_are_declined() -> None:
    """Few slots: the checkpoint is gone while its blocks are there."""
    spy = Spy()
    engine = Engine(replace(CONFIG, layers="ga", slots=2), spy)
    engine.generate("a", FIRST, 1)
    engine.generate("b", FIRST[:60], 1)
    declined = [t for kind, name, t in spy.events if kind is EventKind.DECLINE and name == "b"]
    assert declined[0]["value"] == 48
    assert spy.hits["b"] == 0


def test_a_saved_cache_serves_another_engine(tmp_path: Path) -> None:
    """The hit is as long, and every bit is that of a cold run."""
    config = replace(CONFIG, layers="gas")
    cold, warm = Spy(), Spy()
    tokens = Engine(config, cold).generate("b", SECOND, 4)
    engine = Engine(config)
    engine.generate("a", FIRST, 4)
    engine.save(tmp_path / "cache.npz")
    loaded = Engine.load(tmp_path / "cache.npz", config, warm)
    assert loaded.generate("b", SECOND, 4) == tokens
    assert warm.hits["b"] == 64
    assert differing(warm.cells, cold.cells) == []


def test_a_saved_cache_fits_only_its_own_sizes(tmp_path: Path) -> None:
    """The message names the file."""
    Engine(CONFIG).save(tmp_path / "cache.npz")
    with pytest.raises(ValueError, match=r"cache\.npz"):
        Engine.load(tmp_path / "cache.npz", replace(CONFIG, layers="gg"))


def test_a_loaded_cache_is_recorded_with_its_writer_unknown(tmp_path: Path) -> None:
    """States that a request restores before any pass still get what they are made from."""
    engine = Engine(CONFIG)
    engine.generate("a", FIRST, 1)
    engine.save(tmp_path / "cache.npz")
    with Recorder(tmp_path / "warm.h5", arm="warm", facts=model_facts(CONFIG)) as recorder:
        Engine.load(tmp_path / "cache.npz", CONFIG, recorder).generate("b", SECOND, 2)
    with Dump.open(tmp_path / "warm.h5") as dump:
        inputs = {site.name: site.inputs for site in dump.sites}
        assert dump.requests[0].hit == 64
        assert dump.requests[0].source is None
    assert all(inputs[name] for name in ("ngram:conv", "layers.0:recurrent"))


def test_bad_requests_and_sizes_are_refused() -> None:
    """By name and number, before anything runs."""
    engine = Engine(replace(CONFIG, layers="a", blocks=2))
    engine.submit("a", FIRST)
    with pytest.raises(ValueError, match="'a'"):
        engine.submit("a", FIRST)
    with pytest.raises(ValueError, match="0 tokens"):
        engine.submit("b", [])
    with pytest.raises(CapacityError, match="request a "):
        engine.run()
    with pytest.raises(ValueError, match="'gx'"):
        EngineConfig(layers="gx")
    with pytest.raises(ValueError, match="stride"):
        EngineConfig(stride=12)


def test_some_drafts_are_accepted_and_some_are_not() -> None:
    """Both paths of the verification are exercised by the default sizes."""
    spy = Spy()
    engine = Engine(CONFIG, spy)
    for index in range(3):
        engine.submit(f"r{index}", FIRST[index : index + 40])
    engine.run()
    accepted = [t["value"] for kind, _, t in spy.events if kind is EventKind.ACCEPTED]
    assert 0 in accepted
    assert max(accepted) > 0
