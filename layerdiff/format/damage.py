"""How the parts tell what is wrong with a file that they do not know the name of."""

import os


class Damage(Exception):
    """A file is no dump that can be read: what is wrong and what to do."""


class Broken(Damage):
    """Content that breaks the format.

    Args:
        what: The table or text, and the rule that it breaks.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"is damaged: {what}; record again")


class CutShort(OSError):
    """The file ends before what it refers to; an OSError, as HDF5 hands it through."""

    def __init__(self) -> None:
        super().__init__(
            "was cut short: it ends before what it refers to; copy or record it again"
        )


def reason(error: BaseException) -> str:
    """Why the system or HDF5 refused, in one line."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return (str(error).splitlines() or [type(error).__name__])[0]
