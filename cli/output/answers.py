"""One minion's answer in the requested format, and the options for formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, TypeVar

import click

from catena.cli.output import renderer
from catena.cli.output.configured import of_states
from catena.cli.output.style import OUTPUTS, StateStyle

F = TypeVar("F", bound=Callable[..., Any])

#: Outputs that a return may request itself; all others are shown as nested.
_ASKED = frozenset({"highstate", "txt"})


def state_options(command: F) -> F:
    """Add Salt's options for the display of state runs to *command*."""
    command = click.option(
        "--state-verbose/--no-state-verbose",
        default=None,
        envvar="CATENA_STATE_VERBOSE",
        help="Show states that succeeded without changes; default: the setting `state_verbose`.",
    )(command)
    return click.option(
        "--state-output",
        type=click.Choice(OUTPUTS),
        default=None,
        envvar="CATENA_STATE_OUTPUT",
        help="Show a block per state, a line, or blocks for failures (mixed) or changes; with _id "
        "lines show the state's id. Default: the setting `state_output`.",
    )(command)


def style(options: Mapping[str, Any], which: str = "master") -> StateStyle:
    """Return the style requested by the options of `state_options` or by the configuration.

    Args:
        options: a command's options.
        which: the configuration file with the defaults, master or minion.

    Raises:
        ConfigError: that file cannot be read, or has a value that Salt does not know.
    """
    output, verbose = options["state_output"], options["state_verbose"]
    if output is None or verbose is None:
        configured = of_states(Path(click.get_current_context().find_root().obj), which)
        output = configured.output if output is None else output
        verbose = configured.verbose if verbose is None else verbose
    return StateStyle(output, verbose)


def answer(minion: str, ret: Mapping[str, Any], out: str, colour: bool, how: StateStyle) -> str:
    """Return the text of a return.

    Args:
        minion: who returned it.
        ret: its `value`, and in `out` the output that suits it.
        out: the requested output, or "".
        colour: whether to use a terminal's colours.
        how: style of state runs.
    """
    name = out or (ret["out"] if ret["out"] in _ASKED else "nested")
    if name == "highstate":
        from catena.cli.output.highstate import highstate

        return highstate(minion, ret["value"], colour, how)
    return renderer(name)(minion, ret["value"], colour)
