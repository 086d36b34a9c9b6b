"""What hosts had when they were last asked, so that not every visit has to ask.

Asking is a login shell, a shell and an interpreter of the host's, a tenth of a short visit. What
is remembered is never trusted: our program looks at its folder each time, and where it does not
begin with what is remembered, the host is asked anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from catena.core.files import read_limited
from catena.core.frozen import asdict, dataclass
from catena.core.logs import logger
from catena.ssh.connect.target import Target, TargetError, python_path, remote_path

log = logger(__name__)

_LIMIT = 16 * 1024


@dataclass(frozen=True)
class Ground:
    """Where our program runs on a host."""

    #: Absolute path of an interpreter.
    python: str
    #: The private folder for all that is ours.
    room: str


class Remembered:
    """Grounds of hosts, one small file each.

    Args:
        folder: private; None remembers nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def recall(self, target: Target) -> Ground | None:
        """Return what a host had; None: nobody knows."""
        path = self._path(target)
        try:
            found = json.loads(read_limited(path, _LIMIT)) if path else {}
            return Ground(python_path(found["python"]), remote_path(found["room"]))
        except (OSError, ValueError, TypeError, KeyError, TargetError):
            # Never asked, or torn: it is only what would be asked anyway.
            return None

    def keep(self, target: Target, ground: Ground) -> None:
        """Remember what a host has, as far as that can be written."""
        path = self._path(target)
        if path is None:
            return
        # Not brought to the disk: nothing is lost with it.
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{id(ground)}")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh.write_text(json.dumps(asdict(ground)), encoding="utf-8")
            fresh.rename(path)
        except OSError:
            # It is asked again by the next visit.
            log.debug("what %s has is not remembered", target.id, exc_info=True)

    def forget(self, target: Target) -> None:
        """Forget what a host had."""
        path = self._path(target)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, target: Target) -> Path | None:
        if self._folder is None:
            return None
        # All that changes which user, interpreter or folder it is.
        who = (target.id, target.host, target.port, target.user, target.sudo, target.sudo_user)
        how = (target.python, target.thin_dir, target.search_path, target.tty)
        key = hashlib.sha256(json.dumps([who, how]).encode("utf-8")).hexdigest()
        return self._folder / f"{key[:40]}.json"
