"""Hits that were accepted for another text."""

import json
from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, EventKind
from tests.layerdiff.causes.cache_scene import OTHER, TOKENS, Run, cold, first, key, state

HIT = 8
CLASH = (*OTHER[:4], *TOKENS[4:HIT])
"""Another text whose last tokens are the same."""


def looked_up(
    path: Path, *, of: str | None, clash: bool, keyed: bool = True, salt: str = ""
) -> Path:
    """A request that was served what "fill" left, under a key."""
    tokens = CLASH if clash else TOKENS[:HIT]
    with Run(path, "warm", salt) as run:
        fill = run.request("fill", tokens)
        run.step(fill, 0, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        facts = {"key": "k1", "candidate": "k1"} if keyed else {}
        if of:
            facts |= {"of": "aa", "stored_of": of}
        run.event(EventKind.LOOKUP, request=request, value=HIT, text=json.dumps(facts))
        wrong = CLASH if clash else OTHER
        rows = {p: key(wrong, p) for p in range(HIT)}
        run.step(request, HIT, 14, read=rows, found=state(wrong, HIT))
    return path


@pytest.mark.parametrize("salt", ["", "h."])
@pytest.mark.parametrize("of", ["bb", None])
def test_a_key_that_stands_for_two_texts_is_named(
    tmp_path: Path, of: str | None, salt: str
) -> None:
    """By what it was made of, or by the tokens of the request that filled it."""
    broken = looked_up(tmp_path / "b.h5", of=of, clash=True, salt=salt)
    origin = first(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    assert origin.cause is Cause.KEY_COLLISION


def test_foreign_rows_under_an_honest_key_are_foreign(tmp_path: Path) -> None:
    """The look-alike: the lookup was right, and what was read was not."""
    broken = looked_up(tmp_path / "b.h5", of="aa", clash=False)
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is not Cause.KEY_COLLISION
    assert Cause.KEY_COLLISION in {ruled.cause for ruled in origin.ruled_out}


def test_a_cache_without_keys_has_no_collision(tmp_path: Path) -> None:
    """A cache that was handed over by hand was not looked up by key."""
    broken = looked_up(tmp_path / "b.h5", of=None, clash=True, keyed=False)
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is Cause.STATE_FOREIGN
