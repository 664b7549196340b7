"""One situation to look into: subclass `Case` to put an engine of one's own under it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from layerdiff.errors import UsageError
from layerdiff_hooks.hunt.arm import OPTIONAL, ORDER, Arm, find_arm

if TYPE_CHECKING:
    from layerdiff_hooks.recorder import Recorder


class Case:
    """Runs one engine under any arm.

    ``run`` builds a fresh engine each time and keeps nothing: what an earlier arm leaves behind
    would warm the next one.
    """

    name: str = ""
    """Short and unique, as typed behind ``layerdiff hunt``."""
    title: str = ""
    """One line for the list of cases."""
    engine: str = "custom"
    """Who is recorded; in the header of every dump."""
    facts: Mapping[str, object] = {}
    """More for the header, such as ``{"model": {"class": ..., "architecture": ...}}``."""
    baseline: str = "cold"
    candidate: str = "warm"
    arms: tuple[str, ...] = ORDER
    """Runs to make, in order; baseline and candidate are made in any case."""
    can: frozenset[str] = frozenset()
    """Which of the optional arms it can run: no-state, solo, poison, reference."""
    helpers: tuple[str, ...] = ()
    """Names of requests that only fill the cache or share a batch. A request that one run served
    from its cache and that the other lacks is a gap, unless it is one of these."""
    sources: tuple[Path, ...] = ()
    """Files besides its code that decide what it does: a dump is not reused once they change."""

    def setup(self) -> None:
        """Called once, before the first arm."""

    def run(self, arm: Arm, recorder: "Recorder") -> None:
        """Builds a fresh engine, lets it work as *arm* asks, and tells *recorder* all of it.

        Raises:
            Unsupported: The engine cannot run this arm; the hunt goes on without it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run(arm, recorder)")

    def record(self, arm: Arm, path: Path) -> None:
        """Records one run into *path*: `run` with a recorder of its own.

        A case whose engine is a torch module overrides it and uses `layerdiff_hooks.record`.
        """
        from layerdiff_hooks.recorder import Recorder

        with Recorder(
            path, arm=arm.name, engine=self.engine, facts=self.facts, overwrite=True
        ) as recorder:
            self.run(arm, recorder)

    def teardown(self) -> None:
        """Called once, after the last arm, also when one failed."""


def check_case(case: Case, spec: str) -> Case:
    """The case, if what it says about itself makes sense.

    Raises:
        UsageError: It names arms that do not exist.
    """
    for name in (case.baseline, case.candidate, *case.arms):
        try:
            find_arm(name, baseline=case.baseline, candidate=case.candidate)
        except UsageError as error:
            raise UsageError(f"case {spec}: {error}") from None
    if isinstance(case.can, str) or set(case.can) - OPTIONAL:
        raise UsageError(
            f"case {spec}: can = {case.can!r} is not a set of {', '.join(sorted(OPTIONAL))}"
        )
    if case.baseline == case.candidate:
        raise UsageError(f"case {spec}: baseline and candidate are both {case.baseline}")
    return case
