"""One origin in full: both sides of its first cell, why it is there, and what was ruled out."""

import numpy as np

from layerdiff.causes import Ruling, judge
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.model import (
    Evidence,
    KernelPair,
    KernelSide,
    Origin,
    ReachOut,
    RuledOut,
    Severity,
    Where,
)
from layerdiff.next_steps import STEPS
from layerdiff.outputs import top1_flips
from layerdiff.vocabulary import (
    Cause,
    Confidence,
    Level,
    Moment,
    OriginKind,
    Phase,
    Role,
    SizeClass,
    TensorKind,
)


def describe(facts: OriginFacts) -> Origin:
    """The origin as the report shows it; its rank is set by whoever orders them."""
    find, site = facts.find, facts.site
    rulings = judge(facts)
    fitting = [ruling for ruling in rulings if ruling.fits]
    cause = fitting[0].cause if fitting else Cause.UNKNOWN
    kernel = _kernels(facts)
    return Origin(
        rank=0,
        request_id=_request_name(facts),
        role=site.role.word,
        layer_index=site.layer_index,
        layer_kind=site.layer_kind,
        site=site.name,
        tensor=site.kind.word,
        moment=None if find.moment is Moment.COMPUTED and not _cached(facts) else find.moment.word,
        position=find.position,
        positions=len(find.positions),
        level=Level.JUMP if find.jump else Level.BITS,
        origin_kind=origin_kind(facts),
        cause=cause,
        also=tuple(ruling.cause for ruling in fitting[1:]),
        confidence=Confidence.CONSISTENT
        if fitting and _writer_known(facts)
        else Confidence.SUSPECTED,
        kernel=kernel,
        evidence=tuple(_evidence(facts, kernel, fitting)),
        ruled_out=tuple(RuledOut(r.cause, r.because) for r in rulings if not r.fits),
        severity=_severity(facts),
        reach=_reach(facts),
        next_step=_next_step(facts, cause),
        digests=(_hex(facts, 0), _hex(facts, 1)),
    )


def _cached(facts: OriginFacts) -> bool:
    return facts.site.kind.is_state or facts.site.kind.is_kv


def origin_kind(facts: OriginFacts) -> OriginKind:
    """What lies between the inputs that agree and the cell that differs."""
    site = facts.site
    if _cached(facts) and (facts.find.breach or facts.find.moment is not Moment.COMPUTED):
        left_by_kernel = site.kind.is_state and facts.find.moment is Moment.OUT
        if facts.find.breach or not left_by_kernel:
            return OriginKind.STATE
    if not site.inputs and site.role is Role.TARGET and site.layer_index is None:
        return OriginKind.INPUT
    if site.glue:
        return OriginKind.GLUE
    return OriginKind.KERNEL


def _request_name(facts: OriginFacts) -> str:
    where = _where(facts, 1)
    return where.request_id if where else facts.lines[1].dump.requests[facts.lines[1].request].name


def _where(facts: OriginFacts, side: int) -> Where | None:
    """The pass in which one arm made or saw the cell."""
    index = facts.pass_of(side)
    if index is None:
        return None
    line, dump = facts.lines[side], facts.lines[side].dump
    pass_ = dump.passes[index]
    spans = dump.rowset(int(pass_["rowset"]))
    members = {part.request for part in line.parts}
    for span in spans:
        if int(span["request"]) in members:
            return Where(
                dump.requests[int(span["request"])].name,
                index,
                Phase(int(pass_["phase"])).word,
                int(span["start"]),
                int(span["stop"]),
            )
    name = dump.requests[line.request].name
    return Where(name, index, "between passes", facts.find.position, facts.find.position)


def _kernels(facts: OriginFacts) -> KernelPair:
    sides: list[KernelSide | None] = []
    source = None
    for side in (0, 1):
        kernel, where = facts.kernel(side), _where(facts, side)
        if kernel is None and where is None:
            sides.append(None)
            continue
        known = dict(kernel.facts) if kernel else {}
        if where is not None:
            known |= {"T_q": where.stop - where.start, "T_kv": where.stop}
        sides.append(KernelSide(kernel.name if kernel else "", known, where))
        source = (kernel.source or None) if kernel and side else source
    return KernelPair(sides[0], sides[1], source)


def _evidence(facts: OriginFacts, kernel: KernelPair, fitting: list[Ruling]) -> list[Evidence]:
    find, trace = facts.find, facts.trace
    found = [Evidence(ruling.because, True) for ruling in fitting]
    names = facts.site.inputs
    if find.breach and not fitting:
        found.append(
            Evidence("the bits are not those that the same arm last saw of this value", True)
        )
    elif find.breach:
        pass
    elif find.bits and names:
        found += _input_evidence(facts)
    elif find.bits:
        found.append(Evidence("nothing observed comes before it", True))
    else:
        found.append(
            Evidence(
                f"inputs differ already, by at most {find.incoming:.1e}; here the difference is "
                f"{find.relative:.1e}",
                True,
            )
        )
    chunks = [side.where for side in (kernel.baseline, kernel.candidate) if side and side.where]
    if len(chunks) == 2 and find.moment is Moment.COMPUTED:
        same = (chunks[0].start, chunks[0].stop) == (chunks[1].start, chunks[1].stop)
        found.append(
            Evidence("both arms ran the same chunk" if same else "the arms ran other chunks", True)
        )
    found += _rotary_evidence(facts)
    if trace.candidate.unobserved:
        source = trace.candidate.foreign_source
        found.append(
            Evidence(
                "nothing recorded says who wrote the cached prefix"
                if source is None
                else f"request {source!r} filled the cached prefix, with other tokens",
                True,
            )
        )
    if find.jump and not find.bits and _holds_a_router(kernel):
        found.append(
            Evidence(
                "a router is inside: a tie that flips can make this jump out of rounding", True
            )
        )
    return found


def _input_evidence(facts: OriginFacts) -> list[Evidence]:
    """Which inputs agree, and which one of the arms never showed there."""
    agree: list[str] = []
    unseen: list[str] = []
    where = _where(facts, 1)
    begins = where is not None and where.start == 0
    for index in facts.site.inputs:
        site = facts.lines[1].dump.sites[index]
        if begins and site.kind.is_state:
            continue
        (agree if _was_compared(facts, site) else unseen).append(site.name)
    found = [Evidence(f"inputs that agree: {', '.join(agree)}", True)] if agree else []
    if begins and any(facts.lines[1].dump.sites[i].kind.is_state for i in facts.site.inputs):
        found.append(Evidence("no state was read: the pass begins its request", True))
    if unseen:
        words = f"not compared, since one arm never showed it there: {', '.join(unseen)}"
        found.append(Evidence(words, True))
    return found


def _was_compared(facts: OriginFacts, site: Site) -> bool:
    """Whether an input was seen in both arms where the origin's pass used it."""
    at = facts.find.position
    if not site.kind.is_state:
        column = facts.trace.columns.get((site.index, Moment.COMPUTED))
        return column is not None and bool(column.diff.state[at] >= State.AGREES)
    where = _where(facts, 1)
    if where is None:
        return False
    states = [facts.trace.columns.get((site.index, m)) for m in (Moment.IN, Moment.OUT)]
    return any(c is not None and c.diff.state[where.start] >= State.AGREES for c in states)


def _rotary_evidence(facts: OriginFacts) -> list[Evidence]:
    """What the rotary embedding was given, where that is not the position."""
    found = []
    for side, name in ((0, "baseline"), (1, "candidate")):
        dump, index = facts.lines[side].dump, facts.pass_of(side)
        for row in dump.rope[dump.rope["pass_index"] == index] if index is not None else ():
            offset = facts.find.position - int(row["start"])
            given = int(row["first"]) + offset * int(row["step"])
            if 0 <= offset < int(row["stop"]) - int(row["start"]) and given != facts.find.position:
                fact = f"{name}: the rotary embedding was given position {given} for this token"
                found.append(Evidence(fact, True))
    return found


def _holds_a_router(kernel: KernelPair) -> bool:
    side = kernel.candidate
    return side is not None and any(word in side.name for word in ("Moe", "MoE", "Sparse"))


def _writer_known(facts: OriginFacts) -> bool:
    return not facts.trace.candidate.unobserved or facts.find.position >= (
        facts.trace.candidate.unobserved
    )


def _severity(facts: OriginFacts) -> Severity:
    relative, incoming = facts.find.relative, facts.find.incoming
    if np.isnan(relative):
        return Severity(None, None, SizeClass.UNKNOWN)
    size = SizeClass.JUMP if facts.find.jump else SizeClass.ROUNDING
    return Severity(relative, None if np.isnan(incoming) else incoming, size)


def _reach(facts: OriginFacts) -> ReachOut:
    """What differs at or after the origin's position in sites that come after it."""
    trace, find = facts.trace, facts.find
    depth = {site.index: at for at, site in enumerate(trace.order)}
    cells, layers, logits = 0, set(), False
    for column in trace.columns.values():
        if depth[column.site.index] < depth[facts.site.index]:
            continue
        count = int((column.diff.state[find.position :] == State.DIFFERS).sum())
        if count:
            cells += count
            if column.site.layer_index is not None:
                layers.add(column.site.layer_index)
            logits |= column.site.kind is TensorKind.LOGITS
    flips = top1_flips(trace, find.position)
    return ReachOut(cells, tuple(sorted(layers)), logits, flips)


def _next_step(facts: OriginFacts, cause: Cause) -> str:
    line = facts.trace.candidate
    if line.unobserved and line.foreign_source is None and _cached(facts):
        return "record the passes that filled the cache too: the warm arm begins with an empty one"
    if cause is not Cause.UNKNOWN:
        if origin_kind(facts) is OriginKind.STATE:
            return STEPS.get(cause, STEPS[Cause.STATE_CORRUPTED])
        return f"look at what {facts.site.name} is computed with in the candidate alone"
    if origin_kind(facts) is OriginKind.GLUE:
        return f"look at the code between {facts.site.name} and what comes before it"
    return (
        "compare cold-split (the same chunks without reuse) with warm: equal bits clear the "
        "cache's plumbing and leave the kernel at these shapes"
    )


def _hex(facts: OriginFacts, side: int) -> str | None:
    digests = facts.digests(side)
    if digests is None:
        return None
    return " ".join(f"{int(value):016x}" for value in digests)
