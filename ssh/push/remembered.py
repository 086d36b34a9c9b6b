"""Cache the probe results of hosts, so that not every visit has to probe.

A probe starts a login shell, a shell and an interpreter on the host, which is a tenth of a short
visit. Cached results are not trusted: the program checks its folder at each start, and if it does
not start, the host is probed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from catena.core.files import read_limited
from catena.core.frozen import asdict, dataclass
from catena.core.logs import logger
from catena.ssh.connect.target import SshTarget, SshTargetError, python_path, remote_path

log = logger(__name__)

_LIMIT = 16 * 1024


@dataclass(frozen=True)
class Ground:
    """Interpreter and folder of catena's program on a host."""

    #: Absolute path of an interpreter.
    python: str
    #: The private folder for catena's files.
    room: str


class Remembered:
    """Probe results of hosts, one small file each.

    Args:
        folder: private folder; None disables the cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def recall(self, target: SshTarget) -> Ground | None:
        """Return the cached result of a host, or None."""
        path = self._path(target)
        try:
            found = json.loads(read_limited(path, _LIMIT)) if path else {}
            return Ground(python_path(found["python"]), remote_path(found["room"]))
        except (OSError, ValueError, TypeError, KeyError, SshTargetError):
            # A missing or damaged file means that the host is probed.
            return None

    def keep(self, target: SshTarget, ground: Ground) -> None:
        """Store the result of a host, if it can be written."""
        path = self._path(target)
        if path is None:
            return
        # No fsync: a lost cache does no harm.
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{id(ground)}")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh.write_text(json.dumps(asdict(ground)), encoding="utf-8")
            fresh.rename(path)
        except OSError:
            # The next visit probes the host again.
            log.debug("what %s has is not remembered", target.id, exc_info=True)

    def forget(self, target: SshTarget) -> None:
        """Remove the cached result of a host."""
        path = self._path(target)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, target: SshTarget) -> Path | None:
        if self._folder is None:
            return None
        # Everything that may change the user, interpreter or folder.
        who = (target.id, target.host, target.port, target.user, target.sudo, target.sudo_user)
        how = (target.python, target.thin_dir, target.search_path, target.tty)
        key = hashlib.sha256(json.dumps([who, how]).encode("utf-8")).hexdigest()
        return self._folder / f"{key[:40]}.json"
