"""What an origin inside a kernel comes to: ignored state, mates, another kernel or shape."""

import math

import numpy as np

from layerdiff.controls import rulings
from layerdiff.controls.decision import Decision
from layerdiff.controls.plan import ControlRun
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.vocabulary import Cause, TensorKind


def decide_kernel(facts: OriginFacts, named: dict[str, ControlRun], decision: Decision) -> None:
    """In this order, since each looks like the next where it was not tried."""
    if _ignores_state(facts, named, decision):
        return
    if not facts.find.bits:
        decision.open = True
        decision.add("inputs differ already: no run at other chunks tells what this kernel adds")
        return
    if _batch(facts, named, decision):
        return
    split = named.get("cold-split")
    if split is None:
        return
    equal = rulings.same_cell(split, facts)
    if equal:
        _same_chunks(facts, decision)
    elif equal is False and rulings.parts_there(split, facts):
        _other_kernel(split, facts, decision)


def _same_chunks(facts: OriginFacts, decision: Decision) -> None:
    decision.cause = Cause.SHAPE_DISPATCH
    decision.add("the same chunks without reuse (cold-split) give the candidate's bits")
    because = "cold-split takes the same way at the same chunks"
    decision.rule_out(Cause.KERNEL_MISMATCH, because)
    _limit_to_rounding(facts, decision)
    decision.mechanism = not decision.open


def _other_kernel(split: ControlRun, facts: OriginFacts, decision: Decision) -> None:
    apart = rulings.twin_origin(split, facts)
    expected, taken = (None, None) if apart is None else (apart.kernel(0), apart.kernel(1))
    if apart is None or expected is None or taken is None or expected.name == taken.name:
        decision.add("the same chunks without reuse (cold-split) give other bits here")
        decision.open = True
        return
    decision.cause = Cause.KERNEL_MISMATCH
    decision.add(
        f"the same chunks without reuse (cold-split) take {expected.name} and give other bits, "
        f"inputs agreeing: only a run that reuses takes {taken.name} there"
    )
    because = "the baseline's code at the candidate's chunks does not give the candidate's bits"
    decision.rule_out(Cause.SHAPE_DISPATCH, because)
    usual, split_off = facts.digests(0), apart.digests(0)
    if usual is None or split_off is None or not np.array_equal(usual, split_off):
        decision.open = True
        decision.add(f"{expected.name} at these chunks gives the baseline's bits", False)
    _limit_to_rounding(facts, decision)
    decision.mechanism = not decision.open


def _limit_to_rounding(facts: OriginFacts, decision: Decision) -> None:
    """Another order of arithmetic rounds otherwise; what is larger asks for another reason."""
    if math.isnan(facts.find.relative):
        decision.open = True
        decision.add("the difference is known to be no more than rounding (no sketches)", False)
    elif facts.find.jump:
        decision.open = True
        decision.add("the difference is no more than another order of arithmetic explains", False)


def _ignores_state(facts: OriginFacts, named: dict[str, ControlRun], decision: Decision) -> bool:
    """Whether a state that was restored changes nothing; each cached input is asked by itself."""
    if not begins_behind_a_hit(facts):
        return False
    unsettled = []
    for cached in rulings.cached_inputs(facts):
        name = poison_name(cached)
        poison = None if name is None else named.get(name)
        read = None if poison is None else rulings.reads(poison, facts, cached)
        if read is False:
            decision.cause, decision.mechanism = Cause.STATE_IGNORED, True
            decision.add(
                f"overwriting the {cached.kind.word.replace('_', ' ')} that this layer restored "
                "changes no bit of what it computes"
            )
            because = "a shape that gives other bits still reads what was restored"
            decision.rule_out(Cause.SHAPE_DISPATCH, because)
            return True
        if read is None:
            unsettled.append(cached.kind.word.replace("_", " "))
    if unsettled:
        decision.open = True
        words = " and ".join(dict.fromkeys(unsettled))
        decision.add(f"overwriting the {words} that was restored shows that it is read", False)
    elif rulings.cached_inputs(facts):
        because = "overwriting what this layer restored changes what it computes"
        decision.rule_out(Cause.STATE_IGNORED, because)
    return False


def _batch(facts: OriginFacts, named: dict[str, ControlRun], decision: Decision) -> bool:
    if not has_mates(facts):
        return False
    solo = named.get("solo")
    if solo is None or not rulings.same_chunk(solo, facts):
        decision.open = True
        decision.add("the row was computed in the same chunk without its batch mates", False)
        return False
    equal = rulings.same_cell(solo, facts)
    if equal:
        decision.cause, decision.mechanism = Cause.BATCH_COMPOSITION, True
        decision.add("in the same chunk without batch mates (solo) the baseline's bits come out")
    elif equal is False:
        because = "the row alone (solo) differs from the baseline too"
        decision.rule_out(Cause.BATCH_COMPOSITION, because)
    return bool(equal)


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


def poison_name(cached: Site) -> str | None:
    """The control that overwrites one cached input of a layer; None outside any layer."""
    if cached.role.word == "drafter":
        return "poison-drafter"
    if cached.layer_index is None:
        return None
    what = "-conv" if cached.kind is TensorKind.CONV_STATE else ""
    return f"poison-layer-{cached.layer_index}{what}"


def poisons(facts: OriginFacts) -> list[str]:
    """The controls that tell whether an origin's site reads what was restored."""
    if not begins_behind_a_hit(facts):
        return []
    return [n for site in rulings.cached_inputs(facts) if (n := poison_name(site)) is not None]
