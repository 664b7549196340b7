"""Every action with its keys: bindings, help and palette are made from this one list."""

from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the user can do."""

    id: str
    """Fixed, so that keys can be remapped."""
    keys: str
    """Textual's names of the keys, comma-separated."""
    shown_keys: str
    """The keys as the help names them, in ASCII."""
    call: str
    """The action method with its arguments."""
    title: str
    footer: str = ""
    """What the footer says; empty keeps it out."""


GRID_ACTIONS = (
    Action("grid.up", "up,k", "up k", "rows(-1)", "row up"),
    Action("grid.down", "down,j", "down j", "rows(1)", "row down"),
    Action("grid.left", "left,h", "left h", "cells(-1)", "cell left"),
    Action("grid.right", "right,l", "right l", "cells(1)", "cell right"),
    Action("grid.first", "home", "home", "edge('first')", "first position"),
    Action("grid.last", "end", "end", "edge('last')", "last position"),
    Action("grid.page_up", "pageup", "pgup", "page(-1)", "screen of rows up"),
    Action("grid.page_down", "pagedown", "pgdn", "page(1)", "screen of rows down"),
    Action("grid.previous_chunk", "comma", ",", "chunk(-1)", "start of this pass"),
    Action("grid.next_chunk", "full_stop", ".", "chunk(1)", "start of the next pass"),
    Action(
        "grid.toggle", "enter,space", "enter space", "open_row", "open or close a layer", "Open"
    ),
    Action("grid.zoom_in", "plus,equals_sign", "+", "zoom(1)", "zoom in"),
    Action("grid.zoom_out", "minus", "-", "zoom(-1)", "zoom out"),
    Action("grid.fit", "0", "0", "fit", "fit all positions"),
)

SCREEN_ACTIONS = (
    Action("origin.next", "n", "n", "origin(1)", "next origin", "Origin"),
    Action("origin.previous", "N", "N", "origin(-1)", "previous origin"),
    Action("origin.list", "o", "o", "origins", "list of origins"),
    Action("go_to", "g", "g", "go_to", "go to 70, L3 or L3:70", "Go to"),
    Action("view.previous", "left_square_bracket", "[", "view(-1)", "previous request"),
    Action("view.next", "right_square_bracket", "]", "view(1)", "next request"),
    Action("copy", "y", "y", "copy", "copy the report (OSC 52)", "Copy"),
    Action("export", "e", "e", "export", "export the report", "Export"),
    Action("theme.toggle", "t", "t", "toggle_theme", "light or dark"),
    Action("help", "question_mark", "?", "help", "help", "Help"),
    Action("quit", "q", "q", "app.quit", "quit", "Quit"),
)


def bindings(actions: tuple[Action, ...]) -> list[Binding]:
    """The bindings of some actions."""
    return [
        Binding(
            action.keys,
            action.call,
            action.footer or action.title,
            show=bool(action.footer),
            key_display=action.shown_keys.split()[0],
            id=action.id,
        )
        for action in actions
    ]
