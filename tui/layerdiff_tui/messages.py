"""What the parts of the screen tell each other."""

from dataclasses import dataclass

from textual.message import Message

from layerdiff_tui.details import Detail
from layerdiff_tui.session import Session, Spot


@dataclass
class SessionLoaded(Message):
    """The slow part is done."""

    session: Session


@dataclass
class LoadFailed(Message):
    """The dumps cannot be shown after all."""

    error: Exception


@dataclass
class SpotChanged(Message):
    """The cursor of the grid is at another cell."""

    spot: Spot


@dataclass
class DetailReady(Message):
    """What there is to say about a cell was gathered."""

    detail: Detail
    turn: int
    """Counts the cells asked about; only the newest is shown."""
