"""Recording by environment: ``LAYERDIFF_RECORD=OUT.h5`` around a program that knows nothing of it.

A ``.pth`` file imports this module at the start of Python where the variable is set. It waits for
torch, then for a model to run, and imports nothing heavy before. Whatever goes wrong here ends
on stderr; the program runs on.
"""

import atexit
import importlib.abc
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from layerdiff_hooks.capture import ModelRecorder

VARIABLE = "LAYERDIFF_RECORD"


@dataclass(frozen=True, slots=True)
class Settings:
    """What to record, and where to."""

    path: Path
    arm: str = "cold"
    select: tuple[str, ...] | None = None
    key: Path | None = None
    tokens: bool = False
    overwrite: bool = False
    """Whether the first dump may replace a file."""


def settings_from(environment: dict[str, str] | os._Environ[str]) -> Settings | None:
    """The settings that the variables make, or None where `VARIABLE` is not set."""
    path = environment.get(VARIABLE)
    if not path:
        return None
    select = environment.get("LAYERDIFF_SELECT")
    key = environment.get("LAYERDIFF_KEY")
    return Settings(
        Path(path),
        arm=environment.get("LAYERDIFF_ARM") or "cold",
        select=tuple(select.split(",")) if select else None,
        key=Path(key) if key else None,
        tokens=environment.get("LAYERDIFF_TOKENS", "") not in ("", "0"),
    )


def next_free(path: Path, number: int) -> Path:
    """``OUT.h5`` for 0, else ``OUT.1.h5`` and so on."""
    return path if number == 0 else path.with_name(f"{path.stem}.{number}{path.suffix}")


@dataclass(slots=True)
class DumpMode:
    """Attaches to each causal language model that runs, a dump each."""

    settings: Settings
    recorders: list["ModelRecorder"] = field(default_factory=list)
    _known: "WeakSet[Any]" = field(default_factory=WeakSet)
    _inside: threading.local = field(default_factory=threading.local)
    _undo: list[Callable[[], None]] = field(default_factory=list)
    _pid: int = field(default_factory=os.getpid)

    def start(self) -> None:
        """Wait for the libraries that models come from, or use them if they are there."""
        watched: dict[str, Callable[[ModuleType], None]] = {
            "torch.nn.modules.module": self._watch_torch,
            "transformers.modeling_utils": self._watch_transformers,
            "transformers.generation.utils": self._watch_generate,
        }
        for name, ready in list(watched.items()):
            module = sys.modules.get(name)
            if module is not None:
                ready(module)
                del watched[name]
        finder = _PostImport(watched)
        sys.meta_path.insert(0, finder)
        self._undo.append(lambda: _remove(sys.meta_path, finder))
        atexit.register(self.stop)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A forked process records into files of its own; the dumps of its parent are not its."""
        self._pid = os.getpid()
        self.recorders = []
        self._known = WeakSet()

    def stop(self) -> None:
        """Close the dumps and leave everything as it was."""
        atexit.unregister(self.stop)
        while self._undo:
            self._undo.pop()()
        if os.getpid() != self._pid:
            return
        for recorder in self.recorders:
            try:
                recorder.close()
            except Exception as error:
                _say(f"the dump was not closed: {error}")

    # Finding models

    def _watch_torch(self, module: ModuleType) -> None:
        """Until anything is recorded, the outermost call of a module may be that of a model."""
        kind = module.Module

        def consider(model: Any) -> bool:
            if not self._is_plain_model(model):
                return True
            attached = self.attach(model)
            return not attached

        self._replace(kind, "__call__", consider, forever=False)

    def _watch_transformers(self, module: ModuleType) -> None:
        self._replace(module.PreTrainedModel, "__call__", self._offer, forever=True)

    def _watch_generate(self, module: ModuleType) -> None:
        self._replace(module.GenerationMixin, "generate", self._offer, forever=True)

    def _offer(self, model: Any) -> bool:
        if _has_head(model):
            self.attach(model)
        return True

    def _replace(
        self, kind: Any, name: str, consider: Callable[[Any], bool], *, forever: bool
    ) -> None:
        """Let *consider* see each object whose method is called first, on its outermost call."""
        original = getattr(kind, name)
        own = vars(kind).get(name)
        local = self._inside

        @wraps(original)
        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(local, "busy", False) or model in self._known:
                return original(model, *args, **kwargs)
            local.busy = True
            try:
                if not _safely(consider, model) and not forever:
                    restore()
            finally:
                local.busy = False
            # Through the instance: a recorder wraps `generate` there.
            target = vars(model).get(name)
            if target is not None:
                return target(*args, **kwargs)
            if forever:
                return original(model, *args, **kwargs)
            local.busy = True
            try:
                return original(model, *args, **kwargs)
            finally:
                local.busy = False

        def restore() -> None:
            if vars(kind).get(name) is not call:
                return
            if own is None:
                delattr(kind, name)
            else:
                setattr(kind, name, own)

        setattr(kind, name, call)
        self._undo.append(restore)

    def _is_plain_model(self, model: Any) -> bool:
        """A stack of layers that is no model of transformers; those are offered elsewhere."""
        from layerdiff_hooks.sites import map_model

        if hasattr(model, "get_input_embeddings"):
            return False
        found = map_model(model)
        return found is not None and len(found.layers) > 1

    def attach(self, model: Any) -> bool:
        """Record *model* into the next free file."""
        from layerdiff.errors import CaptureError
        from layerdiff_hooks.record import start_recording

        self._known.add(model)
        wanted = self.settings
        for number in range(1000):
            path = next_free(wanted.path, number)
            overwrite = wanted.overwrite and number == 0 and not self.recorders
            if path.exists() and not overwrite:
                continue
            try:
                recorder = start_recording(
                    model,
                    path,
                    arm=wanted.arm,
                    select=wanted.select,
                    key=wanted.key,
                    tokens=wanted.tokens,
                    overwrite=overwrite,
                )
            except CaptureError as error:
                if path.exists():
                    continue
                _say(f"nothing is recorded: {error}")
                return False
            if number:
                _say(f"{wanted.path} exists, so {type(model).__name__} is recorded into {path}")
            self.recorders.append(recorder)
            return True
        return False


class _PostImport(importlib.abc.MetaPathFinder):
    """Calls back right after a module has been imported."""

    def __init__(self, watched: dict[str, Callable[[ModuleType], None]]) -> None:
        self._watched = watched

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ready = self._watched.pop(name, None)
        if ready is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Announcing(spec.loader, ready)
        return spec


class _Announcing(importlib.abc.Loader):
    """A loader that says when it is done."""

    def __init__(self, loader: Any, ready: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._ready = ready

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _safely(self._ready, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _safely(body: Callable[[Any], Any], argument: Any) -> Any:
    """Runs what is ours so that nothing of it reaches the program; True when it failed."""
    try:
        return body(argument)
    except Exception as error:
        _say(f"{type(error).__name__}: {error}")
        return True


def _has_head(model: Any) -> bool:
    """Whether a model of transformers turns hidden states into logits."""
    try:
        return model.get_output_embeddings() is not None
    except (AttributeError, NotImplementedError):
        return False


def _remove(items: list[Any], item: Any) -> None:
    if item in items:
        items.remove(item)


def _say(text: str) -> None:
    print(f"layerdiff: {text}", file=sys.stderr)


def start_from_environment() -> DumpMode | None:
    """What the ``.pth`` file calls; never raises."""
    try:
        settings = settings_from(os.environ)
        # In a virtual environment Python reads path files twice.
        if settings is None or any(isinstance(f, _PostImport) for f in sys.meta_path):
            return None
        mode = DumpMode(settings)
        mode.start()
        return mode
    except Exception as error:
        _say(f"nothing is recorded: {type(error).__name__}: {error}")
        return None
