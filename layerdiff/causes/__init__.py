"""Why an origin is there: one rule a cause, each a pure function of recorded facts."""

from layerdiff.causes.attention import mask_seam, partial_merge, rope_offset, rope_regime
from layerdiff.causes.casts import dtype_requant
from layerdiff.causes.drafter import drafter_state
from layerdiff.causes.inputs import request_mismatch
from layerdiff.causes.keys import key_collision
from layerdiff.causes.kv import kv_length, kv_order
from layerdiff.causes.layout import layout
from layerdiff.causes.mixed import kv_mixed_origin
from layerdiff.causes.numerics import compile_mode, discrete_tie, pad_contamination, stale_read
from layerdiff.causes.outputs import output_buffer
from layerdiff.causes.rewritten import kv_overwritten, kv_read_path
from layerdiff.causes.rollback import rollback_missing
from layerdiff.causes.ruling import Ruling
from layerdiff.causes.state import corrupted, foreign, wrong_position, zero
from layerdiff.causes.unwritten import state_not_written
from layerdiff.facts import OriginFacts

__all__ = ["RULES", "Ruling", "judge"]

RULES = (
    request_mismatch,
    key_collision,
    drafter_state,
    zero,
    rollback_missing,
    wrong_position,
    state_not_written,
    layout,
    dtype_requant,
    kv_order,
    kv_length,
    kv_mixed_origin,
    kv_overwritten,
    foreign,
    corrupted,
    rope_regime,
    rope_offset,
    mask_seam,
    kv_read_path,
    stale_read,
    pad_contamination,
    partial_merge,
    output_buffer,
    discrete_tie,
    compile_mode,
)
"""In order of precedence; the first that fits is the cause, others stand under `also`."""


def judge(facts: OriginFacts) -> list[Ruling]:
    """What every rule says of an origin; rules that do not apply to it say nothing."""
    return [ruling for rule in RULES if (ruling := rule(facts)) is not None]
