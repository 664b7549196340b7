"""Which control decides which cause, and what an origin without a cause comes to."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from layerdiff.controls import rulings
from layerdiff.controls.plan import ControlRun
from layerdiff.describe import origin_kind
from layerdiff.facts import OriginFacts
from layerdiff.model import Evidence, Origin, RuledOut
from layerdiff.slots import shared_slot
from layerdiff.vocabulary import Cause, OriginKind

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


@dataclass(slots=True)
class Decision:
    """What controls add to an origin."""

    cause: Cause
    mechanism: bool = False
    """Whether a control decided the cause."""
    noisy: bool = False
    open: bool = False
    """Whether a look-alike is left that a control could have excluded."""
    evidence: list[Evidence] = field(default_factory=list)
    ruled_out: list[RuledOut] = field(default_factory=list)

    def add(self, fact: str, holds: bool = True) -> None:
        """One more fact."""
        self.evidence.append(Evidence(fact, holds))


def decide(origin: Origin, facts: OriginFacts, controls: Sequence[ControlRun]) -> Decision:
    """What the controls that ran say of one origin."""
    named = {control.name: control for control in controls}
    decision = Decision(origin.cause)
    if _noise(facts, controls, decision):
        return decision
    if origin.cause is Cause.UNKNOWN and origin_kind(facts) in (
        OriginKind.KERNEL,
        OriginKind.GLUE,
    ):
        _decide_kernel(facts, named, decision)
    elif (name := decided_by(origin.cause, facts)) in named:
        _decide_by_removal(named[name], facts, decision)
    return decision


def _noise(facts: OriginFacts, controls: Sequence[ControlRun], decision: Decision) -> bool:
    """Whether repeats differ here; then nothing else is decided."""
    runs = [c for c in controls if c.name.startswith(("cold-repeat", "warm-repeat"))]
    for control in runs:
        at = rulings.noisy_site(control, facts)
        if at is not None:
            decision.cause, decision.mechanism = Cause.NONDETERMINISM, True
            arms = control.comparison.report
            decision.add(
                f"{arms.candidate.arm} differs from {arms.baseline.arm} at this site too, at "
                f"token {at}, with equal inputs, chunks and kernels: it does not repeat"
            )
            return True
    changed = [c.name for c in runs if rulings.repeats(c, facts) is False]
    if changed:
        decision.noisy = True
        decision.add(f"the cell differs between repeats as well ({', '.join(changed)})")
    return bool(changed)


def _decide_by_removal(control: ControlRun, facts: OriginFacts, decision: Decision) -> None:
    arm = control.comparison.report.candidate.arm
    gone = rulings.gone(control, facts)
    words = {
        "no-state": "with the hit declined and the prefix computed again",
        "solo": "without batch mates",
        "poison-slack": "with the bytes that no token owns zeroed",
    }[control.name]
    if gone:
        decision.mechanism = True
        decision.add(f"{words} ({arm}), the arms agree here")
    elif gone is False:
        decision.open = True
        decision.add(f"{words} ({arm}), the arms differ here all the same")


def _decide_kernel(facts: OriginFacts, named: dict[str, ControlRun], decision: Decision) -> None:
    """Ignored state, batch mates, another kernel or another shape: in this order."""
    if _ignores_state(facts, named, decision) or _batch(facts, named, decision):
        return
    split = named.get("cold-split")
    if split is None:
        return
    equal = rulings.same_cell(split, facts)
    if equal:
        decision.cause = Cause.SHAPE_DISPATCH
        decision.mechanism = not decision.open
        decision.add("the same chunks without reuse (cold-split) give the candidate's bits")
        decision.ruled_out.append(
            RuledOut(Cause.KERNEL_MISMATCH, "cold-split takes the same way at the same chunks")
        )
    elif equal is False and rulings.parts_there(split, facts):
        _mismatch(split, facts, decision)


def _ignores_state(facts: OriginFacts, named: dict[str, ControlRun], decision: Decision) -> bool:
    if not rulings.cached_inputs(facts) or not begins_behind_a_hit(facts):
        return False
    name = poison_name(facts)
    poison = None if name is None else named.get(name)
    read = None if poison is None else rulings.reads_what_was_restored(poison, facts)
    if read is False:
        decision.cause, decision.mechanism = Cause.STATE_IGNORED, True
        decision.add("overwriting what this layer restored changes no bit of what it computes")
        because = "equal bits of cold-split would only say that it ignores its state there too"
        decision.ruled_out.append(RuledOut(Cause.SHAPE_DISPATCH, because))
    elif read:
        because = "overwriting what this layer restored changes what it computes"
        decision.ruled_out.append(RuledOut(Cause.STATE_IGNORED, because))
    else:
        decision.open = True
        decision.add("whether this layer reads what was restored was not tried (poison)", False)
    return read is False


def _batch(facts: OriginFacts, named: dict[str, ControlRun], decision: Decision) -> bool:
    if not has_mates(facts):
        return False
    solo = named.get("solo")
    equal = None if solo is None else rulings.same_cell(solo, facts)
    if equal:
        decision.cause, decision.mechanism = Cause.BATCH_COMPOSITION, True
        decision.add("without its batch mates (solo) the row has the baseline's bits")
        return True
    if equal is None:
        decision.open = True
        decision.add("the row was not computed without its batch mates (solo)", False)
    else:
        because = "the row alone (solo) differs from the baseline too"
        decision.ruled_out.append(RuledOut(Cause.BATCH_COMPOSITION, because))
    return False


def _mismatch(split: ControlRun, facts: OriginFacts, decision: Decision) -> None:
    apart = rulings.twin_origin(split, facts)
    expected, taken = (None, None) if apart is None else (apart.kernel(0), apart.kernel(1))
    if expected is None or taken is None or expected.name == taken.name:
        decision.add("the same chunks without reuse (cold-split) give other bits here")
        decision.open = True
        return
    decision.cause = Cause.KERNEL_MISMATCH
    decision.mechanism = not decision.open
    decision.add(
        f"the same chunks without reuse (cold-split) take {expected.name} and give other bits, "
        f"inputs agreeing: only a run that reuses takes {taken.name} there"
    )
    because = "the baseline's code at the candidate's chunks does not give the candidate's bits"
    decision.ruled_out.append(RuledOut(Cause.SHAPE_DISPATCH, because))


def begins_behind_a_hit(facts: OriginFacts) -> bool:
    """Whether the origin's pass stands on positions that it did not compute."""
    return facts.pass_of(1) is not None and rulings.pass_start(facts) > 0


def has_mates(facts: OriginFacts) -> bool:
    """Whether other requests went through the origin's pass."""
    index, dump = facts.pass_of(1), facts.lines[1].dump
    if index is None:
        return False
    spans = dump.rowset(int(dump.passes[index]["rowset"]))
    return len(set(spans["request"].tolist())) > 1


def poison_name(facts: OriginFacts) -> str | None:
    """The control that overwrites what the origin's layer restored; None outside any layer."""
    if facts.site.role.word == "drafter":
        return "poison-drafter"
    if facts.site.layer_index is None:
        return None
    return f"poison-layer-{facts.site.layer_index}"
