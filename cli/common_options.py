"""Options of every command: log level on stderr, colour, and a file for the output.

Salt's commands accept them after their own options, so users expect them there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Mapping, Optional

import click

#: Salt's log levels, least severe first -> the level of `logging`.
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
#: Level of `logging` -> the daemons' setting, for `catena master -l LEVEL`.
_DAEMON_LEVELS: Mapping[int, str] = {100: "error", 50: "error", 40: "error", 30: "warning"}
_DAEMONS = frozenset({"master", "minion"})
#: Key of a command's log level in click's `meta`.
_LEVEL = "catena.log_level"


def add_to(command: click.Command) -> click.Command:
    """Add the options of this module to *command* and its subcommands; return *command*."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            add_to(one)
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
            help=f"Level of the log on stderr: {', '.join(LEVELS)}.",
        ),
        click.Option(
            ["--no-color/--force-color", "--no-colour/--force-colour"],
            default=None,
            expose_value=False,
            callback=_colour,
            help="Whether to use colours; by default on a terminal only.",
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
            help="Append to the output file instead of replacing it.",
        ),
    ]


def daemon_level(ctx: click.Context) -> str:
    """Return the log level in a daemon's command line as a value of the setting `log_level`.

    Without a level in the command line, return "".
    """
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
    """Log to stderr if the command line asks for it; the daemon *command* sets up its own log."""
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
    # paramiko logs every packet at DEBUG.
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
        # Open until the process ends, because everything that it prints goes there.
        sys.stdout = Path(name).open(mode, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise click.BadParameter(f"{name}: {error.strerror}", ctx, param) from None
