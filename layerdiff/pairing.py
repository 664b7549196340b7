"""Which request of the baseline belongs to which request of the candidate, proved by their tokens.

Positions are only compared while the token chains of both requests agree, so a shifted or repeated
token, or a generated token that flipped, ends the comparison instead of spoiling it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from layerdiff.errors import PairingError
from layerdiff.format.reader import Dump


class PairKind(Enum):
    """Why two requests were paired."""

    PROMPT = "the same given tokens"
    FORCED = "asked for with --pair"
    PREFIX = "its tokens begin the other's prompt"
    SHIFTED = "the same tokens, shifted from some position on"


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens of one request, as a chain of digests."""

    request: int
    name: str
    chain: NDArray[np.uint64]
    """Digest of all tokens up to each position, from position 0 on."""
    given: int
    """How many leading tokens the user gave; the rest was generated."""

    @property
    def key(self) -> int | None:
        """Digest of the given tokens; None when none are known."""
        return int(self.chain[self.given - 1]) if self.given else None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests that are compared, and how far."""

    baseline: Prompt
    candidate: Prompt
    kind: PairKind
    comparable: int
    """Positions below this hold the same tokens in both."""
    shift: int = 0
    """From there on the candidate holds the tokens that the baseline has this much later."""

    @property
    def mismatch_at(self) -> int | None:
        """The first position whose given tokens differ, if any."""
        given = min(self.baseline.given, self.candidate.given)
        if self.comparable < given:
            return self.comparable
        if self.kind is PairKind.FORCED and self.baseline.given != self.candidate.given:
            return given
        return None


@dataclass(frozen=True, slots=True)
class Pairing:
    """All pairs, and what found no partner."""

    pairs: tuple[Pair, ...]
    unpaired_baseline: tuple[Prompt, ...]
    unpaired_candidate: tuple[Prompt, ...]
    ties: tuple[str, ...]


def prompts(dump: Dump, only: str | None = None) -> list[Prompt]:
    """The token chains of a dump's requests, or of the one called *only*."""
    found = [_prompt(dump, index, name) for index, name in enumerate(labels(dump))]
    if only is None:
        return found
    chosen = [prompt for prompt in found if prompt.name == only]
    if not chosen:
        names = ", ".join(prompt.name for prompt in found[:8]) or "none"
        raise PairingError(f"{dump.path}: no request is called {only!r}; it has {names}")
    return chosen


def labels(dump: Dump) -> list[str]:
    """One name for each request; where several share one, the later ones are ``name#2``, ..."""
    seen: dict[str, int] = defaultdict(int)
    found = []
    for request in dump.requests:
        seen[request.name] += 1
        count = seen[request.name]
        found.append(request.name if count == 1 else f"{request.name}#{count}")
    return found


def _prompt(dump: Dump, request: int, name: str) -> Prompt:
    positions, chain, given = dump.chain(request)
    known = int(np.argmin(np.append(positions == np.arange(len(positions)), False)))
    count = int(np.argmin(np.append(given[:known], False)))
    return Prompt(request, name, chain[:known], count)


def pair_requests(
    baseline: list[Prompt],
    candidate: list[Prompt],
    forced: Sequence[tuple[str, str]] | None = None,
    shifted: Callable[[list[Prompt], list[Prompt]], list[Pair]] = lambda _b, _c: [],
) -> Pairing:
    """Pairs by what was asked for, then by prompt, then by order.

    Args:
        forced: Names of a baseline and a candidate request; only these are compared.
        shifted: Finds pairs among requests without a partner whose tokens are shifted.

    Raises:
        PairingError: Nothing can be paired.
    """
    if forced:
        pairs = [_forced(baseline, candidate, a, b) for a, b in forced]
        return Pairing(tuple(pairs), (), (), ())
    by_key: dict[int, list[Prompt]] = defaultdict(list)
    for prompt in baseline:
        if prompt.key is not None:
            by_key[prompt.key].append(prompt)
    pairs, ties, taken = [], [], set()
    seen: dict[int, int] = defaultdict(int)
    for prompt in candidate:
        same = by_key.get(prompt.key, []) if prompt.key is not None else []
        if not same:
            continue
        turn = seen[prompt.key or 0]
        seen[prompt.key or 0] += 1
        partner = same[min(turn, len(same) - 1)]
        taken.add(partner.request)
        pairs.append(_pair(partner, prompt, PairKind.PROMPT))
        if turn or len(same) > 1:
            ties.append(
                f"several requests have the prompt of {prompt.name!r}: paired by order "
                f"with {partner.name!r}"
            )
    lone = [prompt for prompt in baseline if prompt.request not in taken]
    matched = {pair.candidate.request for pair in pairs}
    found = shifted(lone, [prompt for prompt in candidate if prompt.request not in matched])
    taken |= {pair.baseline.request for pair in found}
    pairs += found
    if not pairs:
        raise PairingError(_nothing_pairs(baseline, candidate))
    pairs += _prefixes(baseline, candidate, pairs)
    paired = {pair.candidate.request for pair in pairs}
    return Pairing(
        tuple(sorted(pairs, key=lambda pair: pair.candidate.request)),
        tuple(prompt for prompt in baseline if prompt.request not in taken),
        tuple(prompt for prompt in candidate if prompt.request not in paired),
        tuple(ties),
    )


def _prefixes(baseline: list[Prompt], candidate: list[Prompt], pairs: list[Pair]) -> list[Pair]:
    """A request whose tokens all begin another's prompt filled its cache: it is compared too."""
    paired = {pair.candidate.request for pair in pairs}
    found = []
    for prompt in candidate:
        if prompt.request in paired or not prompt.given:
            continue
        for other in baseline:
            if common_prefix(other.chain, prompt.chain) >= prompt.given:
                found.append(_pair(other, prompt, PairKind.PREFIX))
                break
    return found


def _pair(baseline: Prompt, candidate: Prompt, kind: PairKind) -> Pair:
    return Pair(baseline, candidate, kind, common_prefix(baseline.chain, candidate.chain))


def _forced(baseline: list[Prompt], candidate: list[Prompt], a: str, b: str) -> Pair:
    sides = []
    for side, wanted, prompts_ in (("baseline", a, baseline), ("candidate", b, candidate)):
        match = [prompt for prompt in prompts_ if prompt.name == wanted]
        if not match:
            names = ", ".join(prompt.name for prompt in prompts_[:8]) or "none"
            raise PairingError(f"the {side} has no request called {wanted!r}; it has {names}")
        sides.append(match[0])
    return _pair(sides[0], sides[1], PairKind.FORCED)


def common_prefix(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> int:
    """How many leading positions hold the same tokens."""
    size = min(len(a), len(b))
    return int(np.argmin(np.append(a[:size] == b[:size], False)))


def _nothing_pairs(baseline: list[Prompt], candidate: list[Prompt]) -> str:
    if not any(p.given for p in baseline) or not any(p.given for p in candidate):
        side = "candidate" if any(p.given for p in baseline) else "baseline"
        return (
            f"no common request: the tokens of the {side}'s requests are not known; name them "
            "with recorder.request(id, token_ids)"
        )
    best = max(
        ((common_prefix(a.chain, b.chain), a.name, b.name) for a in baseline for b in candidate),
        key=lambda found: found[0],
    )
    return (
        f"no common request: the prompts differ (closest are {best[1]!r} and {best[2]!r}, equal "
        f"up to position {best[0]}); --pair {best[1]}={best[2]} compares them that far"
    )
