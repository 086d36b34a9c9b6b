"""Who this host is: the minion's name and the machine's id."""

from __future__ import annotations

import os
from pathlib import Path

from catena.core import ids
from catena.core.config.minion import MinionSettings
from catena.core.files import private_folder, read_limited, write_durable

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
    kept = private_folder(settings.cache_dir) / "machine_id"
    found = _read(str(kept))
    if not found:
        found = os.urandom(16).hex()
        write_durable(kept, f"{found}\n".encode("ascii"))
    return ids.machine_id(found)


def _read(path: str) -> str:
    if not Path(path).is_file():
        return ""
    return read_limited(path, _LIMIT).decode("ascii", "replace").strip()
