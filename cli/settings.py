"""The settings that a command needs, and the connection made from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

import click

from catena.cli.socket_path import master_socket
from catena.core.errors import UsageError

if TYPE_CHECKING:
    from catena.client.connection import MasterClient
    from catena.core.config.master import MasterSettings
    from catena.core.config.schema import Loaded


#: Where the context of click keeps `--request-key`.
REQUEST_KEY = "catena.request_key"
#: Longest name of a command's requests; what tells them apart is put behind it.
_KEY_CHARACTERS = 80


def named(key: str) -> str:
    """Return what `--request-key` says.

    Raises:
        UsageError: it can't be part of a request's key.
    """
    from catena.core.ids import BadNameError, request_key

    try:
        if len(key) <= _KEY_CHARACTERS:
            return request_key(key)
    except BadNameError:
        pass
    raise UsageError(
        f"--request-key {key[:_KEY_CHARACTERS]!r}: a letter or digit, then up to "
        f"{_KEY_CHARACTERS - 1} of letters, digits, '.', '_', ':', '/', '-'"
    )


def read(path: Path) -> Mapping[str, Any]:
    """Return the merged configuration of *path* and its .d folder; {} when there is none."""
    if not path.exists() and not path.with_name(f"{path.name}.d").exists():
        return {}
    # PyYAML is a tenth of a command's time; a host without a file does without.
    from catena.renderers.config_files import read as read_files

    return read_files(path)


def master_settings(config_dir: str) -> tuple[MasterSettings, Loaded]:
    """Return the master's settings.

    Raises:
        ConfigError: they can't be used; the message names the setting.
    """
    from catena.core.config.folders import placed
    from catena.core.config.master import SALT_KEYS, MasterSettings
    from catena.core.config.schema import load
    from catena.core.errors import ConfigError

    path = Path(config_dir) / "master"
    data = read(path)
    try:
        settings, loaded = load(MasterSettings, data, SALT_KEYS)
    except ConfigError as error:
        from catena.renderers.config_files import explained

        raise explained(path, error) from None
    return placed(settings, data, Path(config_dir), "master"), loaded


def connect(ctx: click.Context) -> MasterClient:
    """Return a client of the master that `--config-dir` names."""
    # A daemon starts without it.
    from catena.client.connection import MasterClient

    socket, key = master_socket(ctx.find_root().obj), ctx.meta.get(REQUEST_KEY, "")
    return MasterClient(socket, key=key, tell=_tell)


def _tell(text: str) -> None:
    print(f"catena: {text}", file=sys.stderr, flush=True)
