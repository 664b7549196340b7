"""Which control decides which cause, and what an origin comes to once controls have spoken."""

from collections.abc import Sequence

from layerdiff.causes import judge
from layerdiff.controls import rulings
from layerdiff.controls.decision import Decision
from layerdiff.controls.kernels import decide_kernel, has_mates
from layerdiff.controls.plan import ControlRun
from layerdiff.describe import origin_kind
from layerdiff.facts import OriginFacts
from layerdiff.model import Origin
from layerdiff.slots import shared_slot
from layerdiff.vocabulary import Cause, Moment, OriginKind

_BY_REUSE = (
    *(Cause.KEY_COLLISION, Cause.DRAFTER_STATE, Cause.STATE_ZERO, Cause.STATE_WRONG_POSITION),
    *(Cause.STATE_NOT_WRITTEN, Cause.LAYOUT, Cause.DTYPE_REQUANT, Cause.KV_ORDER),
    *(Cause.KV_LENGTH, Cause.KV_MIXED_ORIGIN, Cause.KV_OVERWRITTEN, Cause.STATE_FOREIGN),
    *(Cause.STATE_CORRUPTED, Cause.ROPE_REGIME, Cause.ROPE_OFFSET, Cause.MASK_SEAM),
    *(Cause.KV_READ_PATH, Cause.PARTIAL_MERGE, Cause.COMPILE_MODE),
)
DECIDED_BY = {
    **dict.fromkeys(_BY_REUSE, "no-state"),
    Cause.PAD_CONTAMINATION: "solo",
    Cause.BATCH_COMPOSITION: "solo",
    Cause.STALE_READ: "poison-slack",
}
"""The control that takes a cause away, and only that."""
TOLD = frozenset(
    {
        *(Cause.ROPE_REGIME, Cause.ROPE_OFFSET, Cause.MASK_SEAM, Cause.COMPILE_MODE),
        *(Cause.KV_READ_PATH, Cause.STALE_READ, Cause.DRAFTER_STATE, Cause.KV_LENGTH),
    }
)
"""Causes that may rest on a launch fact alone, which may follow from the chunk alone."""


def decided_by(cause: Cause, facts: OriginFacts) -> str | None:
    """The name of the control that decides whether a cause is one; None where none does."""
    if cause is Cause.OUTPUT_BUFFER and has_mates(facts):
        return "solo"
    if cause is Cause.STATE_FOREIGN and _shares_its_slot(facts):
        return "solo"
    return DECIDED_BY.get(cause)


def _shares_its_slot(facts: OriginFacts) -> bool:
    """Whether another request holds the origin's slot at the same time."""
    made = facts.pass_of(1)
    return made is not None and bool(
        shared_slot(facts.trace.candidate.dump, facts.trace.candidate.request, made)
    )


def decide(origin: Origin, facts: OriginFacts, controls: Sequence[ControlRun]) -> Decision:
    """What the controls that ran say of one origin."""
    named = {control.name: control for control in controls}
    decision = Decision(origin.cause)
    if _noise(facts, controls, decision):
        return decision
    _refute(origin, facts, named, decision)
    kernel = origin_kind(facts) in (OriginKind.KERNEL, OriginKind.GLUE)
    if decision.cause is Cause.UNKNOWN and kernel:
        decide_kernel(facts, named, decision)
    elif (name := decided_by(decision.cause, facts)) in named:
        _decide_by_removal(named[name], facts, decision)
    elif decision.cause is Cause.STALE_READ:
        decision.open = True
        decision.add("zeroing the bytes that no token owns was tried (poison-slack)", False)
    return decision


def _noise(facts: OriginFacts, controls: Sequence[ControlRun], decision: Decision) -> bool:
    """Whether repeats differ here; then nothing else is decided."""
    runs = [c for c in controls if c.name.startswith(("cold-repeat", "warm-repeat"))]
    for control in runs:
        found = rulings.noise(control, facts)
        if found is None:
            continue
        report = control.comparison.report
        arms = f"{control.name} differs from {report.baseline.arm} at this site"
        if not found.same_launch:
            decision.open = True
            decision.add(f"{arms} too, but ran it in other chunks: scheduling does not repeat")
        elif not found.as_large:
            decision.add(f"{arms} too, at token {found.position}, far less than the arms do here")
        else:
            decision.cause, decision.mechanism = Cause.NONDETERMINISM, True
            decision.add(
                f"{arms} too, at token {found.position}, with equal inputs, chunks and kernels: "
                "it does not repeat"
            )
            return True
    changed = [c.name for c in runs if rulings.repeats(c, facts) is False]
    if changed and not facts.find.jump:
        decision.noisy = True
        decision.add(f"the cell differs between repeats as well ({', '.join(changed)})")
        return True
    return False


def _refute(
    origin: Origin, facts: OriginFacts, named: dict[str, ControlRun], decision: Decision
) -> None:
    """Takes away causes that a control shows to explain nothing; the next that fits comes up."""
    for cause in (origin.cause, *origin.also):
        because = None if cause is Cause.UNKNOWN else _refutation(cause, facts, named)
        if because is None:
            decision.cause = cause
            return
        decision.rule_out(cause, because)
    decision.cause = Cause.UNKNOWN


def _refutation(cause: Cause, facts: OriginFacts, named: dict[str, ControlRun]) -> str | None:
    """Why a cause explains nothing here; None where nothing speaks against it."""
    zeroed = named.get("poison-slack") if cause is Cause.STALE_READ else None
    if zeroed is not None and rulings.gone(zeroed, facts) is False:
        return "with the bytes that no token owns zeroed the arms differ all the same"
    split = named.get("cold-split")
    made = facts.find.moment is Moment.COMPUTED and not facts.find.breach
    if split is None or cause not in TOLD or not made:
        return None
    if rulings.same_cell(split, facts) and not facts.find.jump:
        return "the same chunks without reuse (cold-split) give the candidate's bits"
    apart = rulings.twin_origin(split, facts)
    if apart is not None and cause not in {r.cause for r in judge(apart) if r.fits}:
        return "cold-split was told the same and gives other bits: the fact does not explain it"
    return None


def _decide_by_removal(control: ControlRun, facts: OriginFacts, decision: Decision) -> None:
    arm = control.name
    words = {
        "no-state": "with the hit declined and the prefix computed again",
        "solo": "without batch mates",
        "poison-slack": "with the bytes that no token owns zeroed",
    }[control.name]
    made = facts.find.moment is Moment.COMPUTED
    if control.name == "solo" and made and not rulings.same_chunk(control, facts):
        decision.open = True
        decision.add(f"{words} ({arm}) the row was computed in the same chunk", False)
        return
    gone = rulings.gone(control, facts)
    if gone:
        decision.mechanism = not decision.open
        decision.add(f"{words} ({arm}), the arms agree here")
    elif gone is False:
        decision.open = True
        decision.add(f"{words} ({arm}), the arms differ here all the same")
