"""git.*: repositories, checkouts and git's settings."""

from __future__ import annotations

from catena.states.git.latest import cloned, detached, latest
from catena.states.git.settings import config, config_set, config_unset
from catena.states.git.settings import present as present

__all__ = ["cloned", "config", "config_set", "config_unset", "detached", "latest", "present"]
