"""One minion's answer in the form that was asked for, and the options that ask."""

from __future__ import annotations

from typing import Any, Callable, Mapping, TypeVar

import click

from catena.cli.output import renderer
from catena.cli.output.style import OUTPUTS, StateStyle

F = TypeVar("F", bound=Callable[..., Any])

#: Outputs that a return may ask for itself; everything else is nested.
_ASKED = frozenset({"highstate", "txt"})


def state_options(command: F) -> F:
    """Give *command* Salt's options of state runs."""
    command = click.option(
        "--state-verbose/--no-state-verbose",
        default=True,
        envvar="CATENA_STATE_VERBOSE",
        help="Show states that are as they should be.",
    )(command)
    return click.option(
        "--state-output",
        type=click.Choice(OUTPUTS),
        default="full",
        envvar="CATENA_STATE_OUTPUT",
        help="A block per state, a line, or blocks for failures (mixed) and changes.",
    )(command)


def style(options: Mapping[str, Any]) -> StateStyle:
    """Return the style that the options of `state_options` ask for."""
    return StateStyle(options["state_output"], options["state_verbose"])


def answer(minion: str, ret: Mapping[str, Any], out: str, colour: bool, how: StateStyle) -> str:
    """Return the text that shows a return.

    Args:
        minion: whose it is.
        ret: its `value`, and in `out` the output that suits it.
        out: the output that was asked for, or "".
        colour: for a terminal.
        how: of state runs.
    """
    name = out or (ret["out"] if ret["out"] in _ASKED else "nested")
    if name == "highstate":
        from catena.cli.output.highstate import highstate

        return highstate(minion, ret["value"], colour, how)
    return renderer(name)(minion, ret["value"], colour)
