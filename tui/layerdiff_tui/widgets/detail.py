"""The pane that says all about the cell under the cursor."""

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from layerdiff_tui.details import Detail, Fact, Heading, Sides
from layerdiff_tui.plain import shown, to_ascii

_SIDE_BY_SIDE = 64
"""Columns from which on both arms stand side by side."""
_LABEL = 13


class DetailPane(VerticalScroll):
    """Shows one `Detail`; scrolls when it has the focus."""

    DEFAULT_CSS = """
    DetailPane {
        border-top: solid $primary-muted;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        &:focus { border-top: solid $primary; }
        & > Static { height: auto; }
    }
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ascii = ascii_only
        self.detail: Detail | None = None
        """What is shown."""
        self._named = False

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(markup=False)

    def show(self, detail: Detail) -> None:
        """Shows another cell from its first line on."""
        self.detail = detail
        self.scroll_home(animate=False)
        self._draw()

    def on_resize(self) -> None:
        """Another width may set the arms side by side."""
        self._draw()

    def _draw(self) -> None:
        if self.detail is not None:
            width = self.scrollable_content_region.width
            self.query_one(Static).update(self._render_detail(self.detail, width))

    def _render_detail(self, detail: Detail, width: int) -> RenderableType:
        parts: list[RenderableType] = [self._text(detail.title, bold=True)]
        self._named = False
        facts: list[Fact | Sides] = []
        for line in [*detail.lines, Heading("")]:
            if not isinstance(line, Heading):
                facts.append(line)
                continue
            parts += self._section(facts, width)
            facts = []
            if line.text:
                parts.append(self._text(line.text, underline=True))
        return Group(*parts)

    def _section(self, lines: list[Fact | Sides], width: int) -> list[RenderableType]:
        """Tables: one for each run of lines of the same kind."""
        found: list[RenderableType] = []
        run: list[Fact | Sides] = []
        for line in [*lines, None]:
            if line is not None and (not run or type(run[0]) is type(line)):
                run.append(line)
                continue
            if run and isinstance(run[0], Sides) and width >= _SIDE_BY_SIDE:
                found.append(self._wide([side for side in run if isinstance(side, Sides)]))
            elif run:
                found.append(self._narrow(run))
            run = [line] if line is not None else []
        return found

    def _narrow(self, lines: list[Fact | Sides]) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(width=_LABEL, no_wrap=False)
        table.add_column(ratio=1, overflow="fold")
        for line in lines:
            label = self._text(line.label, dim=True)
            if isinstance(line, Fact):
                table.add_row(label, self._text(line.text, bold=line.tone is not None))
            elif line.same:
                table.add_row(label, self._text(f"= {line.baseline}"))
            else:
                table.add_row(label, self._text(f"base {line.baseline}"))
                table.add_row("", self._text(f"cand {line.candidate}"))
        return table

    def _wide(self, lines: list[Sides]) -> Table:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=_LABEL)
        table.add_column(ratio=1, overflow="fold")
        table.add_column(width=2)
        table.add_column(ratio=1, overflow="fold")
        if not self._named:
            self._named = True
            names = [self._text(name, dim=True) for name in ("baseline", "candidate")]
            table.add_row("", names[0], "", names[1])
        for line in lines:
            sign = "=" if line.same else "!=" if self._ascii else "≠"
            table.add_row(
                self._text(line.label, dim=True),
                self._text(line.baseline),
                self._text(sign, bold=not line.same),
                self._text(line.candidate),
            )
        return table

    def _text(
        self, text: str, *, bold: bool = False, dim: bool = False, underline: bool = False
    ) -> Text:
        """Text that is never read as markup."""
        text = shown(text)
        style = Style(bold=bold or None, dim=dim or None, underline=underline or None)
        return Text(to_ascii(text) if self._ascii else text, style)
