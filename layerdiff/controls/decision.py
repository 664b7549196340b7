"""What controls add to an origin."""

from dataclasses import dataclass, field

from layerdiff.model import Evidence, RuledOut
from layerdiff.vocabulary import Cause


@dataclass(slots=True)
class Decision:
    """One origin's cause as controls leave it."""

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

    def rule_out(self, cause: Cause, because: str) -> None:
        """One cause less."""
        self.ruled_out.append(RuledOut(cause, because))
