"""layerdiff finds the first layer, token and tensor where two inference runs part."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("layerdiff")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0"

__all__ = ["__version__"]
