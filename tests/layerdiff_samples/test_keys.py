"""Keys that stand for more than one text."""

from pathlib import Path

from layerdiff.vocabulary import Cause, Confidence, Verdict
from layerdiff_samples.cases import CASES
from layerdiff_samples.cases.reading import ATTENTION, HIT, PLAIN
from tests.layerdiff_samples.hunting import first, hunted, ruled_out


def test_a_key_that_covers_too_little(tmp_path: Path) -> None:
    """All that was taken over is another text's: states at the hit, rows from the first on."""
    report = hunted(CASES["key-collision"], tmp_path)
    assert {origin.cause for origin in report.origins} == {Cause.KEY_COLLISION}
    assert {origin.confidence for origin in report.origins} == {Confidence.PROVED}
    origin = first(report)
    assert (origin.tensor, origin.moment, origin.position) == ("conv_state", "in", HIT)
    rows = [o for o in report.origins if o.tensor == "kv_key"]
    assert [(o.layer_index, o.position) for o in rows] == [(ATTENTION, 0)]
    assert ruled_out(origin, Cause.STATE_ZERO)
    assert ruled_out(origin, Cause.STATE_WRONG_POSITION)


def test_the_writer_is_named(tmp_path: Path) -> None:
    """It was observed: nobody is told to record it."""
    report = hunted(CASES["key-collision"], tmp_path)
    assert any("'fill'" in gap and "other tokens" in gap for gap in report.coverage.gaps)
    assert all("record the passes" not in origin.next_step for origin in report.origins)


def test_the_same_keys_on_texts_that_they_tell_apart(tmp_path: Path) -> None:
    """A hit on what both texts share, and no more."""
    report = hunted(CASES["key-collision-other-end"], tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens["r1"] == HIT - PLAIN.block
