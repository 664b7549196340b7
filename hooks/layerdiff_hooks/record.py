"""The one call that records a model: attach, run what is inside, detach."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from layerdiff.errors import CaptureError
from layerdiff.format.writer import DumpWriter
from layerdiff_hooks.capture import ModelRecorder
from layerdiff_hooks.fingerprint import Weights, describe
from layerdiff_hooks.ledger import Ledger
from layerdiff_hooks.secrecy import secrecy
from layerdiff_hooks.selection import Selection
from layerdiff_hooks.sites import map_model


@contextmanager
def record(
    model: nn.Module,
    path: Path | str,
    *,
    arm: str = "cold",
    select: str | Sequence[str] | None = None,
    key: Path | str | None = None,
    sketch: bool | None = None,
    tokens: bool = False,
    overwrite: bool = False,
    weights: Weights = "auto",
) -> Iterator[ModelRecorder]:
    """Record every forward of *model* inside the block into a dump.

    Args:
        model: A causal language model of transformers, or any module with a list of layers.
        path: The dump to write.
        arm: Under what condition the run is done, such as ``cold`` or ``warm``.
        select: Globs over site names; the default takes the standard sites.
        key: A file whose bytes key all digests; the same file in all arms.
        sketch: Whether rows carry sketches, which tell rounding from corruption but give tokens
            away; the default is yes, and no with a key.
        tokens: Whether token ids are stored in the dump.
        overwrite: Whether a file that is already there is replaced.
        weights: How much of the weights their digest covers.

    Raises:
        CaptureError: The model cannot be recorded or the file not be made.
    """
    recorder = start_recording(
        model,
        path,
        arm=arm,
        select=select,
        key=key,
        sketch=sketch,
        tokens=tokens,
        overwrite=overwrite,
        weights=weights,
    )
    try:
        yield recorder
    finally:
        recorder.close()


def start_recording(
    model: nn.Module,
    path: Path | str,
    *,
    arm: str,
    select: str | Sequence[str] | None = None,
    key: Path | str | None = None,
    sketch: bool | None = None,
    tokens: bool = False,
    overwrite: bool = False,
    weights: Weights = "auto",
) -> ModelRecorder:
    """Like `record`, for callers that close the recorder themselves."""
    _refuse_compiled(model)
    sites = map_model(model)
    if sites is None:
        kind = type(model).__qualname__
        raise CaptureError(
            f"{kind} has no list of layers to record (nn.ModuleList, nn.Sequential)"
        )
    patterns = [select] if isinstance(select, str) else select
    selection = Selection(sites, patterns)
    reduced = secrecy(key, sketch)
    header = {
        "arm": arm,
        **describe(model, sites, weights=weights),
        **reduced.facts,
        "select": None if patterns is None else list(patterns),
    }
    writer = DumpWriter(path, header, overwrite=overwrite)
    ledger = Ledger(writer, key=reduced.key, sketch=reduced.sketch, keep_tokens=tokens)
    recorder = ModelRecorder(sites, ledger, selection)
    recorder.attach()
    return recorder


def _refuse_compiled(model: nn.Module) -> None:
    """Compiled code runs no hooks, so a recording of it would be silently empty."""
    for name, module in model.named_modules():
        compiled = getattr(module, "_compiled_call_impl", None) is not None
        if compiled or type(module).__name__ == "OptimizedModule":
            where = name or "the model"
            raise CaptureError(
                f"{where} is compiled, and compiled code runs no hooks: record it eager"
            )
