"""Which requests of two runs are compared, where one of them has more than the other.

What only fills the cache of one run would otherwise be judged by a prompt that it begins: its own
tail and what it generates are none of what a control repeats.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from layerdiff.format.reader import Dump
from layerdiff.lineage import trace_line
from layerdiff.pairing import Pair, Pairing, PairKind, Prompt, common_prefix, prompts
from layerdiff.segments import index_segments

Both = tuple[Prompt, Prompt]


def find_partners(
    baseline: Dump, candidate: Dump, *, mates: bool = True, helpers: Collection[str] = ()
) -> Pairing | None:
    """Requests by name, and by prompt those that the engine calls otherwise.

    Left out is what has neither a namesake nor, where it matters, a twin. Where that is a request
    of the baseline, or one of the candidate that was served from a cache, it is told as unpaired.

    Args:
        mates: False where one run leaves out requests because it was asked to.
        helpers: Names of requests that only fill the cache or share a batch: never missed.

    Returns:
        None if the runs have the same names, or nothing at all in common.
    """
    ours, theirs = prompts(candidate), prompts(baseline)
    if [prompt.name for prompt in ours] == [prompt.name for prompt in theirs]:
        return None
    served = {p.request for p in ours if candidate.requests[p.request].hit != 0}
    found = _namesakes(theirs, ours, served)
    twins, ties = _twins(theirs, ours, found, served)
    found += twins
    more = _more_twins(theirs, _without(ours, found, 1), served)
    if more:
        filled = _filled(candidate, [prompt for _, prompt in found])
        more = [pair for pair in more if pair[1].request not in filled]
    found += more
    ties += [_tie(*pair) for pair in more]
    if not found:
        return None
    paired = [{pair[side].request for pair in found} for side in (0, 1)]
    lone = [p for p in theirs if p.request not in paired[0]] if mates else []
    lone = [p for p in lone if p.name not in helpers]
    left = [p for p in ours if p.request not in paired[1] and p.request in served]
    left = [p for p in left if p.name not in helpers]
    pairs = [Pair(a, b, PairKind.FORCED, common_prefix(a.chain, b.chain)) for a, b in found]
    pairs.sort(key=lambda pair: pair.candidate.request)
    return Pairing(tuple(pairs), tuple(lone), tuple(left), tuple(ties))


def _namesakes(theirs: Sequence[Prompt], ours: Sequence[Prompt], served: set[int]) -> list[Both]:
    """Requests of one name, unless an engine that counts its requests gave it to another one."""
    named = {prompt.name: prompt for prompt in ours}
    both = [(prompt, named[prompt.name]) for prompt in theirs if prompt.name in named]
    found = [pair for pair in both if pair[0].key == pair[1].key]
    for pair in both:
        if pair not in found and not _renumbered(pair, theirs, _without(ours, found, 1), served):
            found.append(pair)
    return found


def _renumbered(
    pair: Both, theirs: Sequence[Prompt], ours: Sequence[Prompt], served: set[int]
) -> bool:
    """Whether the prompt of a baseline's request runs under another name in the candidate.

    A request that was given other tokens by mistake looks alike where an earlier one filled the
    cache with the right ones: nothing served the filling one, and no run asks for the others.
    """
    first, second = pair
    twins = {prompt.request for prompt in _by_key(ours).get(first.key, [])}
    fills = second.request not in served and any(_begins(second, prompt) for prompt in theirs)
    asked = second.key in _by_key(theirs)
    return bool(twins) and (bool(twins & served) or asked or fills)


def _begins(filling: Prompt, prompt: Prompt) -> bool:
    return 0 < filling.given <= common_prefix(filling.chain, prompt.chain)


def _twins(
    theirs: Sequence[Prompt], ours: Sequence[Prompt], found: Sequence[Both], served: set[int]
) -> tuple[list[Both], list[str]]:
    """Requests without a namesake, by prompt and then by order; and where that was a choice.

    Where the candidate has more of one prompt, those that no cache served filled it.
    """
    lone = _by_key(_without(theirs, found, 0))
    known = _by_key(theirs)
    pairs, ties = [], []
    for key, some in _by_key(_without(ours, found, 1)).items():
        partners = lone.get(key, [])
        spare = max(len(some) - len(partners), 0)
        idle = [prompt.request for prompt in some if prompt.request not in served][:spare]
        asked = [prompt for prompt in some if prompt.request not in idle]
        chosen = list(zip(partners, asked, strict=False))
        pairs += chosen
        ties += [_tie(*pair) for pair in chosen if len(known[key]) > 1]
    return pairs, ties


def _more_twins(theirs: Sequence[Prompt], ours: Sequence[Prompt], served: set[int]) -> list[Both]:
    """Requests that a cache served, with the last of the baseline that has their prompt."""
    known = _by_key(theirs)
    return [
        (known[prompt.key][-1], prompt)
        for prompt in ours
        if prompt.request in served and prompt.key in known
    ]


def _filled(dump: Dump, compared: Sequence[Prompt]) -> set[int]:
    """Requests that filled the cache of those compared, whose rows are compared with theirs."""
    index = index_segments(dump)
    lines = (trace_line(dump, index, prompt.request, len(prompt.chain)) for prompt in compared)
    return {part.request for line in lines for part in line.parts[:-1]}


def _tie(baseline: Prompt, candidate: Prompt) -> str:
    return (
        f"several requests have the prompt of {candidate.name!r}: paired by order with "
        f"{baseline.name!r}"
    )


def _without(some: Sequence[Prompt], found: Sequence[Both], side: int) -> list[Prompt]:
    taken = {pair[side].request for pair in found}
    return [prompt for prompt in some if prompt.request not in taken]


def _by_key(some: Sequence[Prompt]) -> dict[int | None, list[Prompt]]:
    found: dict[int | None, list[Prompt]] = defaultdict(list)
    for prompt in some:
        if prompt.key is not None:
            found[prompt.key].append(prompt)
    return found
