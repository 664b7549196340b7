"""The words of layerdiff: one name per idea in code, dumps, reports and help.

Every enumeration here is written to dumps as a number, so a member's number never changes and
new members are appended. Reports and the command line use the lower-case name.
"""

from enum import IntEnum, StrEnum


class _Word(IntEnum):
    """A number in a dump, a word everywhere else."""

    @property
    def word(self) -> str:
        """The name as users read and write it, such as ``kv_key``."""
        return self.name.lower()


class Phase(_Word):
    """What a pass does for the tokens in it."""

    PREFILL = 0
    DECODE = 1
    VERIFY = 2
    DRAFT = 3
    REPLAY = 4
    MIXED = 5


class Role(_Word):
    """Whose layer it is."""

    TARGET = 0
    DRAFTER = 1


class TensorKind(_Word):
    """What a tensor is."""

    HIDDEN = 0
    RESIDUAL = 1
    QUERY = 2
    KV_KEY = 3
    KV_VALUE = 4
    LATENT = 5
    INDEXER_KEY = 6
    ATTENTION_OUT = 7
    RECURRENT_STATE = 8
    CONV_STATE = 9
    DRAFTER_HIDDEN = 10
    DRAFTER_KEY = 11
    DRAFTER_VALUE = 12
    LOGITS = 13
    ROUTER = 14
    TOPK = 15
    SCALE = 16
    AUX = 17
    OP = 18

    @property
    def is_state(self) -> bool:
        """Whether the tensor sums up a prefix, so that its position counts tokens consumed."""
        return self in (TensorKind.RECURRENT_STATE, TensorKind.CONV_STATE)

    @property
    def is_kv(self) -> bool:
        """Whether the tensor is a cached row of one token."""
        return self in _KV_KINDS


_KV_KINDS = frozenset(
    {
        TensorKind.KV_KEY,
        TensorKind.KV_VALUE,
        TensorKind.LATENT,
        TensorKind.INDEXER_KEY,
        TensorKind.DRAFTER_KEY,
        TensorKind.DRAFTER_VALUE,
    }
)


class Moment(_Word):
    """When a tensor was seen."""

    COMPUTED = 0
    """As made, after rotary embedding; the only moment of tensors that are not cached."""
    IN = 1
    """As read by a pass."""
    OUT = 2
    """As left by a pass, or found at the end of a request."""
    SAVED = 3
    RESTORED = 4


class Reach(_Word):
    """Which positions of its inputs a site's row at position p depends on."""

    ROW = 0
    """Only on p."""
    PREFIX = 1
    """On every position up to p of the request."""
    STATE = 2
    """Like PREFIX, and what lies between two rows of one pass is carried inside the kernel."""


class EventKind(_Word):
    """What happened to a cache, a request or the recording itself."""

    KV_WRITE = 0
    KV_READ = 1
    STATE_WRITE = 2
    STATE_READ = 3
    ALLOC = 4
    FREE = 5
    MOVE = 6
    TRUNCATE = 7
    ROLLBACK = 8
    EVICT = 9
    DECLINE = 10
    LOOKUP = 11
    ACCEPTED = 12
    OFFSET = 13
    GAP = 14
    """Something was not observed; the text says what."""
    WARNING = 15
    FAULT = 16
    """layerdiff itself failed here: the dump is incomplete."""
    CAST = 17
    """Rows were cast or quantised on their way into a cache."""


class OriginKind(StrEnum):
    """What lies between the inputs that agree and the output that differs."""

    KERNEL = "kernel"
    STATE = "state"
    GLUE = "glue"
    INPUT = "input"


class Level(StrEnum):
    """How an origin stands out."""

    BITS = "bits"
    JUMP = "jump"


class SizeClass(StrEnum):
    """Rounding or corruption, as far as the sketches tell."""

    ROUNDING = "rounding"
    JUMP = "jump"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How far a verdict is settled."""

    PROVED = "proved"
    CONSISTENT = "consistent"
    SUSPECTED = "suspected"


class Verdict(StrEnum):
    """What a comparison came to."""

    IDENTICAL = "identical"
    DIVERGED = "diverged"
    INCONCLUSIVE = "inconclusive"


class Mark(_Word):
    """What one cell came to; a bin of cells shows its highest member."""

    ABSENT = 0
    AGREES = 1
    CARRIED = 2
    UNPAIRED = 3
    HEALED = 4
    INHERITED = 5
    ORIGIN = 6

    @property
    def sign(self) -> str:
        """One character, so that a mark never rests on colour alone."""
        return " =-?o~x"[self]


class Cause(StrEnum):
    """Why an origin is there, in order of precedence: the first that fits is the answer.

    What the run was given comes first, then what recorded facts show of states, rows and kernels,
    then what only a control can tell.
    """

    REQUEST_MISMATCH = "request-mismatch"
    WEIGHTS_MISMATCH = "weights-mismatch"
    COLD_NOT_COLD = "cold-not-cold"
    NO_REUSE = "no-reuse"
    NONDETERMINISM = "nondeterminism"
    KEY_COLLISION = "key-collision"
    DRAFTER_STATE = "drafter-state"
    STATE_ZERO = "state-zero"
    ROLLBACK_MISSING = "rollback-missing"
    STATE_WRONG_POSITION = "state-wrong-position"
    STATE_NOT_WRITTEN = "state-not-written"
    LAYOUT = "layout"
    DTYPE_REQUANT = "dtype-requant"
    KV_ORDER = "kv-order"
    KV_LENGTH = "kv-length"
    KV_MIXED_ORIGIN = "kv-mixed-origin"
    KV_OVERWRITTEN = "kv-overwritten"
    STATE_FOREIGN = "state-foreign"
    STATE_CORRUPTED = "state-corrupted"
    ROPE_REGIME = "rope-regime"
    ROPE_OFFSET = "rope-offset"
    MASK_SEAM = "mask-seam"
    KV_READ_PATH = "kv-read-path"
    STALE_READ = "stale-read"
    PAD_CONTAMINATION = "pad-contamination"
    PARTIAL_MERGE = "partial-merge"
    OUTPUT_BUFFER = "output-buffer"
    DISCRETE_TIE = "discrete-tie"
    STATE_IGNORED = "state-ignored"
    COMPILE_MODE = "compile-mode"
    KERNEL_MISMATCH = "kernel-mismatch"
    BATCH_COMPOSITION = "batch-composition"
    SHAPE_DISPATCH = "shape-dispatch"
    BOTH_WRONG = "both-wrong"
    UNKNOWN = "unknown"
