"""Sizes, themes, signs, and what is not as it should be, in the running application."""

import asyncio
import os
from pathlib import Path

import pytest
from textual.app import App

from layerdiff.errors import NotADump
from layerdiff_tui.app import LayerdiffApp
from layerdiff_tui.session import Session
from layerdiff_tui.singles import DumpSession
from layerdiff_tui.widgets.grid import LayerGrid
from tests.layerdiff_tui import dumps
from tests.layerdiff_tui.driving import Driver, drive


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)])
def test_any_size_shows_answer_grid_and_detail(
    size: tuple[int, int], cold: Path, fault: Path
) -> None:
    """Down to sizes where little else fits."""

    async def script(driver: Driver) -> None:
        text = driver.screen_text()
        assert "DIVERGED" in text
        assert "key in" in text
        assert dumps.KEY.site in text

    drive([cold, fault], script, size=size)


def test_resizing_keeps_the_cursor_in_view(cold: Path, fault: Path) -> None:
    """From wide to 80 columns and back."""

    async def script(driver: Driver) -> None:
        await driver.press("n")
        before = driver.grid.current.key, driver.grid.position
        for size in ((80, 24), (30, 10), (140, 40)):
            await driver.pilot.resize_terminal(*size)
            await driver.settle()
            state = driver.grid
            assert (state.current.key, state.position) == before
            assert state.top <= state.row < state.top + state.height
            assert 0 <= state.viewport.cell_of(state.position) < state.viewport.cells
            assert state.current.label in driver.screen_text()

    drive([cold, fault], script, size=(140, 40))


def test_clicks_move_the_cursor(cold: Path, warm: Path) -> None:
    """On a cell; on a label they open the layer."""

    async def script(driver: Driver) -> None:
        width = driver.grid.viewport.cell_width
        left = driver.app.screen.query_one(LayerGrid)._label_width
        await driver.pilot.click(LayerGrid, offset=(left + 7 * width, 2))
        await driver.settle()
        assert (driver.grid.row, driver.grid.position) == (0, 7)
        await driver.pilot.click(LayerGrid, offset=(3, 3))
        await driver.settle()
        assert len(driver.grid.visible) > 7

    drive([cold, warm], script)


def test_a_dump_alone_shows_what_it_holds(warm: Path) -> None:
    """Hashed cells have a sign of their own."""

    async def script(driver: Driver) -> None:
        assert driver.answer == "arm warm · complete"
        text = driver.screen_text()
        assert "#" in text
        assert "=" not in text
        assert driver.detail.sign.word == "hashed"
        await driver.press("right_square_bracket", "n", "y", "question_mark", "escape")
        assert "r1 (2 of 3)" in driver.facts

    drive([warm], script)


def test_a_killed_dump_opens_alone_and_in_a_pair(cold: Path, killed: Path) -> None:
    """Only what was finished is shown."""

    async def alone(driver: Driver) -> None:
        assert "not closed" in driver.answer
        await driver.press("end", "left")
        assert driver.grid.position < 24

    async def pair(driver: Driver) -> None:
        assert driver.answer.startswith(("INCONCLUSIVE", "DIVERGED"))

    drive([killed], alone)
    app = drive([killed, killed], pair)
    assert app.session is not None
    assert app.session.exit_status == 3


def test_a_dump_without_sites_opens(folder: Path) -> None:
    """There is nothing to move in, and nothing breaks."""

    async def script(driver: Driver) -> None:
        await driver.press("down", "right", "enter", "plus", "g", "n", "end", "question_mark")

    drive([dumps.without_sites(folder)], script)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_hostile_names_show_as_text(hostile: Path, ascii_only: bool) -> None:
    """Markup is not markup, and no control character reaches the terminal."""

    async def script(driver: Driver) -> None:
        await driver.press("enter", "down")
        text = driver.screen_text()
        assert "[red]x[/red]" in text
        assert not any(ord(c) < 32 for c in text.replace("\n", ""))
        assert "\u202e" not in text
        assert "\u200b" not in text
        await driver.press("down", "down", "down")
        assert "[red]" in driver.facts

    drive([hostile, hostile] if ascii_only else [hostile], script, ascii_only=ascii_only)


def test_ascii_draws_with_ascii_alone(cold: Path, fault: Path) -> None:
    """In the grid and in all that opens over it."""

    async def script(driver: Driver) -> None:
        for key in ("n", "question_mark", "o", "g", "e"):
            await driver.press(key)
            assert driver.screen_text().isascii(), key
            if key == "n":
                await driver.pilot.resize_terminal(80, 24)
            else:
                await driver.press("escape")

    drive([cold, fault], script, size=(140, 40), ascii_only=True)


def test_signs_tell_marks_apart_without_colour(
    cold: Path, fault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR leaves all there is to know."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(driver: Driver) -> None:
        assert driver.app.no_color
        text = driver.screen_text()
        assert all(sign in text for sign in "=x~o?")

    drive([cold, fault], script)


def test_light_and_dark_follow_the_theme(cold: Path, warm: Path) -> None:
    """No colour of the other theme is left in the grid."""

    async def script(driver: Driver) -> None:
        def backgrounds() -> set[str | None]:
            grid = driver.app.screen.query_one(LayerGrid)
            lines = grid.render_lines(grid.size.region)
            styles = [segment.style for strip in lines for segment in strip if segment.style]
            return {style.bgcolor.name if style.bgcolor else None for style in styles}

        dark = backgrounds()
        await driver.press("t")
        assert not driver.app.current_theme.dark
        light = backgrounds()
        assert {"#121212", "#1e1e1e"} <= dark
        assert not {"#121212", "#1e1e1e"} & light
        assert None not in dark | light

    drive([cold, warm], script)


def test_a_file_that_goes_away_is_said_in_the_pane(tmp_path: Path) -> None:
    """The grid is in memory; digests are read when they are asked for."""

    async def script(driver: Driver) -> None:
        session = driver.app.session
        assert isinstance(session, DumpSession)
        os.truncate(session.arm.dump.path, 100)
        session.arm.store._blocks.clear()
        await driver.press("down")
        assert driver.detail.title == "cannot be read"
        assert "cannot be read" in driver.screen_text()

    drive([dumps.cold(tmp_path)], script)


def test_an_error_while_loading_ends_with_the_error(cold: Path) -> None:
    """The command line prints it in one line."""

    def load() -> Session:
        raise NotADump(cold, "is damaged")

    async def run(app: App[Exception]) -> None:
        async with app.run_test() as pilot:
            while app.is_running and app.return_value is None:
                await pilot.pause(0.01)

    app = LayerdiffApp("cold.h5", load)
    asyncio.run(run(app))
    assert isinstance(app.return_value, NotADump)
