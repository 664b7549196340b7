"""Rows of one restored prefix that come from several passes."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, EventKind, Verdict
from tests.layerdiff.causes.cache_scene import (
    OTHER,
    TOKENS,
    Run,
    cold,
    compare,
    first,
    key,
    state,
)

HIT = 8
ONE_CHUNK = {p: key(TOKENS, p, 0.25) for p in range(HIT)}
"""Keys of the prefix as a pass over a longer chunk computes them."""
SHORT = (*TOKENS[:10], 0, 0)


def threshold(
    path: Path,
    *,
    salt: str = "",
    read: dict[int, object] | None = None,
    source: str = "b",
    told: bool = True,
    overwritten: bool = False,
) -> Path:
    """Two requests fill the cache: "a" in one chunk, "b" in two; "r" takes a's rows, b's state."""
    with Run(path, "warm", salt) as run:
        one = run.request("a", SHORT)
        run.event(EventKind.KV_WRITE, request=one, span=(0, 12), place=(3, 1), text="kv")
        a = run.step(one, 0, 12, made=ONE_CHUNK)
        two = run.request("b", TOKENS)
        run.event(EventKind.KV_WRITE, request=two, span=(0, HIT), place=(5, 1), text="kv")
        b = run.step(two, 0, HIT)
        run.step(two, HIT, 14)
        known = {"a": one, "b": two}
        request = run.request("r", TOKENS, hit=HIT, source=known[source])
        if overwritten:
            run.event(EventKind.KV_WRITE, request=two, span=(0, 12), place=(3, 2), text="kv")
        if told:
            run.event(EventKind.STATE_READ, request=request, span=(HIT, HIT + 1), source=(two, b))
            run.event(
                EventKind.KV_READ,
                request=request,
                span=(0, HIT),
                source=(one, a),
                place=(3, 1),
                text="kv",
            )
        run.step(request, HIT, 14, read=ONE_CHUNK if read is None else read)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("salt", ["", "u."])
@pytest.mark.parametrize(("source", "told"), [("b", True), ("a", True), ("b", False)])
def test_rows_and_state_of_two_requests_are_named(
    tmp_path: Path, source: str, told: bool, salt: str
) -> None:
    """Each healthy for itself; the evidence names both writers with their chunks."""
    broken = threshold(tmp_path / "b.h5", source=source, told=told, salt=salt)
    report = compare(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    origin = report.origins[0]
    assert (origin.cause, origin.position) == (Cause.KV_MIXED_ORIGIN, 0)
    fact = origin.evidence[0].fact
    assert f"request '{salt}a', pass 0, [0, 12)" in fact
    assert f"request '{salt}b', pass 1, [0, 8)" in fact


def test_rows_shared_with_equal_bits_are_no_origin(tmp_path: Path) -> None:
    """Two writers are healthy as long as their bits agree."""
    with Run(tmp_path / "b.h5", "warm") as run:
        one = run.request("a", SHORT)
        run.step(one, 0, 12)
        two = run.request("b", TOKENS)
        b = run.step(two, 0, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=one)
        run.event(EventKind.STATE_READ, request=request, span=(HIT, HIT + 1), source=(two, b))
        run.step(request, HIT, 14)
    report = compare(cold(tmp_path / "a.h5", 8, 14), run.path)
    assert report.origins == ()
    assert report.verdict is not Verdict.DIVERGED


def test_rows_under_another_prefix_are_foreign(tmp_path: Path) -> None:
    """The look-alike: bits that some other text gave."""
    with Run(tmp_path / "b.h5", "warm") as run:
        one = run.request("a", OTHER)
        run.step(one, 0, 14)
        two = run.request("b", TOKENS[:HIT])
        run.step(two, 0, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=two)
        run.step(request, HIT, 14, read={p: key(OTHER, p) for p in range(HIT)})
    assert first(cold(tmp_path / "a.h5", 8, 14), run.path).cause is Cause.STATE_FOREIGN


def test_rows_that_nobody_wrote_are_corrupted(tmp_path: Path) -> None:
    """The look-alike: bits that no pass gave."""
    broken = threshold(tmp_path / "b.h5", read={p: key(TOKENS, p, 0.75) for p in range(HIT)})
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is Cause.STATE_CORRUPTED
    assert Cause.KV_MIXED_ORIGIN in {ruled.cause for ruled in origin.ruled_out}


def test_a_replay_that_keeps_old_rows_is_named(tmp_path: Path) -> None:
    """From an anchor at 4 on a request computes all, but rows 4 to 7 stay as they were."""
    old = {p: key(TOKENS, p, 0.25) for p in range(4, HIT)}
    with Run(tmp_path / "b.h5", "warm") as run:
        fill = run.request("fill", TOKENS[:HIT])
        run.step(fill, 0, 4)
        run.step(fill, 4, HIT, made=old)
        request = run.request("r", TOKENS, hit=4, source=fill)
        run.step(request, 4, 10)
        run.step(request, 10, 14, read=old)
    with Run(tmp_path / "a.h5", "cold") as run_a:
        r = run_a.request("r", TOKENS)
        for start, stop in ((0, 4), (4, 10), (10, 14)):
            run_a.step(r, start, stop)
    origin = first(run_a.path, run.path)
    assert (origin.cause, origin.position) == (Cause.KV_MIXED_ORIGIN, 4)


def test_a_state_of_another_pass_is_named(tmp_path: Path) -> None:
    """The other half: the rows go with one request, the state with another."""
    with Run(tmp_path / "b.h5", "warm") as run:
        one = run.request("a", SHORT)
        run.step(one, 0, HIT, left=state(TOKENS, HIT, 0.25))
        two = run.request("b", TOKENS)
        run.step(two, 0, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=two)
        run.step(request, HIT, 14, found=state(TOKENS, HIT, 0.25))
    origin = first(cold(tmp_path / "a.h5", 8, 14), run.path)
    assert (origin.cause, origin.tensor) == (Cause.KV_MIXED_ORIGIN, "recurrent_state")
