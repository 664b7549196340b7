"""What a comparison came to, as plain records: nothing here reads, computes or prints."""

from dataclasses import dataclass, field
from typing import Any

from layerdiff.vocabulary import Cause, Confidence, Level, OriginKind, SizeClass, Verdict


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two dumps."""

    path: str
    arm: str
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Where:
    """The pass that made a cell."""

    request_id: str
    pass_index: int
    phase: str
    start: int
    stop: int
    """The half-open slice of the request's positions that this pass covered."""


@dataclass(frozen=True, slots=True)
class KernelSide:
    """The kernel of one arm, as recorded."""

    name: str
    facts: dict[str, Any]
    where: Where | None


@dataclass(frozen=True, slots=True)
class KernelPair:
    """The kernels that made the two sides of a cell."""

    baseline: KernelSide | None
    candidate: KernelSide | None
    source: str | None
    """File and line of the code, such as ``modeling_qwen3_next.py:660``."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A recorded fact that bears on an origin."""

    fact: str
    holds: bool


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A cause that the recorded facts exclude."""

    cause: Cause
    because: str


@dataclass(frozen=True, slots=True)
class Severity:
    """How far the two sides are apart, estimated from the sketches."""

    relative: float | None
    """Euclidean distance over the baseline's norm; None without sketches."""
    incoming: float | None
    """The largest relative difference among the inputs."""
    size: SizeClass


@dataclass(frozen=True, slots=True)
class ReachOut:
    """What lies downstream of an origin and differs."""

    cells: int
    layers: tuple[int, ...]
    logits: bool
    top1_flips: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """A cell that differs although all it depends on agrees, or a jump in size."""

    rank: int
    request_id: str
    role: str
    layer_index: int | None
    layer_kind: str
    site: str
    tensor: str
    moment: str | None
    position: int
    positions: int
    """How many cells of this site and pass are origins too, this one included."""
    level: Level
    origin_kind: OriginKind
    cause: Cause
    also: tuple[Cause, ...]
    confidence: Confidence
    kernel: KernelPair
    evidence: tuple[Evidence, ...]
    ruled_out: tuple[RuledOut, ...]
    severity: Severity
    reach: ReachOut
    next_step: str
    proved: tuple[str, ...] = ()
    """Claims that a control decided: location, mechanism, completeness."""
    digests: tuple[str | None, str | None] = (None, None)
    """Of the first cell: baseline and candidate, 16 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class ArmCause:
    """Something about a whole arm that decides what the comparison is worth."""

    cause: Cause
    because: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much was compared; cells are rows and states."""

    compared: int = 0
    differing: int = 0
    carried: int = 0
    """Unchanged since the recorder last hashed them, and not hashed again."""
    explained: int = 0
    """Seen in one arm only, and accounted for by lineage or inside the arm."""
    not_comparable: int = 0
    """Past the first generated token that flipped."""
    missing_in_baseline: int = 0
    missing_in_candidate: int = 0
    hit_tokens: dict[str, int | None] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """Another comparison that bears on this one, such as a repeat or a split cold run."""

    name: str
    baseline: str
    candidate: str
    verdict: Verdict
    says: str
    """What follows from it, and what does not."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A cause whose own effect cannot be seen, since what comes in differs already."""

    cause: Cause
    fact: str
    """What was recorded of it."""
    role: str
    layer_index: int | None
    site: str
    position: int
    masked_by: int
    """Rank of the origin that hides it."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the engine gave out, compared; equal text is no evidence of equal bits."""

    tokens_compared: int
    """Generated tokens at the same positions of both arms, up to the first that differs."""
    texts_differ: int
    """Requests whose generated tokens differ: what follows a flip is another text."""
    first_flip: int | None
    """Position of the first generated token that differs."""
    accepted_differ: int | None
    """Rounds that accepted another number of drafts; None unless both arms recorded some."""
    logits_compared: int
    logits_differ: int
    topk: str | None
    """At the first row that differs: ``reorder`` of ties, ``shift`` of values, ``flip`` of the
    choice; None where nothing differs or no top-k was recorded."""
    says: str


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer."""

    verdict: Verdict
    baseline: Side
    candidate: Side
    coverage: Coverage
    origins: tuple[Origin, ...]
    arm_causes: tuple[ArmCause, ...]
    warnings: tuple[str, ...]
    rounding_before: int = 0
    """Origins of bits, rounding-sized, that come before the first jump."""
    sketched: bool = True
    controls: tuple[Control, ...] = ()
    masked: tuple[Masked, ...] = ()
    outputs: Outputs | None = None
