"""The target options of every command with minions, with Salt's letters."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Tuple, TypeVar

import click

from catena.core.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

#: Option -> (target type, help).
OPTIONS: Mapping[Tuple[str, str], Tuple[str, str]] = {
    ("-G", "--grain"): ("grain", "Target by grain: os:Debian."),
    ("-P", "--grain-pcre"): ("grain_pcre", "Target by a regular expression on a grain."),
    ("-E", "--pcre"): ("pcre", "Target by a regular expression on the id."),
    ("-L", "--list"): ("list", "Target is a comma-separated list of ids."),
    ("-S", "--ipcidr"): ("ipcidr", "Target by address or network."),
    ("-I", "--pillar"): ("pillar", "Target by pillar: role:web."),
    ("-J", "--pillar-pcre"): ("pillar_pcre", "Target by a regular expression on a pillar value."),
    ("-N", "--nodegroup"): ("nodegroup", "Target is a nodegroup of the master's configuration."),
    ("-C", "--compound"): ("compound", "Target by a compound expression."),
}


def target_options(command: F) -> F:
    """Add the target options to *command*; each is passed as a flag by_<type>."""
    for (short, long), (kind, text) in reversed(list(OPTIONS.items())):
        command = click.option(short, long, f"by_{kind}", is_flag=True, help=text)(command)
    return command


def short_target_options(command: F) -> F:
    """Add only the letters, for a command whose `--pillar` has another meaning."""
    for (short, _), (kind, text) in reversed(list(OPTIONS.items())):
        command = click.option(short, f"by_{kind}", is_flag=True, help=text)(command)
    return command


def target_type(flags: Mapping[str, Any]) -> str:
    """Return the requested target type; glob by default.

    Raises:
        UsageError: more than one type is requested.
    """
    asked = [kind for kind, _ in OPTIONS.values() if flags.get(f"by_{kind}")]
    if len(asked) > 1:
        raise UsageError(f"give one type of target, not {' and '.join(asked)}")
    return asked[0] if asked else "glob"
