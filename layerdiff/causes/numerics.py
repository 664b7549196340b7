"""Causes in how a kernel was run on inputs that agree, and choices that amplify rounding."""

from layerdiff.causes.ruling import Ruling
from layerdiff.choices import same_choices
from layerdiff.facts import OriginFacts
from layerdiff.incoming import beyond_rounding, comes_in, distance_of, norms, site_of
from layerdiff.launch import chunk, given, launched_alike, pad_rows
from layerdiff.vocabulary import Cause, Reach, TensorKind

_CHOICES = frozenset({TensorKind.TOPK, TensorKind.ROUTER})
_SLACK = 3.0
"""A flip needs a margin of at most 1.42 times the scores' distance, which is an estimate."""


def stale_read(facts: OriginFacts) -> Ruling | None:
    """stale-read: a kernel read bytes that no token owns, and they differ."""
    coming, slack = comes_in(facts), given(facts, "slack")
    if coming is None or slack is None:
        return None
    if not slack.differs:
        return Ruling(Cause.STALE_READ, False, "the bytes that no token owns are equal too")
    beyond = beyond_rounding(facts)
    alone = launched_alike(facts, but="slack")
    if beyond is None and not alone:
        return None
    if not beyond and not alone:
        words = "they differ in bytes that no token owns, but by rounding, and the launch differs"
        return Ruling(Cause.STALE_READ, False, words)
    only = ", and nothing else of the launch does" if alone else ""
    return Ruling(
        Cause.STALE_READ,
        True,
        f"the bytes that the kernel may read though no token owns them differ{only}; {coming}",
    )


def pad_contamination(facts: OriginFacts) -> Ruling | None:
    """pad-contamination: pad rows of the pass reached a value that sums up real tokens."""
    coming, passes = comes_in(facts), [facts.pass_of(side) for side in (0, 1)]
    if coming is None or passes[0] is None or passes[1] is None or not _sums_up(facts):
        return None
    if not any(len(line.dump.pads) for line in facts.lines):
        return None
    base, cand = pad_rows(facts.lines[0], passes[0]), pad_rows(facts.lines[1], passes[1])
    # Rows come before trailing pads: only what is left behind them can hold any.
    reached = base != cand if facts.site.kind.is_state else base[0] != cand[0]
    if not reached:
        words = f"no other pad rows came before it than in the baseline ({_pads(cand)})"
        return Ruling(Cause.PAD_CONTAMINATION, False, words)
    beyond = beyond_rounding(facts)
    if beyond is None:
        return None
    words = f"the pass had {_pads(cand)} pad rows, and the baseline's {_pads(base)}"
    if not beyond:
        words = f"{words}, but the difference is rounding-sized"
    return Ruling(Cause.PAD_CONTAMINATION, beyond, f"{words}; {coming}" if beyond else words)


def _sums_up(facts: OriginFacts) -> bool:
    """Whether a value carries earlier rows of its pass on, or is kept for later passes."""
    return facts.site.kind.is_state or facts.site.kind.is_kv or facts.site.reach is Reach.STATE


def _pads(rows: tuple[int, int]) -> str:
    return "no" if rows == (0, 0) else f"{rows[0]} leading and {rows[1]} trailing"


def compile_mode(facts: OriginFacts) -> Ruling | None:
    """compile-mode: eager in one arm, compiled or replayed from a graph in the other."""
    coming, mode = comes_in(facts), given(facts, "mode")
    if coming is None or mode is None:
        return None
    if not mode.differs:
        return Ruling(Cause.COMPILE_MODE, False, f"both kernels ran {mode.candidate}")
    same = chunk(facts, 0) == chunk(facts, 1)
    chunks = "the chunk is the same" if same else "the chunks differ too"
    words = f"the kernel ran {mode.candidate}, and {mode.baseline} in the baseline"
    return Ruling(Cause.COMPILE_MODE, True, f"{words}; {chunks}; {coming}")


def discrete_tie(facts: OriginFacts) -> Ruling | None:
    """discrete-tie: a choice flips on a margin smaller than what its scores differ by."""
    site, at = facts.site, facts.find.position
    if site.kind not in _CHOICES or facts.find.breach:
        return None
    inputs = [site_of(facts, index) for index in site.inputs]
    scores = [other for other in inputs if other.kind is not TensorKind.SCALE]
    margins = [other for other in inputs if other.kind is TensorKind.SCALE]
    found = [sizes[0] for other in margins if (sizes := norms(facts, other, at)) is not None]
    apart = [far for other in scores if (far := distance_of(facts, other, at)) is not None]
    if not found or not apart:
        return None
    margin, far = min(found), max(apart)
    cells = facts.cell(0), facts.cell(1)
    reordered = same_choices(facts.lines[0].dump, cells[0], facts.lines[1].dump, cells[1])
    if reordered and far > 0:
        words = f"it is the same set in another order, and its scores differ by {far:.1e}"
        return Ruling(Cause.DISCRETE_TIE, True, f"{words}: a tie among those that were chosen")
    same = "; it is the same set in another order" if reordered else ""
    words = f"the margin of the choice is {margin:.1e}, and its scores differ by {far:.1e}{same}"
    if margin > _SLACK * far:
        return Ruling(Cause.DISCRETE_TIE, False, words)
    return Ruling(Cause.DISCRETE_TIE, True, f"{words}: a tie, which makes a jump out of that")
