"""Two runs of chains on one host, and the moments at which tests end their process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from catena.core.job import ActionKind
from catena.runtime.resume_file import NAME

#: Every stop is tried by `pytest -m slow`; a plain run takes every STRIDE-th of each scenario.
STRIDE = int(os.environ.get("CATENA_CRASH_STRIDE", "9"))

REBOOT, UPGRADE = ActionKind.reboot, ActionKind.agent_upgrade


def bring_to_reboot(host: Any, epoch: int = 1) -> None:
    """Bring a chain to the reboot in its middle."""
    a = host.action
    host.render([a(1), a(2, REBOOT)], [a(3)], epoch=epoch)
    host.do(host.start().after)


def resume_file(host: Any) -> Path:
    """Return the path of the host's resume file."""
    return Path(host.folder) / "conf" / "minion.d" / NAME
