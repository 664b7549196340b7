"""A case of the sample engine: prompts that fill the cache, prompts that are compared, faults."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from layerdiff_hooks.hunt import Arm, Case
from layerdiff_hooks.recorder import Recorder
from layerdiff_samples.cases.poison import poisoned
from layerdiff_samples.cases.turns import Turn
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.engine import Engine, model_facts
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.faults.fault import Fault, build

Between = Callable[[Engine], Engine]
"""What happens to an engine between the requests that fill its cache and the compared ones."""


class SampleCase(Case):
    """One situation of the sample engine.

    Args:
        fills: Requests that run first in arms that reuse, one after the other.
        asked: The compared requests; they run in every arm, all at once if *together*.
        mates: Requests that only share a batch with the compared ones.
        faults: What is wrong with the engine; the reference arm runs without.
        parts: What the engine is put together from before faults come in; for another family.
        between: What happens after the fills, such as saving and loading.
        alone_when_cold: Whether mates are left out of arms that do not fill the cache.
    """

    engine = "layerdiff sample engine"
    can = frozenset({"no-state", "solo", "poison", "reference"})

    def __init__(
        self,
        name: str,
        title: str,
        *,
        config: EngineConfig,
        asked: Sequence[Turn],
        fills: Sequence[Turn] = (),
        mates: Sequence[Turn] = (),
        faults: Sequence[Fault] = (),
        parts: Parts | None = None,
        between: Between | None = None,
        together: bool = False,
        alone_when_cold: bool = True,
        **more: Any,
    ) -> None:
        self.name, self.title = name, title
        self.config = config
        self.facts: Mapping[str, object] = model_facts(config)
        self._asked, self._fills, self._mates = tuple(asked), tuple(fills), tuple(mates)
        self.helpers = tuple(turn.name for turn in (*fills, *mates))
        self._faults, self._parts = tuple(faults), parts
        self._between = between
        self._together = together
        self._alone_when_cold = alone_when_cold
        for attribute, value in more.items():
            setattr(self, attribute, value)

    def run(self, arm: Arm, recorder: Recorder) -> None:
        """Builds the engine that the arm asks for, fills its cache, and runs what is compared."""
        engine, reuse = self.build(arm, recorder), arm.reuse and arm.restore
        if arm.fill:
            for turn in self._fills:
                engine.submit(turn.name, turn.tokens, turn.max_new, reuse=arm.restore)
                engine.run()
            if self._between is not None:
                engine = self._between(engine)
        if arm.mates and (arm.fill or not self._alone_when_cold):
            for turn in self._mates:
                engine.submit(turn.name, turn.tokens, turn.max_new, reuse=reuse)
        for turn in self._asked:
            layout = (arm.layout or {}).get(turn.name)
            engine.submit(turn.name, turn.tokens, turn.max_new, reuse=reuse, chunks=layout)
            if not self._together:
                engine.run()
        engine.run()

    def build(self, arm: Arm, recorder: Recorder | None) -> Engine:
        """A fresh engine for one arm."""
        faults = () if arm.reference else self._faults
        config, parts = build(faults, replace(self.config, caching=arm.caching), self._parts)
        if arm.poison == "slack":
            parts = _zeroing(parts, faults)
        elif arm.poison is not None:
            parts = poisoned(parts, arm.poison, self._compared)
        return Engine(config, recorder, parts)

    @property
    def _compared(self) -> Collection[str]:
        return {turn.name for turn in self._asked}


def _zeroing(parts: Parts, faults: Sequence[Fault]) -> Parts:
    """Parts that clear what no token owns before every recurrent kernel."""
    clear = [fault.zero_slack for fault in faults if fault.zero_slack is not None]
    choose = parts.choose_recurrent

    def cleared(launch: Any) -> Any:
        for zero in clear:
            zero()
        return choose(launch)

    return replace(parts, choose_recurrent=cleared)
