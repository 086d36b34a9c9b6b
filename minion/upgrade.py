"""The daemon's part of a change of agent versions, and the guard that can undo it.

The guard is a process of the old version. It watches from outside, so that it can also replace a
new agent that does not start or hangs immediately.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import List

from catena.core import failpoints
from catena.core.clock import read_boot_id
from catena.core.config.minion import MinionSettings
from catena.minion.jobs import processes
from catena.minion.jobs.follow_up import spawn
from catena.minion.jobs.processes import ProcessRef
from catena.minion.start.interpreter import python_argv, site_folder
from catena.runtime import agent_versions
from catena.runtime.agent_versions import UpgradeState

_LOOK_SECONDS = 0.5
#: Seconds between SIGTERM and SIGKILL of an agent whose upgrade is undone.
_GRACE_SECONDS = 10.0


def wants_restart(cache_dir: Path) -> bool:
    """Return whether another version was requested and has not been tried."""
    # Checked after each job; usually there is no request.
    if not os.path.exists(f"{cache_dir}/{agent_versions.STATE_FILE}"):  # noqa: PTH110
        return False
    upgrade = agent_versions.read(cache_dir)
    return upgrade is not None and upgrade.state is UpgradeState.asked


def confirm(cache_dir: Path, session: str) -> bool:
    """Record that the master welcomed this agent; return whether that confirms a change."""
    return agent_versions.confirm(cache_dir, session)


def restart_argv(settings: MinionSettings, conf_dir: str) -> List[str]:
    """Return the argv of the next agent: the requested version, else the current one.

    For a requested change, `current` is switched and a guard is started.
    """
    agent_dir, cache_dir = Path(settings.agent_dir), Path(settings.cache_dir)
    upgrade = agent_versions.begin_switch(agent_dir, cache_dir)
    if upgrade is not None:
        failpoints.hit("agent.upgrade.switched")
        boot_id = read_boot_id(settings.boot_id_file)
        me = processes.reference(os.getpid(), boot_id)
        assert me is not None
        argv = python_argv("catena.minion.upgrade", conf_dir, str(agent_dir))
        argv += [str(cache_dir), str(me.pid), str(me.start), str(upgrade.deadline)]
        spawn(argv)
    return launch_argv(agent_dir, conf_dir)


def launch_argv(agent_dir: Path, conf_dir: str) -> List[str]:
    """Return the argv of the launcher of the current version."""
    version = agent_versions.current(agent_dir)
    site = str(agent_versions.site_of(agent_dir, version)) if version else ""
    return python_argv("catena.minion.launch", conf_dir, site=site)


def is_current(agent_dir: Path) -> bool:
    """Return whether this process runs the version that `current` names, or none is named."""
    version = agent_versions.current(agent_dir)
    return not version or str(agent_versions.site_of(agent_dir, version)) == site_folder()


def guard(conf_dir: str, agent_dir: Path, cache_dir: Path, agent: ProcessRef, until: float) -> str:
    """Wait for the new agent to be confirmed; otherwise undo the change and start the old one.

    Returns:
        The state in which the change ended.
    """
    boot_id = agent.boot_id
    managed = "INVOCATION_ID" in os.environ
    while time.time() < until:
        upgrade = agent_versions.read(cache_dir)
        if upgrade is None or upgrade.state is not UpgradeState.switching:
            return upgrade.state.value if upgrade else ""
        if not managed and not processes.is_alive(agent, boot_id):
            break
        time.sleep(_LOOK_SECONDS)
    reason = "the new agent ended"
    if processes.is_alive(agent, boot_id):
        reason = "the new agent was not welcomed by the master in time"
    if not agent_versions.fall_back(agent_dir, cache_dir, reason):
        return ""
    _end(agent)
    if not managed:
        # Start the agent here; under systemd the unit's Restart= does so.
        argv = launch_argv(agent_dir, conf_dir)
        os.execv(argv[0], argv)
    return UpgradeState.fell_back.value


def _end(agent: ProcessRef) -> None:
    processes.send_signal(agent, agent.boot_id, signal.SIGTERM)
    end = time.monotonic() + _GRACE_SECONDS
    while processes.is_alive(agent, agent.boot_id) and time.monotonic() < end:
        time.sleep(0.1)
    processes.send_signal(agent, agent.boot_id, signal.SIGKILL)


def main() -> None:
    """Run the guard. Arguments: conf_dir agent_dir cache_dir pid start deadline."""
    conf_dir, agent_dir, cache_dir, pid, start, deadline = sys.argv[1:7]
    agent = ProcessRef(int(pid), int(start), read_boot_id())
    guard(conf_dir, Path(agent_dir), Path(cache_dir), agent, float(deadline))


if __name__ == "__main__":
    main()
