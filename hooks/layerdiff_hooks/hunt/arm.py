"""What an arm asks of a case, as booleans: no case has to know the arms by name."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias

from layerdiff.errors import UsageError

Chunks: TypeAlias = tuple[tuple[int, int], ...]
"""Half-open slices of one request's tokens, in the order in which passes compute them."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One run under one condition.

    =========== ===== ===== ======= ======= ===== =============================================
    arm         fill  reuse caching restore mates besides
    =========== ===== ===== ======= ======= ===== =============================================
    cold        no    no    yes     yes     yes
    warm        yes   yes   yes     yes     yes
    cold-split  no    no    yes     yes     yes   *layout*: in the chunks of the warm arm
    off         no    no    no      yes     yes
    no-state    yes   yes   yes     no      yes
    solo        yes   yes   yes     yes     no
    poison      yes   yes   yes     yes     yes   *poison*: what to overwrite
    reference   no    no    yes     yes     yes   computed by other means that are trusted
    =========== ===== ===== ======= ======= ===== =============================================

    ``cold-repeat`` and ``warm-repeat`` are the same once more.
    """

    name: str
    """What the header of the dump says."""
    fill: bool = False
    """Run the earlier requests, those that fill the cache."""
    reuse: bool = False
    """The compared requests may take over what is cached; if not, nothing is looked up."""
    caching: bool = True
    """False: nothing is cached at all."""
    restore: bool = True
    """False: as warm, but every hit is declined and the prefix is computed again."""
    mates: bool = True
    """False: requests that only share a batch with the compared ones are left out."""
    poison: str | None = None
    """What to overwrite once it was restored and before it is read: ``layer-2`` (recurrent state
    and KV of that layer), ``layer-2-conv`` (its convolution's state) or ``drafter``; or ``slack``:
    zero every byte that a kernel may read though no token owns it."""
    layout: Mapping[str, Chunks] | None = None
    """By name of a request, the chunks to compute its prompt in."""
    index: int = 0
    """0 for the first run, 1 for the first repeat, and so on."""

    @property
    def reference(self) -> bool:
        """Whether the outcome is to be trusted more than the engine's: other code, or float64."""
        return self.name == "reference"

    def words(self) -> str:
        """All of it, as JSON: two runs of equal words are the same run."""
        return json.dumps(asdict(replace(self, layout=dict(self.layout or {}))), sort_keys=True)


_WARM: Final = Arm("warm", fill=True, reuse=True)
_COLD: Final = Arm("cold")
ARMS: Final[Mapping[str, Arm]] = {
    "cold": _COLD,
    "warm": _WARM,
    "cold-split": replace(_COLD, name="cold-split"),
    "off": replace(_COLD, name="off", caching=False),
    "no-state": replace(_WARM, name="no-state", restore=False),
    "solo": replace(_WARM, name="solo", mates=False),
    "poison": replace(_WARM, name="poison"),
    "reference": replace(_COLD, name="reference"),
}
ORDER: Final = ("cold", "cold-repeat", "warm", "warm-repeat", "cold-split", "off")
"""What a hunt runs unless the case says otherwise."""
OPTIONAL: Final = frozenset({"no-state", "solo", "poison", "reference"})
"""Arms that a case has to offer by `Case.can`."""

_REPEAT: Final = re.compile(r"(cold|warm)-repeat(?:-([2-9]))?")
_POISON: Final = re.compile(r"poison-(layer-\d+(?:-conv)?|drafter|slack)")


def find_arm(name: str, *, baseline: str = "cold", candidate: str = "warm") -> Arm:
    """The arm of a run called *name*, such as ``warm-repeat-2`` or ``poison-layer-3``.

    Args:
        baseline: What ``cold-repeat`` repeats.
        candidate: What ``warm-repeat`` repeats.

    Raises:
        UsageError: No arm has that name.
    """
    if found := _REPEAT.fullmatch(name):
        side, number = found.groups()
        repeated = ARMS.get(baseline if side == "cold" else candidate)
        if repeated is not None:
            return replace(repeated, name=f"{side}-repeat", index=int(number or 1))
    if found := _POISON.fullmatch(name):
        return replace(ARMS["poison"], poison=found.group(1))
    if name in ARMS and name != "poison":
        return ARMS[name]
    poisons = ("poison-layer-N", "poison-layer-N-conv", "poison-drafter", "poison-slack")
    known = [*ORDER, "no-state", "solo", *poisons]
    raise UsageError(f"there is no arm {name!r}; the arms are {', '.join(known)}, reference")


def offer(name: str) -> str | None:
    """The word by which `Case.can` offers a run; None where every case has it."""
    word = "poison" if name.startswith("poison-") else name
    return word if word in OPTIONAL else None
