"""The identity of this host: the minion's name and the machine's id."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Optional

from catena.core import ids
from catena.core.config.minion import MinionSettings
from catena.core.errors import CatenaError, LimitError
from catena.core.files import private_folder, read_limited, write_durable
from catena.runtime import damage

#: File with the id that systemd assigns to each installation (machine-id(5)).
MACHINE_ID_FILE = "/etc/machine-id"
_LIMIT = 256


def minion_id(settings: MinionSettings) -> ids.MinionId:
    """Return the configured id, else the host's FQDN, else its host name.

    Raises:
        BadNameError: none of them follows the grammar of a minion id.
    """
    if settings.id:
        return ids.minion_id(settings.id)
    # Imported here: a configured id does not need it, and it takes a twentieth of a short command.
    import socket

    name = socket.getfqdn()
    if name.startswith("localhost") or not name:
        name = socket.gethostname()
    return ids.minion_id(name)


def machine_id(settings: MinionSettings, path: str = MACHINE_ID_FILE) -> ids.MachineId:
    """Return the id of this host: configured, else /etc/machine-id, else generated and stored.

    A generated id is stored in cache_dir, so that a host with a cloned configuration differs.

    Raises:
        BadNameError: the id does not follow the grammar.
        OSError: there was none, and a generated one could not be stored.
    """
    if settings.machine_id:
        return ids.machine_id(settings.machine_id)
    found = _read(path)
    # "uninitialized" is what systemd leaves in an image before its first boot.
    if found and found != "uninitialized":
        return ids.machine_id(found)
    return _kept_machine_id(private_folder(settings.cache_dir))


def _kept_machine_id(cache_dir: Path) -> ids.MachineId:
    """Return the stored generated id; generate it if there is none.

    It is stored in two files, each with a newline and the second with a checksum, so that damage
    of either is detected and repaired from the other.
    """
    first, second = cache_dir / "machine_id", cache_dir / "machine_id.copy"
    found, copy = _machine_id_in(_read_kept(first)), _checked(_read_kept(second))
    if found and found == copy:
        return found
    whole = copy or found or ids.machine_id(os.urandom(16).hex())
    if first.exists() and found != whole:
        lost = "" if copy else "this machine's id: it has a new one, which the master checks"
        _report(cache_dir, first, "it differs from the generated id", copy and "its copy", lost)
    elif second.exists() and copy != whole:
        _report(cache_dir, second, "its checksum does not match", "the id itself", "")
    try:
        write_durable(first, f"{whole}\n".encode("ascii"))
        write_durable(second, f"{whole} {zlib.crc32(whole.encode()):08x}\n".encode("ascii"))
    except OSError:
        # A full disk, or a folder in place of one file: the other file is enough.
        if not (found or copy):
            raise
    return whole


def _machine_id_in(text: str) -> Optional[ids.MachineId]:
    try:
        return ids.machine_id(text)
    except CatenaError:
        return None


def _checked(text: str) -> Optional[ids.MachineId]:
    name, _, checksum = text.partition(" ")
    return _machine_id_in(name) if checksum == f"{zlib.crc32(name.encode()):08x}" else None


def _report(cache_dir: Path, file: Path, what: str, saved: Optional[str], lost: str) -> None:
    found = damage.Damage(str(file), what, saved or "", lost or "nothing")
    try:
        data: Optional[bytes] = read_limited(file, damage.ASIDE_BYTES)
    except (OSError, CatenaError):  # a folder or an endless file; report it without its content
        data = None
    damage.report(cache_dir, found, data)


def _read_kept(path: Path) -> str:
    """Return the text of a file of this agent; "" if the agent cannot have written it."""
    try:
        return _read(str(path))
    except LimitError:
        return ""


def _read(path: str) -> str:
    if not Path(path).is_file():
        return ""
    return read_limited(path, _LIMIT).decode("ascii", "replace").strip()
