"""Fingerprints of this host's key and of its master's key (Salt's `key` module)."""

from __future__ import annotations

from pathlib import Path

from catena.core.context import Context
from catena.core.errors import NotFoundError
from catena.core.files import read_limited
from catena.core.plugins import function
from catena.transport.keys import KEY_CHARACTERS, fingerprint, load

#: Maximum size of a key file in bytes: the key and a line end.
_LIMIT = KEY_CHARACTERS + 2


@function(reads=True)
def finger(context: Context) -> str:
    """Return the fingerprint of this host's key, as `catena key list` shows it on the master.

    Raises:
        NotFoundError: the host has no key yet; the daemon creates it at its first start.
    """
    try:
        return load(_folder(context)).fingerprint
    except FileNotFoundError as error:
        raise NotFoundError(f"{error.filename}: no key yet; `catena minion` makes it") from None


@function(reads=True)
def finger_master(context: Context) -> str:
    """Return the fingerprint of the master's key that this host trusts.

    Raises:
        NotFoundError: this host does not trust a master yet.
    """
    path = _folder(context) / "master.pub"
    try:
        return fingerprint(read_limited(path, _LIMIT).decode("ascii").strip())
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no master is trusted yet") from None


def _folder(context: Context) -> Path:
    return Path(str(context.opts["pki_dir"]))
