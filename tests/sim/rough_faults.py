"""Faults of rough simulation runs, beside those of all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sim.faults import Faults

#: What a failed clean-up may meet in the place of a file: below a host's disk.
PLACES = (
    "conf/minion.d/_mgractionchains.conf",
    "conf/minion.d/_mgractionchains.conf.running",
)
#: Folders that nobody can write to for a while.
FOLDERS = ("conf/minion.d", "cache/chains")


class RoughFaults(Faults):
    """See the module."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self._more = [
            self._obstruct,
            self._obstruct,
            self._lock_folder,
            self._lock_folder,
            self._restore,
            self._move_store,
            self._kill_master,
            self._cut_power,
        ]
        self._backup: Path | None = None

    def plan(self, seconds: float) -> None:
        """As Faults, and some of the other kinds."""
        super().plan(seconds)
        for _ in range(self._rng.choice((0, 1, 2, 3))):
            self._stage.later(self._rng.uniform(0.5, seconds), self._rng.choice(self._more))

    def heal(self) -> None:
        """As Faults; what stands in the place of a file stays until somebody cleans."""
        super().heal()
        self._stage.tap.read_only.clear()

    def _obstruct(self) -> None:
        host = self._host()
        place = self._rng.choice(PLACES)
        if host.obstruct(place, with_content=self._rng.random() < 0.5):
            self._world.to_cure.add(host.name)
            self._world.obstructed.add(host.name)
            self._stage.tell(host.name, f"a folder stands in the place of {place}")

    def _lock_folder(self) -> None:
        host = self._host()
        folder = f"{host.disk.prefix}{self._rng.choice(FOLDERS)}"
        tap = self._stage.tap
        tap.read_only.add(folder)
        self._stage.tell(host.name, f"{folder.removeprefix(host.disk.prefix)} is read-only")
        self._stage.later(self._rng.uniform(3, 60), lambda: tap.read_only.discard(folder))

    def _restore(self) -> None:
        """Back the store up, and put the backup in its place after a while."""
        self._stage.later(self._rng.uniform(0.5, 25), self._restore_now)
        self._world.master.back_up()

    def _restore_now(self) -> None:
        self._world.master.restore()

    def _move_store(self) -> None:
        """The master's store goes on on another host."""
        self._world.master.move(
            uptime=self._rng.choice((30.0, 3600.0, 40 * 86400.0)),
            step=self._rng.choice((0.0, 0.0, -20.0, 20.0)),
        )
