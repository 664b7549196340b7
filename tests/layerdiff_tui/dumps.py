"""Small dumps for the tests of the screen."""

from pathlib import Path

import numpy as np

from layerdiff.testing import DumpBuilder, Plant, ToyRequest, toy_dump
from layerdiff.vocabulary import Moment, TensorKind

TOKENS = tuple(np.random.default_rng(0).integers(0, 32, 24).tolist())
OTHER_TOKENS = tuple(np.random.default_rng(1).integers(0, 32, 12).tolist())
LAYERS = ("linear attention", "full attention", "linear attention", "full attention")
HIT = 10

MIXER = Plant("model.layers.2.linear_attn:out", 13, request="r1")
KEY = Plant("model.layers.1.self_attn:key", 5, Moment.IN, request="r1")

HOSTILE = "[red]x[/red] [@click=app.bell]y \x1b[31mred\x1b[0m \u202eesrever\u202c \u200b"
"""Markup, an escape sequence, a turned line and a character of no width."""


def cold(folder: Path, name: str = "cold.h5") -> Path:
    """One request in one pass, and another one."""
    requests = [ToyRequest("r1", TOKENS), ToyRequest("r2", OTHER_TOKENS)]
    return toy_dump(folder / name, requests, layers=LAYERS)


def warm(folder: Path, plants: tuple[Plant, ...] = (), name: str = "warm.h5") -> Path:
    """The same two requests, the first after another one filled its cache."""
    requests = [
        ToyRequest("fill", TOKENS[:HIT]),
        ToyRequest("r1", TOKENS, chunks=(20, 21, 22, 23), takes="fill"),
        ToyRequest("r2", OTHER_TOKENS),
    ]
    return toy_dump(folder / name, requests, arm="warm", layers=LAYERS, plants=plants)


def killed(folder: Path, name: str = "killed.h5") -> Path:
    """A dump whose recorder never came to its end, cut in the middle of the last pass."""
    path = folder / name
    builder = DumpBuilder(path, arm="warm")
    request = builder.request("r1", TOKENS)
    builder.site("model.layers.0:out", layer_index=0, layer_kind="mlp")
    rows = np.random.default_rng(2).standard_normal((len(TOKENS), 4)).astype(np.float32)
    for start, stop in ((0, 8), (8, 16)):
        span = (request, start, stop)
        builder.observe("model.layers.0:out", rows[start:stop], [span])
        builder.commit([span])
    builder.observe("model.layers.0:out", rows[16:], [(request, 16, len(TOKENS))])
    # What a killed recorder leaves: the file as it is now, without the pass that was not finished.
    copy = folder / f"left-{name}"
    copy.write_bytes(path.read_bytes())
    builder.close()
    return copy


def hostile(folder: Path, name: str = "hostile.h5") -> Path:
    """Names that would do harm where they are taken for more than text."""
    with DumpBuilder(folder / name, arm=HOSTILE) as builder:
        request = builder.request(HOSTILE, TOKENS)
        kernel = builder.kernel(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)
        rows = np.random.default_rng(3).standard_normal((len(TOKENS), 4)).astype(np.float32)
        for site, kind in ((HOSTILE, HOSTILE), ("z" * 10_000, "kind" * 1_000)):
            builder.site(site, layer_index=0, layer_kind=kind)
            builder.observe(site, rows, [(request, 0, len(TOKENS))], kernel=kernel)
        builder.site("[/]:state", kind=TensorKind.RECURRENT_STATE, layer_index=0)
        builder.observe("[/]:state", rows[:1], [(request, 24, 25)], moment=Moment.OUT)
        builder.commit([(request, 0, len(TOKENS))])
    return folder / name


def without_sites(folder: Path, name: str = "bare.h5") -> Path:
    """A finished pass in which nothing was observed."""
    with DumpBuilder(folder / name) as builder:
        request = builder.request("r1", TOKENS)
        builder.commit([(request, 0, len(TOKENS))])
    return folder / name
