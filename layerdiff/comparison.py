"""Two dumps compared: pairing, then every pair traced, then the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from layerdiff.answer import build_answer
from layerdiff.digest_store import DigestStore
from layerdiff.errors import PairingError, UsageError
from layerdiff.facts import OriginFacts
from layerdiff.fingerprint import same_architecture, same_key
from layerdiff.format.reader import Dump
from layerdiff.lineage import Line, trace_line
from layerdiff.model import Report
from layerdiff.pairing import Pair, Pairing, PairKind, pair_requests, prompts
from layerdiff.segments import SegmentIndex, index_segments
from layerdiff.shifted import find_shifted
from layerdiff.trace import Trace, Tracer


@dataclass(frozen=True, slots=True)
class Arm:
    """One opened dump with what comparing it needs."""

    dump: Dump
    index: SegmentIndex
    store: DigestStore


@dataclass(frozen=True, slots=True)
class PairTrace:
    """One pair, judged."""

    pair: Pair
    trace: Trace
    own_from: int
    """Positions below this belong to a request that is judged in a pair of its own."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is known of two dumps side by side."""

    baseline: Arm
    candidate: Arm
    pairing: Pairing
    pairs: tuple[PairTrace, ...]
    report: Report
    facts: tuple[OriginFacts | None, ...]
    """Of each origin of the report; None for tokens and weights, which are no cells."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Two dumps that fit together, with their requests paired; nothing is compared yet."""

    baseline: Arm
    candidate: Arm
    pairing: Pairing

    def compare(self) -> Comparison:
        """Does the work."""
        traces = trace_pairs(self.baseline, self.candidate, self.pairing)
        found = build_answer(self.baseline, self.candidate, self.pairing, traces)
        return Comparison(
            self.baseline, self.candidate, self.pairing, traces, found.report, found.facts
        )


def prepare(
    baseline: Dump,
    candidate: Dump,
    *,
    forced: Sequence[tuple[str, str]] | None = None,
    only: tuple[str | None, str | None] = (None, None),
    pairing: Pairing | None = None,
) -> Prepared:
    """Pairs two dumps.

    Args:
        forced: Requests to pair whatever their prompts: names in baseline and candidate.
        only: One request of the baseline and of the candidate to compare, by name.
        pairing: What belongs together, where that is known already.

    Raises:
        PairingError: Another architecture, other keys, or no common request.
        DumpError: A dump that holds no finished pass or contradicts itself.
    """
    for dump in (baseline, candidate):
        dump.require_passes()
    same_key(baseline, candidate)
    same_architecture(baseline, candidate)
    if only != (None, None) and forced:
        raise UsageError("name requests with --pair or behind '::', not both ways at once")
    if only != (None, None):
        forced = _named_pair(baseline, candidate, only)
    arms = (open_arm(baseline), open_arm(candidate))
    pairing = pairing or pair_requests(
        prompts(baseline), prompts(candidate), forced, partial(find_shifted, *arms)
    )
    return Prepared(*arms, pairing)


def compare_dumps(
    baseline: Dump,
    candidate: Dump,
    *,
    forced: Sequence[tuple[str, str]] | None = None,
    only: tuple[str | None, str | None] = (None, None),
    pairing: Pairing | None = None,
) -> Comparison:
    """Prepares and compares two dumps; see `prepare`."""
    return prepare(baseline, candidate, forced=forced, only=only, pairing=pairing).compare()


def open_arm(dump: Dump) -> Arm:
    """Indexes a dump for comparison."""
    return Arm(dump, index_segments(dump), DigestStore(dump))


def _named_pair(
    baseline: Dump, candidate: Dump, only: tuple[str | None, str | None]
) -> list[tuple[str, str]]:
    """Pairs the two named requests; where one is not named, the request with its prompt."""
    left, right = prompts(baseline, only[0]), prompts(candidate, only[1])
    if only[0] is not None and only[1] is not None:
        return [(only[0], only[1])]
    for a in left:
        for b in right:
            if a.key is not None and a.key == b.key:
                return [(a.name, b.name)]
    named = only[0] or only[1]
    raise PairingError(f"no request of the other dump has the prompt of {named!r}")


def trace_pairs(baseline: Arm, candidate: Arm, pairing: Pairing) -> tuple[PairTrace, ...]:
    """Judges every pair; a request that only filled another's cache is judged once."""
    primary = {
        pair.candidate.request for pair in pairing.pairs if pair.kind is not PairKind.PREFIX
    }
    lines = {
        pair.candidate.request: trace_line(
            candidate.dump, candidate.index, pair.candidate.request, pair.comparable
        )
        for pair in pairing.pairs
    }
    covered = {
        part.request
        for request in primary
        for part in lines[request].parts[:-1]
        if part.stop >= _length(candidate, part.request)
    }
    found = []
    for pair in pairing.pairs:
        request = pair.candidate.request
        if pair.kind is PairKind.PREFIX and request in covered:
            continue
        base = trace_line(baseline.dump, baseline.index, pair.baseline.request, pair.comparable)
        tracer = Tracer((base, baseline.store), (lines[request], candidate.store), pair.comparable)
        sides = (lines[request], base)
        own_from = min(_own_from(*sides, pairing), *(line.parts[-1].low for line in sides))
        found.append(PairTrace(pair, tracer.run(), own_from))
    return tuple(found)


def _length(arm: Arm, request: int) -> int:
    """Positions that a request read or computed."""
    return len(arm.dump.chain(request)[0])


def _own_from(line: Line, base: Line, pairing: Pairing) -> int:
    """Where a line's own cells begin: what comes before is judged against the same rows elsewhere.

    That holds for a request that filled the cache, as far as its own pair reaches, if this line's
    baseline took those rows from the very request that the filling one is paired with.
    """
    judged = 0
    for part in line.parts[:-1]:
        pair = next(
            (
                pair
                for pair in pairing.pairs
                if pair.candidate.request == part.request and pair.kind is not PairKind.PREFIX
            ),
            None,
        )
        if pair is None or pair.comparable < part.stop:
            return judged
        same = any(
            other.request == pair.baseline.request
            and other.start <= part.start
            and part.stop <= other.stop
            for other in base.parts
        )
        if not same:
            return judged
        judged = part.stop
    return judged
