"""Pauses of state runs, stored by state.pause and read by the run before each state.

There is one small file per job in the private cache folder, because no other process can change a
running job. A file of an ended run stays until another run is paused.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Collection, Dict, Optional

from catena.core import ids
from catena.core.files import read_limited, unlink_durable, write_durable
from catena.core.frozen import asdict, dataclass

#: Key that means every id of a run.
EVERY = "__all__"
_SIZE_LIMIT = 1024 * 1024
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Pause:
    """A pause of a run, or its end, before a state."""

    #: Time at which the run continues (seconds of the system's clock); None: when resumed.
    until: Optional[float] = None
    #: The run ends instead of waiting.
    kill: bool = False


def folder(cache_dir: Path) -> Path:
    """Return the folder of the pauses."""
    return cache_dir / "pauses"


def read(cache_dir: Path, jid: str) -> Dict[str, Pause]:
    """Return the pauses of a job by state id.

    Raises:
        BadNameError: *jid* is no job id.
    """
    path = folder(cache_dir) / ids.jid(jid)
    try:
        kept = json.loads(read_limited(path, _SIZE_LIMIT))
    except (FileNotFoundError, ValueError):
        return {}
    return {str(key): Pause(**value) for key, value in kept.items()}


def keep(cache_dir: Path, jid: str, pauses: Dict[str, Pause]) -> None:
    """Store the pauses of a job; an empty mapping removes the file."""
    path = folder(cache_dir) / ids.jid(jid)
    if pauses:
        folder(cache_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {key: asdict(pause) for key, pause in pauses.items()}
        write_durable(path, json.dumps(kept).encode("utf-8"))
    elif path.exists():
        unlink_durable(path)


def forget_others(cache_dir: Path, running: Collection[str]) -> None:
    """Remove the pauses of all jobs except those in *running*."""
    for path in folder(cache_dir).glob("*"):
        if path.name not in running:
            path.unlink(missing_ok=True)


class Gate:
    """Holds or ends one run before its states.

    Args:
        cache_dir: the host's private folder.
        jid: the run's job id; "" has no pauses.
    """

    def __init__(self, cache_dir: Path, jid: str) -> None:
        self._cache_dir = cache_dir
        self._jid = jid
        #: A string, because it is used before every state and a Path builds it each time.
        self._path = str(folder(cache_dir) / jid) if jid else ""
        #: The end of the run was requested.
        self.killed = False

    def pass_(self, state_id: str) -> None:
        """Return when the state may run; return at once and set `killed` if the run has to end."""
        # access(2) is faster than `exists`, which raises and catches an error if there is no file.
        while self._path and os.access(self._path, os.F_OK) and not self.killed:
            pauses = read(self._cache_dir, self._jid)
            pause = pauses.get(state_id) or pauses.get(EVERY)
            if pause is None or (pause.until is not None and time.time() >= pause.until):
                return
            self.killed = pause.kill
            if not self.killed:
                time.sleep(_LOOK_SECONDS)
