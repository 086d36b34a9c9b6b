"""The connection of a command to the master, and the keys of its requests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from catena import client
from catena.core.errors import UsageError

if TYPE_CHECKING:
    from catena.client.connection import MasterClient

#: Key of `--request-key` in click's `meta`.
REQUEST_KEY = "catena.request_key"
#: Maximum length of `--request-key` in characters; the request's key appends verb and number.
_KEY_CHARACTERS = 80


def checked_key(key: str) -> str:
    """Return *key*, the value of `--request-key`, after checking it.

    Raises:
        UsageError: *key* cannot be part of a request's key.
    """
    from catena.core.ids import BadNameError, request_key

    try:
        if len(key) <= _KEY_CHARACTERS:
            return request_key(key)
    except BadNameError:
        pass
    raise UsageError(
        f"--request-key {key[:_KEY_CHARACTERS]!r}: it must be a letter or digit, then up to "
        f"{_KEY_CHARACTERS - 1} of letters, digits, '.', '_', ':', '/', '-'"
    )


def connect(ctx: click.Context) -> MasterClient:
    """Return a client of the master configured in `--config-dir`."""
    key = ctx.meta.get(REQUEST_KEY, "")
    return client.connect(config_dir=ctx.find_root().obj, key=key, tell=_print_notice)


def _print_notice(text: str) -> None:
    print(f"catena: {text}", file=sys.stderr, flush=True)
