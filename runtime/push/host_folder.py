"""The private folder on a host with everything that catena brought there over SSH.

    bundles/          the program, by its hash (`catena.ssh.push.bundle`)
    parts/            contents by their hash
    incoming/         incomplete parts
    hosts/<id>/       conf, cache and pki of the host, as an agent of that id would have them
    runs/<run id>/    one run (`runtime.push.runs`)

Only this user may enter it; a folder with other permissions is refused, never repaired.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, Mapping, Optional

from catena.core import ids
from catena.core.config.minion import SALT_KEYS, MinionSettings
from catena.core.config.schema import load
from catena.core.errors import CatenaError
from catena.core.files import UnsafeFolderError, no_room, private_folder
from catena.fileserver.remote import ContentStore
from catena.runtime.host import AgentHome
from catena.runtime.push.protocol import HostIdentity, ProgramError, Trouble

MACHINE_ID_FILE = "/etc/machine-id"


class Room:
    """The folder, checked and with its parts made where they are missing.

    Args:
        path: absolute; made if it is missing.

    Raises:
        ProgramError: another user's, open to others, or it can't be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            check_way(path)
            for folder in (path, *(path / name for name in ("incoming", "hosts", "runs"))):
                private_folder(folder)
            self.parts = ContentStore(path / "parts")
        except (OSError, CatenaError) as error:
            raise trouble_of(error, str(path)) from None
        self.incoming = path / "incoming"
        self.runs = path / "runs"
        self.bundles = path / "bundles"

    def place(
        self, identity: HostIdentity, grains: Optional[Mapping[str, Any]] = None
    ) -> AgentHome:
        """Return where a host lives in here under the id of *identity*.

        Raises:
            CatenaError: a setting or the id can't be used.
            OSError: its folders can't be made.
        """
        settings, loaded = load(MinionSettings, identity.settings, SALT_KEYS)
        own = private_folder(self.path / "hosts" / ids.minion_id(identity.id))
        conf, cache, pki = (private_folder(own / name) for name in ("conf", "cache", "pki"))
        return AgentHome(
            settings,
            identity.id,
            ids.machine_id(settings.machine_id or machine_id() or identity.id[:64]),
            conf,
            cache,
            pki,
            grains=grains,
            module_options=loaded.module_options,
        )

    def free(self) -> int:
        """Return the free bytes that this user may write here."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def wipe(self) -> None:
        """Remove everything, the folder too.

        Raises:
            OSError: not all of it could be removed.
        """
        import shutil

        shutil.rmtree(self.path)


def machine_id(path: str = MACHINE_ID_FILE) -> str:
    """Return the content of /etc/machine-id, or ""."""
    try:
        text = Path(path).read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return "" if text == "uninitialized" else text


def check_way(path: Path) -> None:
    """Refuse a folder that another user could replace.

    Raises:
        UnsafeFolderError: the folder is a link, or one on its path belongs to another user or is
            writable by others (/tmp with its sticky bit is accepted).
    """
    if path.is_symlink():
        raise UnsafeFolderError(f"{path}: a link; it must be a folder")
    for folder in path.parents:
        found = _status(folder)
        if found is None:
            continue
        if found.st_uid not in (0, os.geteuid()):
            raise UnsafeFolderError(f"{folder}: belongs to another user (uid {found.st_uid})")
        if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
            if not _only_own_group(found):
                raise UnsafeFolderError(
                    f"{folder}: others may write to it (mode {stat.S_IMODE(found.st_mode):o})"
                )


def _status(folder: Path) -> Optional[os.stat_result]:
    try:
        return folder.stat()
    except FileNotFoundError:
        return None


def _only_own_group(found: os.stat_result) -> bool:
    """Return whether a folder is writable only by this user's private group, as some homes are."""
    return not found.st_mode & 0o002 and found.st_gid == os.getegid() != 0


def trouble_of(error: BaseException, where: str = "") -> ProgramError:
    """Return *error* in the form in which it is reported to the master."""
    if isinstance(error, ProgramError):
        return error
    text = str(error) or type(error).__name__
    if where and where not in text:
        text = f"{where}: {text}"
    if no_room(error):
        return ProgramError(Trouble.full, f"no space left: {text}")
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ProgramError(Trouble.readonly, f"can't be written: {text}")
    if isinstance(error, UnsafeFolderError):
        return ProgramError(Trouble.unsafe, text)
    if isinstance(error, CatenaError):
        return ProgramError(Trouble.refused, text)
    return ProgramError(Trouble.fault, f"{type(error).__name__}: {text}")
