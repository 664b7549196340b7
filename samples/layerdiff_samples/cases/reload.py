"""The prefix cache on its way through a file."""

import tempfile
from pathlib import Path

from layerdiff_samples.engine.engine import Engine


def reloaded(engine: Engine) -> Engine:
    """A new engine with the prefix cache that *engine* saved, recorded into the same dump."""
    with tempfile.TemporaryDirectory(prefix="layerdiff-cache-") as folder:
        path = Path(folder) / "cache.npz"
        engine.save(path)
        loaded = Engine.load(path, engine.config, engine.recording.recorder, engine.parts)
    loaded.recording.go_on(engine.recording)
    return loaded
