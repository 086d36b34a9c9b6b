"""Keys of repositories in the rpm database."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg.provider import Tool
from catena.modules.pkg.repos.keys import KeySource, wanted_keyring
from catena.modules.pkg.repos.openpgp import armored, public_keys

_ENV = {"LC_ALL": "C.UTF-8"}
#: The version of such a package is the end of the key id, its release the time of the key.
_FORMAT = "%{VERSION}\\t%{RELEASE}\\t%{SUMMARY}\\n"
#: Digits of a key id that rpm stores.
_DIGITS = 8


def parse_keys(text: str) -> Dict[str, Any]:
    """Return the keys in the answer of rpm to _FORMAT, by the id in capitals."""
    found: Dict[str, Any] = {}
    for line in text.splitlines():
        version, release, summary = [*line.split("\t"), "", ""][:3]
        if not release:
            continue
        try:
            created = int(release, 16)
        except ValueError:
            continue
        keyid = version.upper()
        found[keyid] = {
            "keyid": keyid,
            "date_creation": created,
            "uid": summary.replace("gpg(", "").rstrip(")"),
            "package": f"gpg-pubkey-{version}-{release}",
        }
    return found


def listed_keys(context: Context) -> Dict[str, Any]:
    """Return the keys of the rpm database by id, in the form of pkg.get_repo_keys."""
    ask = Tool(context, _ENV, looks=True)
    # Code 1: there is none.
    return parse_keys(ask("rpm", "-q", "gpg-pubkey", "--queryformat", _FORMAT, ok=(0, 1)))


def add_key(context: Context, source: KeySource, saltenv: str) -> None:
    """Import the keys of *source*, unless all are there.

    Raises:
        UsageError: no key is named.
        CommandExecutionError: a key can't be fetched, or rpm refuses it.
    """
    if not source.named():
        raise UsageError("name a key: path, text, or keyserver and keyid")
    known = listed_keys(context)
    if source.ids and all(one[-_DIGITS:] in known for one in source.ids):
        return
    keyring = wanted_keyring(context, source, b"", saltenv)
    if all(key.keyid[-_DIGITS:] in known for key in public_keys(keyring, "the key")):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "key.asc")
        path.write_bytes(armored(keyring))
        Tool(context, _ENV)("rpm", "--import", str(path))


def remove_key(context: Context, digits: str) -> None:
    """Remove a key.

    Raises:
        CommandExecutionError: it is not there, or rpm fails.
    """
    found = listed_keys(context).get(digits[-_DIGITS:])
    if found is None:
        raise CommandExecutionError(f"the rpm database has no key {digits}")
    Tool(context, _ENV)("rpm", "--erase", "--", found["package"])
