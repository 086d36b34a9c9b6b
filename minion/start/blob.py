"""The start record, passed from the launcher to the daemon, and from the daemon to its template.

The launcher reads YAML and collects grains in a process that is then replaced, so that the daemon
needs neither. The record is passed as JSON in an inherited memory file. The command line or the
environment would show the enrol token to others.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Dict

from catena.core import records
from catena.core.clock import read_boot_id
from catena.core.config.minion import MinionSettings
from catena.core.files import read_limited, write_all
from catena.core.frozen import dataclass, field

#: Name of the daemon's unix socket in run_dir.
SOCKET = "minion.sock"
_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True)
class StartData:
    """Everything that a daemon must know before its first message."""

    settings: MinionSettings
    id: str
    machine_id: str
    #: Folder of the configuration file.
    conf_dir: str
    grains: Dict[str, Any] = field(default_factory=dict)
    module_options: Dict[str, Any] = field(default_factory=dict)
    #: Result of mgractionchains.get_pending_resume; {} without a resume file.
    pending_resume: Dict[str, Any] = field(default_factory=dict)
    #: Chain that has begun here and not ended; 0: none.
    open_chain: int = 0
    #: A requested reboot or agent restart that has not happened; {}: none.
    pending_after: Dict[str, Any] = field(default_factory=dict)
    #: Random id of the agent process; "" until the daemon has set it.
    session: str = ""

    @cached_property
    def cache_dir(self) -> Path:
        """Return the folder of everything that is kept between runs."""
        return Path(self.settings.cache_dir)

    @cached_property
    def files_dir(self) -> Path:
        """Return the folder of cached files of the master."""
        return self.cache_dir / "files"

    @cached_property
    def run_dir(self) -> Path:
        """Return the folder of the unix socket."""
        return Path(self.settings.run_dir)

    def running_boot(self) -> str:
        """Return the id of the running boot; "" if it cannot be read.

        Without it, no process counts as alive, so none is killed by mistake.
        """
        try:
            return read_boot_id(self.settings.boot_id_file)
        except OSError:
            return ""


def write(start: StartData) -> int:
    """Return a descriptor that the next program of this process, or a child, inherits."""
    handle = os.memfd_create("catena-start", 0)
    write_all(handle, json.dumps(records.encode(start)).encode("utf-8"))
    os.lseek(handle, 0, os.SEEK_SET)
    os.set_inheritable(handle, True)
    return handle


def read(handle: int) -> StartData:
    """Return the record that `write` wrote, and close the descriptor."""
    try:
        data = json.loads(read_limited(f"/proc/self/fd/{handle}", _LIMIT))
    finally:
        os.close(handle)
    return records.decode(StartData, data)
