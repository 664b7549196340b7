"""Every key, in the running application."""

import json
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from layerdiff.vocabulary import Mark
from layerdiff_tui.actions import GRID_ACTIONS, SCREEN_ACTIONS
from layerdiff_tui.screens.ask import AskScreen
from layerdiff_tui.screens.help import HelpScreen
from layerdiff_tui.screens.main import MainScreen
from layerdiff_tui.screens.origins import OriginsScreen
from tests.layerdiff_tui import dumps
from tests.layerdiff_tui.driving import Driver, drive


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are written by name go where nobody minds."""
    monkeypatch.chdir(tmp_path)


def test_opens_at_the_answers_origin(cold: Path, fault: Path) -> None:
    """The answer line, its cell and all about it are there without a key."""

    async def script(driver: Driver) -> None:
        assert driver.answer.startswith("DIVERGED  layer 1 (full attention) · token 5")
        assert "cold against warm" in driver.facts
        assert "hit 10" in driver.facts
        assert driver.row == "key in"
        assert driver.grid.position == 5
        assert driver.detail.title == dumps.KEY.site
        assert driver.detail.sign.word == "origin"
        text = driver.screen_text()
        assert "state-corrupted" in text
        assert "▾ 1 full attention" in text

    assert drive([cold, fault], script).session is not None


def test_moves_by_arrows_and_letters(cold: Path, warm: Path) -> None:
    """Both ways of moving do the same, and home, end and the page keys go far."""

    async def script(driver: Driver) -> None:
        for right, left, down, up in (("right", "left", "down", "up"), ("l", "h", "j", "k")):
            await driver.press(right, right, down)
            assert (driver.grid.position, driver.grid.row) == (2, 1)
            await driver.press(left, left, up)
            assert (driver.grid.position, driver.grid.row) == (0, 0)
        await driver.press("end")
        assert driver.grid.position == 24
        await driver.press("home", "pagedown")
        assert (driver.grid.position, driver.row) == (0, "lm_head")
        await driver.press("pageup", "full_stop", "full_stop")
        assert (driver.grid.row, driver.grid.position) == (0, 20)
        await driver.press("comma")
        assert driver.grid.position == 10

    drive([cold, warm], script)


@pytest.mark.parametrize("key", ["enter", "space"])
def test_a_layer_opens_into_its_sites_and_closes(key: str, cold: Path, warm: Path) -> None:
    """One row for each site and moment."""

    async def script(driver: Driver) -> None:
        await driver.press("down", key)
        shown = [row.label for row in driver.grid.visible[1:9]]
        assert shown == [
            "0 linear attention",
            "in",
            "recurrent in",
            "recurrent out",
            "conv in",
            "conv out",
            "linear_attn",
            "mlp",
        ]
        assert "recurrent in" in driver.screen_text()
        await driver.press("down", "down", key)
        assert driver.row == "0 linear attention"
        assert len(driver.grid.visible) == 7

    drive([cold, warm], script)


def test_the_detail_follows_the_cursor(cold: Path, warm: Path) -> None:
    """Row by row, position by position."""

    async def script(driver: Driver) -> None:
        titles = []
        for _ in range(3):
            titles.append(driver.detail.title)
            await driver.press("down")
        assert titles == ["model.embed_tokens:out", "model.layers.0:in", "model.layers.1:in"]
        before = driver.detail
        await driver.press("right")
        assert driver.detail != before

    drive([cold, warm], script)


def test_zooms_in_and_out_and_fits(cold: Path, warm: Path) -> None:
    """Bins halve and double, and 0 shows all again."""

    async def script(driver: Driver) -> None:
        fitting = driver.grid.viewport.level
        await driver.press("plus")
        assert driver.grid.viewport.level == fitting - 1
        await driver.press("minus", "minus")
        assert driver.grid.viewport.level == 0
        await driver.press("0")
        assert driver.grid.viewport.level == fitting

    drive([cold, warm], script)


def test_goes_to_a_layer_and_a_position(cold: Path, warm: Path) -> None:
    """What names no place is said under the line, which stays open."""

    async def script(driver: Driver) -> None:
        await driver.press("g")
        await driver.press("L", "3", "colon", "1", "7", "enter")
        assert (driver.row, driver.grid.position) == ("3 full attention", 17)
        await driver.press("g")
        await driver.answer_with("L9")
        assert isinstance(driver.app.screen, AskScreen)
        assert "there is no layer 9" in driver.screen_text()
        await driver.answer_with("norm")
        assert (driver.row, driver.grid.position) == ("norm", 17)
        assert isinstance(driver.app.screen, MainScreen)

    drive([cold, warm], script)


def test_a_dialog_closes_once(cold: Path, warm: Path) -> None:
    """Two keys that arrive at once do not close what lies under it."""

    async def script(driver: Driver) -> None:
        await driver.press("g")
        dialog = driver.app.screen
        assert isinstance(dialog, AskScreen)
        dialog.close()
        dialog.close()
        await driver.press("right")
        assert isinstance(driver.app.screen, MainScreen)
        assert driver.grid.position == 1

    drive([cold, warm], script)


def test_walks_the_origins_in_the_order_of_the_report(cold: Path, fault: Path) -> None:
    """Forwards with n, backwards with N, round at the ends."""

    async def script(driver: Driver) -> None:
        session = driver.app.session
        assert session is not None
        count = len(session.targets)
        assert count >= 2
        places = [(target.key, target.position) for target in session.targets]
        found = []
        for _ in range(count + 1):
            found.append((driver.grid.current.key, driver.grid.position))
            assert driver.grid.current.marks[driver.grid.position] == Mark.ORIGIN
            await driver.press("n")
        assert found == [*places, places[0]]
        await driver.press("N")
        assert (driver.grid.current.key, driver.grid.position) == places[0]
        assert f"origin 1 of {count}" in driver.facts

    drive([cold, fault], script, size=(160, 36))


def test_lists_the_origins(cold: Path, fault: Path) -> None:
    """Enter goes to the one chosen."""

    async def script(driver: Driver) -> None:
        await driver.press("o")
        assert isinstance(driver.app.screen, OriginsScreen)
        session = driver.app.session
        assert session is not None
        assert driver.app.screen.query_one(OptionList).option_count == len(session.targets)
        await driver.press("down", "enter")
        target = session.targets[1]
        assert (driver.grid.current.key, driver.grid.position) == (target.key, target.position)
        await driver.press("o", "escape")
        assert isinstance(driver.app.screen, MainScreen)

    drive([cold, fault], script)


def test_without_an_origin_the_keys_say_so(cold: Path, warm: Path) -> None:
    """Nothing moves."""

    async def script(driver: Driver) -> None:
        await driver.press("n", "o")
        await driver.settle()
        assert isinstance(driver.app.screen, MainScreen)
        assert "there is no origin" in driver.screen_text()

    drive([cold, warm], script, toasts=True)


def test_switches_between_requests(cold: Path, warm: Path) -> None:
    """Each pair of requests has a grid of its own."""

    async def script(driver: Driver) -> None:
        assert "r1 (1 of 2)" in driver.facts
        await driver.press("right_square_bracket")
        assert "r2 (2 of 2)" in driver.facts
        assert driver.grid.view.size == len(dumps.OTHER_TOKENS) + 1
        await driver.press("right_square_bracket")
        assert "r1 (1 of 2)" in driver.facts
        await driver.press("left_square_bracket")
        assert "r2 (2 of 2)" in driver.facts

    drive([cold, warm], script)


def test_help_names_every_key_and_sign(cold: Path, warm: Path) -> None:
    """And closes again."""

    async def script(driver: Driver) -> None:
        await driver.press("question_mark")
        assert isinstance(driver.app.screen, HelpScreen)
        text = driver.screen_text()
        for action in (*GRID_ACTIONS, *SCREEN_ACTIONS):
            assert action.title in text
        for word in ("agrees", "inherited", "healed", "not observed", "origin"):
            assert word in text
        await driver.press("escape")
        assert isinstance(driver.app.screen, MainScreen)

    drive([cold, warm], script, size=(100, 50))


def test_the_palette_has_every_action_and_runs_it(cold: Path, warm: Path) -> None:
    """Who does not know a key finds the action by its name."""

    async def script(driver: Driver) -> None:
        commands = list(driver.app.get_system_commands(driver.app.screen))
        titles = {command.title for command in commands}
        assert {action.title for action in (*GRID_ACTIONS, *SCREEN_ACTIONS)} <= titles
        await driver.press("ctrl+p")
        driver.app.screen.query_one(Input).value = "last position"
        await driver.pilot.pause(0.3)
        await driver.press("enter")
        assert driver.grid.position == 24

    drive([cold, warm], script)


def test_every_action_has_an_id_and_no_key_of_tmux() -> None:
    """Ids let users remap keys; tmux takes some for itself."""
    actions = (*GRID_ACTIONS, *SCREEN_ACTIONS)
    assert len({action.id for action in actions}) == len(actions)
    keys = [key for action in actions for key in action.keys.split(",")]
    assert len(set(keys)) == len(keys)
    assert not {"ctrl+j", "ctrl+o", "ctrl+s", "ctrl+b", "ctrl+a"} & set(keys)


def test_exports_text_and_json_and_overwrites_nothing(
    cold: Path, fault: Path, tmp_path: Path
) -> None:
    """The suffix decides; a file that is there is not touched."""

    async def script(driver: Driver) -> None:
        await driver.press("e", "enter")
        await driver.press("e")
        assert driver.app.screen.query_one(Input).value == "layerdiff-report-2.txt"
        await driver.answer_with("layerdiff-report.txt")
        assert "is there already" in driver.screen_text()
        await driver.answer_with("report.json")
        assert isinstance(driver.app.screen, MainScreen)

    drive([cold, fault], script)
    assert (tmp_path / "layerdiff-report.txt").read_text().startswith("DIVERGED")
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "diverged"


def test_copies_the_report(cold: Path, fault: Path) -> None:
    """What a thread needs is one key away."""

    async def script(driver: Driver) -> None:
        await driver.press("y")
        assert driver.app.clipboard.startswith("DIVERGED  layer 1")

    drive([cold, fault], script)


def test_q_quits_with_the_verdicts_status(cold: Path, fault: Path) -> None:
    """As diff does."""

    async def script(driver: Driver) -> None:
        await driver.press("q")

    app = drive([cold, fault], script)
    assert not app.is_running
    assert app.session is not None
    assert app.session.exit_status == 1
