"""Causes that show where an attention kernel's own inputs agree: rotary embedding, mask, merge."""

from layerdiff.causes.ruling import Ruling
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.incoming import beyond_rounding, comes_in, site_of, state_at
from layerdiff.launch import Given, given, rope_position
from layerdiff.segments import expand
from layerdiff.vocabulary import Cause, Moment, TensorKind

_ROTATED = frozenset(
    {TensorKind.QUERY, TensorKind.KV_KEY, TensorKind.INDEXER_KEY, TensorKind.DRAFTER_KEY}
)
_NOT_ROTATED = frozenset({TensorKind.KV_VALUE, TensorKind.DRAFTER_VALUE})
_PARTIAL = frozenset({TensorKind.AUX, TensorKind.ATTENTION_OUT})
_FREQUENCIES = ("rope_base", "rope_scaling")


def rope_regime(facts: OriginFacts) -> Ruling | None:
    """rope-regime: rows were rotated with other frequencies."""
    coming = _rotated(facts)
    told = {name: pair for name in _FREQUENCIES if (pair := given(facts, name))}
    if coming is None or not told:
        return None
    changed = {name: pair for name, pair in told.items() if pair.differs}
    if not changed:
        return Ruling(Cause.ROPE_REGIME, False, "both arms rotated with the same frequencies")
    if _values_differ(facts):
        return Ruling(Cause.ROPE_REGIME, False, "values, which are not rotated, differ too")
    words = ", ".join(f"{name} {_words(pair)}" for name, pair in changed.items())
    return Ruling(
        Cause.ROPE_REGIME, True, f"{words}{_values_words(facts)}; before the rotation {coming}"
    )


def rope_offset(facts: OriginFacts) -> Ruling | None:
    """rope-offset: the rotary embedding was given another position than in the baseline."""
    coming = _rotated(facts)
    passes = [facts.pass_of(side) for side in (0, 1)]
    if coming is None or passes[0] is None or passes[1] is None:
        return None
    at = facts.find.position
    told = [
        rope_position(line, index, at)
        for line, index in zip(facts.lines, passes, strict=True)
        if index is not None
    ]
    if told == [None, None]:
        return None
    base, cand = (at if position is None else position for position in told)
    if base == cand:
        words = f"both arms rotated the row for position {cand}"
        return Ruling(Cause.ROPE_OFFSET, False, words)
    if _values_differ(facts):
        return Ruling(Cause.ROPE_OFFSET, False, "values, which are not rotated, differ too")
    return Ruling(
        Cause.ROPE_OFFSET,
        True,
        f"the rotary embedding was given position {cand} for token {at}, and {base} in the "
        f"baseline{_values_words(facts)}; before the rotation {coming}",
    )


def _rotated(facts: OriginFacts) -> str | None:
    """What comes into a row that a rotary embedding turns; None for other origins."""
    return comes_in(facts) if facts.site.kind in _ROTATED else None


def _values(facts: OriginFacts) -> list[State]:
    """What the comparison says of the values that belong to a key or query."""
    site = facts.site
    return [
        state_at(facts, other, facts.find.position)
        for other in facts.trace.order
        if (other.layer_index, other.role) == (site.layer_index, site.role)
        and other.kind in _NOT_ROTATED
    ]


def _values_differ(facts: OriginFacts) -> bool:
    # Behind a jump the values carry what came in; only bits tell then, and they are no witness.
    return facts.find.bits and State.DIFFERS in _values(facts)


def _values_words(facts: OriginFacts) -> str:
    return "; the values agree" if State.AGREES in _values(facts) else ""


def mask_seam(facts: OriginFacts) -> Ruling | None:
    """mask-seam: the kernel was told of another mask, so that other rows were visible."""
    coming = comes_in(facts) if _reads_kv(facts) else None
    masks = given(facts, "mask")
    if coming is None or masks is None:
        return None
    if not masks.differs:
        return Ruling(Cause.MASK_SEAM, False, "both kernels were given the same mask")
    if beyond_rounding(facts) is False:
        words = f"the masks are {_words(masks)}, but the difference is rounding-sized"
        return Ruling(Cause.MASK_SEAM, False, words)
    return Ruling(Cause.MASK_SEAM, True, f"the mask is {_words(masks)}; {coming}")


def _reads_kv(facts: OriginFacts) -> bool:
    site = facts.site
    inputs = [site_of(facts, index) for index in site.inputs]
    return not site.kind.is_kv and any(other.kind.is_kv for other in inputs)


def partial_merge(facts: OriginFacts) -> Ruling | None:
    """partial-merge: the parts of a split kernel agree, and what they were merged to does not."""
    if not facts.find.bits or comes_in(facts) is None:
        return None
    parts = [site for site in _parts_of(facts, facts.site) if _is_split(facts, site)]
    if not parts:
        return None
    lacking = [
        site for site in parts if state_at(facts, site, facts.find.position) is not State.AGREES
    ]
    if lacking:
        words = f"the arms have other partial results: {lacking[0].name} was not compared"
        return Ruling(Cause.PARTIAL_MERGE, False, words)
    names = ", ".join(site.name for site in parts)
    return Ruling(
        Cause.PARTIAL_MERGE, True, f"the partial results agree ({names}), the merged one does not"
    )


def _is_split(facts: OriginFacts, site: Site) -> bool:
    """Whether a kernel that made a site's row, or the origin's, says in how many parts.

    What is made of such parts was merged already: its kernel says how many it took.
    """
    if site.kind is TensorKind.AUX and given(facts, "splits") is not None:
        return True
    if any(_is_split(facts, part) for part in _parts_of(facts, site)):
        return False
    return _says_splits(facts, site)


def _parts_of(facts: OriginFacts, site: Site) -> list[Site]:
    """Inputs of a site that may be partial results."""
    inputs = [site_of(facts, index) for index in site.inputs]
    return [other for other in inputs if other.kind in _PARTIAL]


def _says_splits(facts: OriginFacts, site: Site) -> bool:
    """Whether the kernel of a site's row says in how many parts."""
    line = facts.lines[1]
    at = facts.find.position
    cells = expand(line.rows(site.index, Moment.COMPUTED).clip(at, at + 1))
    index = int(line.dump.observations["kernel"][cells.observation[-1]]) if len(cells) else -1
    return 0 <= index < len(line.dump.kernels) and "splits" in line.dump.kernels[index].facts


def _words(pair: Given) -> str:
    return f"{pair.candidate} here and {pair.baseline} in the baseline"
