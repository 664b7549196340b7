"""A stock hybrid model on a reused prefix: the report agrees with raw tensors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from layerdiff.commands.diff import compare_files
from layerdiff.model import Report
from layerdiff.vocabulary import OriginKind, SizeClass, Verdict
from tests.prefix import PREFIXES, Experiment


@pytest.fixture(scope="module", params=[1, 2], ids=["one thread", "two threads"])
def experiment(request: Any, tmp_path_factory: Any) -> Iterator[Experiment]:
    """The model, with the number of threads set."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    with torch.no_grad():
        yield Experiment(tmp_path_factory.mktemp("prefix"))
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def cold(experiment: Experiment) -> Path:
    """The cold dump."""
    return experiment.cold()


def report(baseline: Path, candidate: Path) -> Report:
    """Compares two dumps."""
    return compare_files(str(baseline), str(candidate)).report


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_first_origin_is_where_raw_tensors_part(
    experiment: Experiment, cold: Path, prefix: int
) -> None:
    """First layer and token, in the pass that computed it; identical where they are."""
    truth = experiment.truth(prefix)
    found = report(cold, experiment.warm(prefix))
    if truth is None:
        assert found.verdict is Verdict.IDENTICAL
        return
    first = found.origins[0]
    assert found.verdict is Verdict.DIVERGED
    assert (first.layer_index, first.position) == truth
    assert first.origin_kind is OriginKind.KERNEL
    assert first.severity.size is SizeClass.ROUNDING
    side = first.kernel.candidate
    assert side is not None
    assert side.where is not None
    filling = truth[1] < prefix
    assert side.where.request_id == ("fill" if filling else "r1")
    assert (side.where.start, side.where.stop) == ((0, prefix) if filling else (prefix, 200))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_split_cold_equals_warm_unless_a_bit_is_planted(
    experiment: Experiment, prefix: int
) -> None:
    """The same chunks without reuse give the same bits; one flipped bit in the copy is found."""
    split = experiment.cold_split(prefix)
    assert report(split, experiment.warm(prefix)).verdict is Verdict.IDENTICAL
    found = report(split, experiment.warm(prefix, flip))
    assert found.verdict is Verdict.DIVERGED
    first = found.origins[0]
    assert (first.layer_index, first.position, first.tensor, first.moment) == (
        3, 24, "kv_key", "in"
    )  # fmt: skip


def flip(cache: Any) -> None:
    """Flips the lowest bit of one key: layer 3, token 24."""
    bits = cache.layers[3].keys[0, 1, 24, 5].view(torch.int32)
    bits ^= 1


def test_a_cache_that_went_through_a_file_is_recognised(experiment: Experiment) -> None:
    """Saved and loaded, the cache is another object with the same bits: its writer is known."""
    split, warm = experiment.cold_split(70), experiment.warm(70, through_disk=True)
    found = report(split, warm)
    assert found.verdict is Verdict.IDENTICAL
    assert found.coverage.hit_tokens == {"fill": 0, "r1": 70}


def test_a_writer_that_was_not_recorded_is_unobserved(experiment: Experiment, cold: Path) -> None:
    """Recorded from the reuse on, the report says that nobody saw the prefix being written."""
    found = report(cold, experiment.warm(70, from_reuse_on=True))
    assert any("unobserved" in gap for gap in found.coverage.gaps)
    assert found.verdict is not Verdict.IDENTICAL
    healthy = report(cold, experiment.warm(70))
    assert not any("unobserved" in gap for gap in healthy.coverage.gaps)
