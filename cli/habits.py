"""Options that every command takes: what is logged to stderr, colour, where the output goes.

Salt's commands take them behind their own options, so people type them there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Mapping, Optional

import click

#: Salt's log levels, from the least to the most -> the level of `logging`.
LEVELS: Mapping[str, int] = {
    "quiet": 100,
    "critical": 50,
    "error": 40,
    "warning": 30,
    "info": 20,
    "profile": 15,
    "debug": 10,
    "trace": 5,
    "garbage": 1,
    "all": 1,
}
#: The daemons' own levels, for `catena master -l LEVEL`.
_DAEMON_LEVELS: Mapping[int, str] = {100: "error", 50: "error", 40: "error", 30: "warning"}
_DAEMONS = frozenset({"master", "minion"})
#: Key of a command line's log level in click's `meta`.
_LEVEL = "catena.log_level"


def give(command: click.Command) -> click.Command:
    """Give *command*, and all below it, the options of this module; return it."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            give(one)
    if not any(param.name == "log_level" for param in command.params):
        command.params.extend(_options())
    return command


def names() -> frozenset[str]:
    """Return the names of the options that every command takes."""
    return frozenset(str(option.name) for option in _options())


def _options() -> list[click.Option]:
    return [
        click.Option(
            ["-l", "--log-level"],
            type=click.Choice(list(LEVELS), case_sensitive=False),
            metavar="LEVEL",
            expose_value=False,
            callback=_log,
            help=f"Log to stderr: {', '.join(LEVELS)}.",
        ),
        click.Option(
            ["--no-color/--force-color", "--no-colour/--force-colour"],
            default=None,
            expose_value=False,
            callback=_colour,
            help="Whether the output has colours; by default on a terminal.",
        ),
        click.Option(
            ["--out-file", "--output-file"],
            type=click.Path(dir_okay=False),
            expose_value=False,
            callback=_to_file,
            help="Write the output to this file.",
        ),
        click.Option(
            ["--out-file-append", "--output-file-append"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_append,
            help="Keep what the output's file holds.",
        ),
    ]


def daemon_level(ctx: click.Context) -> str:
    """Return the log level that a daemon's command line asks for, in its own words; or ""."""
    level = ctx.meta.get(_LEVEL)
    if level is None:
        return ""
    return _DAEMON_LEVELS.get(level, "info" if level > LEVELS["debug"] else "debug")


def _log(ctx: click.Context, _: click.Parameter, word: Optional[str]) -> None:
    if word is None or ctx.resilient_parsing:
        return
    ctx.meta[_LEVEL] = LEVELS[word]
    if ctx.parent is not None:
        start_log(ctx, str(ctx.command.name))


def start_log(ctx: click.Context, command: str) -> None:
    """Log to stderr if the command line asks for it; a daemon, *command*, sets up its own log."""
    level = ctx.meta.get(_LEVEL)
    if level is None or command in _DAEMONS:
        return
    import logging

    from catena.core.log_lines import LineFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("[%(levelname)-8s] %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    # Libraries log each packet below this.
    logging.getLogger("paramiko").setLevel(max(level, logging.INFO))


def _colour(ctx: click.Context, _: click.Parameter, off: Optional[bool]) -> None:
    if off is not None:
        ctx.find_root().color = not off


def _append(ctx: click.Context, _: click.Parameter, on: bool) -> None:
    ctx.meta["catena.append"] = on


def _to_file(ctx: click.Context, param: click.Parameter, name: Optional[str]) -> None:
    if name is None or ctx.resilient_parsing:
        return
    mode = "a" if ctx.meta.get("catena.append") else "w"
    try:
        # Closed with the process: everything that it prints goes there.
        sys.stdout = Path(name).open(mode, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise click.BadParameter(f"{name}: {error.strerror}", ctx, param) from None
