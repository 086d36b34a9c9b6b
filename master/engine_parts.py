"""The parts of a master that the composition root passes to every engine."""

from __future__ import annotations

from dataclasses import dataclass

from catena.core.config.master import MasterSettings
from catena.master.events.bus import EventBus
from catena.master.executions.ssh_hosts import SshHosts
from catena.master.jobs.service import Jobs
from catena.master.jobs.targets import Targets
from catena.master.minions.facts import Facts
from catena.master.process.clocks import HostClocks
from catena.master.requests.blobs import Blobs
from catena.master.store.database import Store
from catena.master.workers.pool import Workers


@dataclass(frozen=True)
class EngineParts:
    """Parts of one master for its engines; each engine declares which of their methods it uses."""

    settings: MasterSettings
    store: Store
    bus: EventBus
    jobs: Jobs
    #: Resolves targets to minions and to hosts that are reached by SSH.
    targets: Targets
    uploads: Blobs
    clocks: HostClocks
    facts: Facts
    ssh: SshHosts
    workers: Workers
