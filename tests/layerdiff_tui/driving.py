"""Drives the application as a user would: keys in, what is on the screen out."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Static

from layerdiff_tui.app import LayerdiffApp
from layerdiff_tui.details import Detail
from layerdiff_tui.grid_state import GridState
from layerdiff_tui.opening import open_names
from layerdiff_tui.widgets.detail import DetailPane
from layerdiff_tui.widgets.grid import LayerGrid


class Driver:
    """A running application."""

    def __init__(self, app: LayerdiffApp, pilot: Pilot[Exception]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Presses keys and waits until all is drawn."""
        await self.pilot.press(*keys)
        await self.settle()

    async def answer_with(self, text: str) -> None:
        """Writes a whole line where one is asked for, and presses enter."""
        self.app.screen.query_one(Input).value = text
        await self.press("enter")

    async def loaded(self) -> None:
        """Waits until the session is shown."""
        while self.app.session is None and self.app.is_running:
            await self.pilot.pause(0.01)
        await self.settle()

    async def settle(self) -> None:
        """Waits until nothing is left to do."""
        await self.pilot.pause()
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    @property
    def grid(self) -> GridState:
        """The grid's state."""
        state = self._main.query_one(LayerGrid).state
        assert state is not None
        return state

    @property
    def row(self) -> str:
        """The label of the row under the cursor."""
        return self.grid.current.label

    @property
    def detail(self) -> Detail:
        """What the pane says."""
        detail = self._main.query_one(DetailPane).detail
        assert detail is not None
        return detail

    @property
    def answer(self) -> str:
        """The text of the answer line."""
        return _text(self._main.query_one("#answer", Static))

    @property
    def facts(self) -> str:
        """The text of the line under it."""
        return _text(self._main.query_one("#facts", Static))

    @property
    def _main(self) -> Screen[object]:
        return self.app.screen_stack[0]

    def screen_text(self) -> str:
        """All that is on the screen."""
        # Textual has no public way to read the screen as text.
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in lines)


def _text(widget: Static) -> str:
    return str(widget.content)


def drive(
    names: list[Path | str],
    script: Callable[[Driver], Awaitable[None]],
    *,
    size: tuple[int, int] = (120, 36),
    ascii_only: bool = False,
    toasts: bool = False,
) -> LayerdiffApp:
    """Opens one dump or two, runs *script* and gives the application that has ended."""
    opened = open_names(str(names[0]), str(names[1]) if len(names) > 1 else None, [])
    app = LayerdiffApp(opened.title, opened.load, ascii_only=ascii_only)

    async def run() -> None:
        async with app.run_test(size=size, notifications=toasts) as pilot:
            driver = Driver(app, pilot)
            await driver.loaded()
            await script(driver)

    try:
        asyncio.run(run())
    finally:
        opened.close()
    return app
