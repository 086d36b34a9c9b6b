"""Keyrings of apt: files that `signed-by` of a source names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg.repos.keys import (
    KeySource,
    fingerprints,
    read_limited,
    wanted_keyring,
)
from catena.modules.pkg.repos.openpgp import (
    PublicKey,
    armored,
    binary_keyring,
    is_armored,
    public_keys,
)
from catena.modules.pkg.repos.plan import Files, write_files


def keyring_file(path: Path, keyring: bytes) -> bytes:
    """Return a binary keyring in the form that apt expects by the name: `.asc` is text."""
    return armored(keyring) if path.suffix == ".asc" else keyring


def keyring_change(
    context: Context, path: Path, source: KeySource, saltenv: str
) -> Tuple[Files, Dict[str, Any]]:
    """Return the keyring to write and what changes, nothing if it holds the wanted keys.

    Keys are compared themselves: an address or an id says nothing about what the file holds.

    Raises:
        CommandExecutionError: a key can't be fetched, or is none.
    """
    raw = read_limited(path, str(path)) if path.is_file() else b""
    try:
        present = binary_keyring(raw, str(path)) if raw else b""
    except CommandExecutionError:
        # A damaged keyring, or a page of HTML that a download left there, is replaced.
        present = b""
    made = wanted_keyring(context, source, present, saltenv)
    if made == present and is_armored(raw) is (path.suffix == ".asc"):
        return (), {}
    change = {"old": fingerprints(present, str(path)), "new": fingerprints(made, str(path))}
    return ((path, keyring_file(path, made)),), {"key": change}


def _keyrings(folder: Path) -> List[Tuple[Path, List[PublicKey]]]:
    """Return the keyrings of a folder with their keys; other files are skipped."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not path.is_file():
            continue
        try:
            data = binary_keyring(read_limited(path, str(path)), str(path))
            found.append((path, public_keys(data, str(path))))
        except CommandExecutionError:
            continue
    return found


def _shown(key: PublicKey) -> Dict[str, Any]:
    return {
        "algorithm": key.algorithm,
        "bits": key.bits,
        "date_creation": key.created,
        "fingerprint": key.fingerprint,
        "keyid": key.keyid,
    }


def listed_keys(folder: Path) -> Dict[str, Any]:
    """Return the keys of a folder of keyrings by id, in the form of pkg.get_repo_keys."""
    found: Dict[str, Any] = {}
    for path, keys in _keyrings(folder):
        for key in keys:
            found[key.keyid] = {**_shown(key), "uid": (*key.user_ids, "")[0], "file": str(path)}
            if key.subkeys:
                found[key.keyid]["subkey"] = _shown(key.subkeys[-1])
    return found


def add_keyring(
    context: Context, source: KeySource, saltenv: str, folder: Path, name: Optional[str]
) -> None:
    """Write the keyring *name* of a folder with the keys of *source*, unless it holds them.

    Raises:
        UsageError: no key is named, or *name* is a path.
        CommandExecutionError: a key can't be fetched or written, or is none.
    """
    if not source.named():
        raise UsageError("name a key: path, text, or keyserver and keyid")
    if source.ids and all(_holder(folder, digits) for digits in source.ids):
        return
    file = folder / _file_name(context, source, saltenv, name)
    write_files(keyring_change(context, file, source, saltenv)[0])


def _file_name(context: Context, source: KeySource, saltenv: str, name: Optional[str]) -> str:
    """Return the name of a keyring: as given, of the address, or the id of the key."""
    chosen = str(name or "")
    if not chosen and source.urls:
        chosen = source.urls[0].partition("?")[0].rpartition("/")[2]
    if not chosen:
        key = public_keys(wanted_keyring(context, source, b"", saltenv), "the key")[0]
        chosen = f"{key.keyid}.gpg"
    if "/" in chosen or chosen in (".", ".."):
        raise UsageError(f"{chosen[:200]!r} can't be the name of a keyring")
    return chosen if chosen.endswith((".gpg", ".asc")) else f"{chosen}.gpg"


def _holder(folder: Path, digits: str) -> Optional[Path]:
    for path, keys in _keyrings(folder):
        if any(key.has_id(digits) for key in keys):
            return path
    return None


def remove_keyring(folder: Path, digits: str) -> None:
    """Remove the keyring that has a key.

    Raises:
        CommandExecutionError: no keyring has it, or it can't be removed.
    """
    path = _holder(folder, digits)
    if path is None:
        raise CommandExecutionError(f"no keyring in {folder} has the key {digits}")
    write_files(((path, None),))
