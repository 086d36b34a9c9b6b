"""One minion's answer in the form that was asked for, and the options that ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, TypeVar

import click

from catena.cli.output import renderer
from catena.cli.output.configured import of_states
from catena.cli.output.style import OUTPUTS, StateStyle

F = TypeVar("F", bound=Callable[..., Any])

#: Outputs that a return may ask for itself; everything else is nested.
_ASKED = frozenset({"highstate", "txt"})


def state_options(command: F) -> F:
    """Give *command* Salt's options of state runs."""
    command = click.option(
        "--state-verbose/--no-state-verbose",
        default=None,
        envvar="CATENA_STATE_VERBOSE",
        help="Show states that are as they should be; by default as `state_verbose` says.",
    )(command)
    return click.option(
        "--state-output",
        type=click.Choice(OUTPUTS),
        default=None,
        envvar="CATENA_STATE_OUTPUT",
        help="A block per state, a line, or blocks for failures (mixed) and changes; with _id the "
        "lines name the state's id. By default as `state_output` says.",
    )(command)


def style(options: Mapping[str, Any], which: str = "master") -> StateStyle:
    """Return the style that the options of `state_options` or the configuration ask for.

    Args:
        options: a command's options.
        which: the configuration file that has the defaults, master or minion.

    Raises:
        ConfigError: that file can't be read, or has another value than Salt knows.
    """
    output, verbose = options["state_output"], options["state_verbose"]
    if output is None or verbose is None:
        configured = of_states(Path(click.get_current_context().find_root().obj), which)
        output = configured.output if output is None else output
        verbose = configured.verbose if verbose is None else verbose
    return StateStyle(output, verbose)


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
