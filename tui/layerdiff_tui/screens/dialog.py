"""What all screens have in common that open over the grid."""

from typing import TypeVar

from textual.screen import ModalScreen

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A screen that closes once, however fast the keys come."""

    def close(self, result: Result | None = None) -> None:
        """Goes back to the screen below, unless it is there already."""
        if self.is_current:
            self.dismiss(result)

    def action_close(self) -> None:
        """Closes without a result."""
        self.close()
