"""Keyword arguments that are not on the command line, where `ps` would show them to everybody."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Mapping, Sequence, TypeVar

import click

from catena.core.errors import CatenaError, UsageError

F = TypeVar("F", bound=Callable[..., Any])

#: Maximum size of a file of keyword arguments in bytes. An order is limited to 240 KiB anyway.
LIMIT_BYTES = 256 * 1024

HIDDEN_OPTIONS = (
    click.option(
        "--kwargs-file",
        metavar="FILE",
        help="Read arguments (key: value) from a file in YAML or JSON; ps does not show them.",
    ),
    click.option(
        "--stdin", "kwargs_stdin", is_flag=True, help="Read arguments (key: value) from stdin."
    ),
    click.option(
        "--kwarg-env",
        multiple=True,
        metavar="KEY=VARIABLE",
        help="Take an argument's value from an environment variable; repeatable.",
    ),
)


def hidden_options(command: F) -> F:
    """Add to *command* the options for arguments from elsewhere."""
    for option in reversed(HIDDEN_OPTIONS):
        command = option(command)
    return command


def with_hidden(kwargs: Mapping[str, Any], options: Mapping[str, Any]) -> Dict[str, Any]:
    """Return *kwargs* together with those from a file, stdin or the environment.

    Args:
        kwargs: keyword arguments on the command line.
        options: the values of the options of `hidden_options`.

    Raises:
        UsageError: a source cannot be read, is not a mapping of names, or repeats a keyword.
    """
    sources = []
    if options["kwargs_file"]:
        sources.append(read_mapping(options["kwargs_file"], "--kwargs-file"))
    if options["kwargs_stdin"]:
        sources.append(_mapping(sys.stdin.buffer.read(LIMIT_BYTES + 1), "stdin"))
    if options["kwarg_env"]:
        sources.append(_from_environment(options["kwarg_env"]))
    found = dict(kwargs)
    for source in sources:
        for key, value in source.items():
            if key in found:
                raise UsageError(f"{key}= is given twice")
            found[key] = value
    return found


def any_hidden(options: Mapping[str, Any]) -> bool:
    """Return whether the command line specifies another source of arguments."""
    return bool(options["kwargs_file"] or options["kwargs_stdin"] or options["kwarg_env"])


def read_mapping(path: str, option: str) -> Dict[str, Any]:
    """Return the mapping in a YAML or JSON file.

    Raises:
        UsageError: it cannot be read or is not a mapping; the message names *option*.
    """
    try:
        with open(path, "rb") as stream:  # noqa: PTH123  # a pipe (<(...)) is read, too
            return _mapping(stream.read(LIMIT_BYTES + 1), path)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None


def _mapping(data: bytes, name: str) -> Dict[str, Any]:
    from catena.renderers.yaml import load

    if len(data) > LIMIT_BYTES:
        raise UsageError(f"{name}: more than {LIMIT_BYTES} bytes of arguments")
    try:
        found = load(data.decode("utf-8"), name)
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not UTF-8 text") from None
    except CatenaError as error:
        # Only the first line of the error: the excerpt after it may contain the secret.
        raise UsageError(str(error).splitlines()[0]) from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise UsageError(f"{name}: expected a mapping of arguments, as in `password: secret`")
    return found


def _from_environment(pairs: Sequence[str]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for pair in pairs:
        key, sign, variable = pair.partition("=")
        if not (key.isidentifier() and sign and variable):
            raise UsageError(f"--kwarg-env {pair}: expected KEY=VARIABLE")
        if variable not in os.environ:
            raise UsageError(f"--kwarg-env {pair}: the environment variable {variable} is not set")
        if key in found:
            raise UsageError(f"{key}= is given twice")
        found[key] = os.environ[variable]
    return found
