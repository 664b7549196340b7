"""The answer, always in view, and under it which dumps and requests are shown."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from layerdiff_tui.plain import shown, to_ascii


class AnswerLine(Vertical):
    """Two texts: the answer, and the facts of what is shown."""

    DEFAULT_CSS = """
    AnswerLine {
        height: auto;
        & > #answer { text-style: bold; height: auto; max-height: 3; }
        & > #facts { color: $text-muted; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        &.-diverged > #answer { background: $warning-muted; color: $text-warning; }
        &.-identical > #answer { background: $primary-muted; color: $text-primary; }
        &.-inconclusive > #answer { background: $surface; }
    }
    """

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__()
        self._ascii = ascii_only

    def compose(self) -> ComposeResult:
        """The two lines."""
        yield Static("", id="answer", markup=False)
        yield Static("", id="facts", markup=False)

    def show_answer(self, answer: str) -> None:
        """The answer; its first word colours it."""
        verdict = answer.split(maxsplit=1)[0].lower() if answer else ""
        for name in ("diverged", "identical", "inconclusive"):
            self.set_class(verdict == name, f"-{name}")
        self.query_one("#answer", Static).update(self._content(answer))

    def show_facts(self, facts: str) -> None:
        """What is shown, and its numbers."""
        self.query_one("#facts", Static).update(self._content(facts))

    def _content(self, text: str) -> Content:
        text = shown(text)
        return Content(to_ascii(text) if self._ascii else text)
