"""Who this host is: the minion's name and the machine's id."""

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

#: What systemd gives each installation (machine-id(5)).
MACHINE_ID_FILE = "/etc/machine-id"
_LIMIT = 256


def minion_id(settings: MinionSettings) -> ids.MinionId:
    """Return the configured id, else the host's FQDN, else its host name.

    Raises:
        BadNameError: neither follows the grammar of a minion id.
    """
    if settings.id:
        return ids.minion_id(settings.id)
    # Here: who is given a name needs none of it, and it is a twentieth of a short command.
    import socket

    name = socket.getfqdn()
    if name.startswith("localhost") or not name:
        name = socket.gethostname()
    return ids.minion_id(name)


def machine_id(settings: MinionSettings, path: str = MACHINE_ID_FILE) -> ids.MachineId:
    """Return the id of this host: configured, else /etc/machine-id, else made once and kept.

    The made one lies in cache_dir, so that a clone of the configuration alone is another machine.

    Raises:
        BadNameError: what was found does not follow the grammar.
        OSError: none was found and none could be kept.
    """
    if settings.machine_id:
        return ids.machine_id(settings.machine_id)
    found = _read(path)
    # "uninitialized" is what systemd leaves in an image before its first boot.
    if found and found != "uninitialized":
        return ids.machine_id(found)
    return _kept_machine_id(private_folder(settings.cache_dir))


def _kept_machine_id(cache_dir: Path) -> ids.MachineId:
    """Return the id that was made here, made now where there is none.

    It lies in two files, each with a newline of its own, the second one with a checksum: damage of
    either is noticed, and mended from the other.
    """
    first, second = cache_dir / "machine_id", cache_dir / "machine_id.copy"
    found, copy = _machine_id_in(_read_kept(first)), _checked(_read_kept(second))
    if found and found == copy:
        return found
    whole = copy or found or ids.machine_id(os.urandom(16).hex())
    if first.exists() and found != whole:
        lost = "" if copy else "the id of this machine: it has a new one, which the master checks"
        _report(cache_dir, first, "it is not the id that was made", copy and "its copy", lost)
    elif second.exists() and copy != whole:
        _report(cache_dir, second, "its checksum does not fit", "the id itself", "")
    try:
        write_durable(first, f"{whole}\n".encode("ascii"))
        write_durable(second, f"{whole} {zlib.crc32(whole.encode()):08x}\n".encode("ascii"))
    except OSError:
        # A full disk, or a folder in the place of one file: the other one is enough.
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
    except (OSError, CatenaError):  # a folder, or endless: the report is worth more than its bytes
        data = None
    damage.report(cache_dir, found, data)


def _read_kept(path: Path) -> str:
    """Return the text of a file that this agent wrote; "" of what it can't have written."""
    try:
        return _read(str(path))
    except LimitError:
        return ""


def _read(path: str) -> str:
    if not Path(path).is_file():
        return ""
    return read_limited(path, _LIMIT).decode("ascii", "replace").strip()
