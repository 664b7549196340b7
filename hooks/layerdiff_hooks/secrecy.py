"""What a dump gives away: whether its digests are keyed, and whether it holds sketches."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from layerdiff.digest import CHAIN_START, derive_key, finalise
from layerdiff.errors import CaptureError


@dataclass(frozen=True, slots=True)
class Secrecy:
    """How a recording reduces tensors."""

    key: bytes | None
    sketch: bool

    @property
    def facts(self) -> dict[str, object]:
        """For the header; equal ``key_check`` values tell that two dumps share their key."""
        check = None
        if self.key is not None:
            check = f"{int(finalise(np.array([CHAIN_START], np.uint64), self.key)[0]):016x}"
        return {"sketch": self.sketch, "keyed": self.key is not None, "key_check": check}


def secrecy(key: Path | str | None, sketch: bool | None) -> Secrecy:
    """What the user asked for.

    Args:
        key: A file whose bytes key all digests.
        sketch: None takes sketches unless there is a key: the norm of an embedding's row gives
            its token away as surely as an unkeyed digest.

    Raises:
        CaptureError: The key cannot be read, or is empty.
    """
    secret = derive_key(read_key(key)) if key is not None else None
    return Secrecy(secret, secret is None if sketch is None else sketch)


def read_key(path: Path | str) -> bytes:
    """The bytes of a key file.

    Raises:
        CaptureError: It cannot be read, or is empty.
    """
    try:
        found = Path(path).read_bytes()
    except OSError as error:
        raise CaptureError(f"key file {path}: {error.strerror}") from None
    if not found:
        raise CaptureError(f"key file {path}: it is empty; put at least 32 random bytes into it")
    return found
