"""Parsing of a function and its arguments, shared by `run` and `call`."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Sequence

import click

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern
from catena.core.suggest import unknown

#: A word that looks like an option; -1 is a number.
_OPTION = lazy_pattern(r"--?[A-Za-z]")
_FUNCTION = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+\Z")
#: Options of `catena` itself, as in cli.commands, whose import would be a cycle.
_OF_CATENA = frozenset({"-c", "--config-dir"})
#: Salt's options that catena does not support, with their replacement.
REFUSED: Mapping[str, str] = {
    name: "range expressions are not supported; use -L, -E, -N or -C" for name in ("-R", "--range")
}


class FunctionCommand(click.Command):
    """A command that passes words on to a function, but refuses mistyped options."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Parse *args*. Refuse unknown options before `--`.

        Raises:
            UsageError: such an option is there; the error suggests the nearest right one.
        """
        known: Dict[str, click.Option] = {
            name: option
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        }
        if not ctx.resilient_parsing:
            # During completion in a shell the line is not finished.
            _refuse_unknown(known, args)
        return super().parse_args(ctx, args)


def _refuse_unknown(known: Dict[str, click.Option], words: Sequence[str]) -> None:
    rest = iter(words)
    for word in rest:
        if word == "--":
            return
        if not _OPTION.match(word):
            continue
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        option = known.get(name)
        if option is None or not _fits(option, word):
            if name in REFUSED:
                raise UsageError(f"{name}: {REFUSED[name]}")
            if name in _OF_CATENA:
                raise UsageError(f"{name} comes before the command: catena {name} DIR …")
            wrong = name if word.startswith("--") else word
            raise UsageError(
                f"{unknown('option', wrong, known)} (words for the function that begin with - "
                "come after --)"
            )
        if not option.is_flag and word == name:
            next(rest, None)


def _fits(option: click.Option, word: str) -> bool:
    """Return whether *word* can be *option*: `-lt` in `ls -lt` is not a log level."""
    attached = "" if word.startswith("--") else word[2:]
    return (
        not attached
        or not isinstance(option.type, click.Choice)
        or (attached in option.type.choices)
    )


def check_function(function: str, target: str = "") -> None:
    """Check the name of a function before anything is sent.

    Args:
        function: the word in the function's place.
        target: the word before it, for a command with a target.

    Raises:
        UsageError: *function* is not MODULE.FUNCTION, or the shell has expanded a pattern to file
            names.
    """
    # os.path returns False where pathlib would raise for a folder that cannot be read.
    if target and os.path.exists(target) and os.path.exists(function):  # noqa: PTH110
        raise UsageError(
            f"{target!r} and {function!r} are files here: the shell has expanded the target; "
            "put it in quotes, as in '*'"
        )
    if not _FUNCTION.match(function):
        raise UsageError(
            f"{function!r} is not a function: it must be MODULE.FUNCTION, such as test.ping; "
            "`catena doc` lists them"
        )
