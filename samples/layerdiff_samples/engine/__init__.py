"""A small hybrid language model engine, to be read, recorded and broken on purpose."""

from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.engine import Engine, model_facts
from layerdiff_samples.engine.parts import Parts

__all__ = ["Engine", "EngineConfig", "Parts", "model_facts"]
