"""Pauses of state runs: what state.pause asks for, kept where the run itself looks before a state.

One small file per job in the private cache folder. Nobody else can reach into the process of a
running job, and a run that is gone leaves nothing but this file, until another run is paused.
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

#: What stands for every id of a run.
EVERY = "__all__"
_SIZE_LIMIT = 1024 * 1024
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Pause:
    """Before which state a run waits, or ends."""

    #: Time at which it goes on by itself (seconds of the system's clock); None: when resumed.
    until: Optional[float] = None
    #: The run ends instead of waiting.
    kill: bool = False


def folder(cache_dir: Path) -> Path:
    """Return where pauses are kept."""
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
    """Keep the pauses of a job; none removes the file."""
    path = folder(cache_dir) / ids.jid(jid)
    if pauses:
        folder(cache_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {key: asdict(pause) for key, pause in pauses.items()}
        write_durable(path, json.dumps(kept).encode("utf-8"))
    elif path.exists():
        unlink_durable(path)


def forget_others(cache_dir: Path, running: Collection[str]) -> None:
    """Remove what runs have left that are over: all but those of the job ids in *running*."""
    for path in folder(cache_dir).glob("*"):
        if path.name not in running:
            path.unlink(missing_ok=True)


class Gate:
    """Stands before every state of one run.

    Args:
        cache_dir: the host's private folder.
        jid: the run's job; "" has no pauses.
    """

    def __init__(self, cache_dir: Path, jid: str) -> None:
        self._cache_dir = cache_dir
        self._jid = jid
        #: A text: it is looked for before every state, and a Path makes it anew each time.
        self._path = str(folder(cache_dir) / jid) if jid else ""
        #: Somebody asked for the end of the run.
        self.killed = False

    def pass_(self, state_id: str) -> None:
        """Return when the state may run; or at once, `killed`, when the run is to end."""
        # Not `exists`, which raises and catches an error for each state without a pause.
        while self._path and os.access(self._path, os.F_OK) and not self.killed:
            pauses = read(self._cache_dir, self._jid)
            pause = pauses.get(state_id) or pauses.get(EVERY)
            if pause is None or (pause.until is not None and time.time() >= pause.until):
                return
            self.killed = pause.kill
            if not self.killed:
                time.sleep(_LOOK_SECONDS)
