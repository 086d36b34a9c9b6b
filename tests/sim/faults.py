"""Inject the faults that a seed chooses, until the simulated fleet is healed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sim.host import Fate, Host
from tests.sim.network import Weather

DAY = 24 * 3600.0


class Faults:
    """Plans faults and takes back what lasts.

    Args:
        world: to befall.
    """

    def __init__(self, world: Any) -> None:
        self._world, self._stage, self._rng = world, world.stage, world.rng
        self._kinds: list[Callable[[], None]] = [
            self._kill_agent,
            self._cut_power,
            self._kill_job,
            self._agent_in_a_step,
            self._agent_in_a_step,
            self._job_in_a_step,
            self._job_in_a_step,
            self._job_in_a_step,
            self._kill_master,
            self._master_in_a_commit,
            self._master_in_a_commit,
            self._cut_master,
            self._part,
            self._weather,
            self._set_clock,
            self._set_masters_clock,
            self._fill,
            self._fill_master,
            self._stop_agent,
        ]

    def plan(self, seconds: float) -> None:
        """Let some faults happen within *seconds*."""
        some = self._rng.sample(self._kinds, 6)
        for _ in range(self._rng.choice((0, 1, 2, 3, 5, 8))):
            self._stage.later(self._rng.uniform(0.5, seconds), self._rng.choice(some))

    def heal(self) -> None:
        """Take back everything that lasts."""
        for host in self._world.hosts.values():
            self._stage.network.heal(host.name)
            host.disk.free = None
            host.next_agent = host.next_job = None
            for program in (host.program, *host.jobs.values()):
                if program is not None:
                    program.steps_left = None
        self._world.master.full = False
        self._world.master.disk.free = None
        self._world.master.commits_left = None
        self._world.master.program.steps_left = None
        self._stage.network.weather = Weather()
        self._stage.reboots_work = 1.0

    def _host(self) -> Host:
        host: Host = self._rng.choice(list(self._world.hosts.values()))
        return host

    def _kill_agent(self) -> None:
        self._host().kill_agent()

    def _stop_agent(self) -> None:
        host = self._host()
        if host.agent is not None:
            self._stage.tell(host.name, "agent is stopped")
            host.stop_agent()
            self._stage.later(self._rng.uniform(0.5, 20), host.start_agent)

    def _cut_power(self) -> None:
        self._host().power_cut()

    def _kill_job(self) -> None:
        self._host().kill_job()

    def _agent_in_a_step(self) -> None:
        host = self._host()
        strike = self._rng.choice((host.kill_agent, host.power_cut))
        fate = Fate(self._rng.randint(0, 30), strike)
        program = host.program
        if program is not None and self._rng.random() < 0.7:
            program.steps_left, program.fate = fate
        else:
            host.next_agent = fate

    def _job_in_a_step(self) -> None:
        host = self._host()
        steps = self._rng.randint(0, 80)
        if self._rng.random() < 0.6:
            host.next_job = Fate(steps, host.power_cut)
        else:
            host.next_job = Fate(steps, host.kill_running_job)
        for job in host.jobs.values():
            job.steps_left, job.fate = Fate(steps // 4, host.next_job.strike)

    def _kill_master(self) -> None:
        self._world.master.kill()

    def _cut_master(self) -> None:
        self._world.master.kill(cut=True)

    def _master_in_a_commit(self) -> None:
        self._world.master.commits_left = self._rng.randint(0, 40)

    def _part(self) -> None:
        host = self._host()
        self._stage.tell(host.name, "is parted")
        self._stage.network.part(host.name)
        self._stage.later(
            self._rng.choice((3, 30, 100)), lambda: self._stage.network.heal(host.name)
        )

    def _weather(self) -> None:
        luck = self._rng
        self._stage.network.weather = Weather(
            luck.choice((0.005, 0.5, 3.0)),
            luck.choice((0.0, 0.05, 0.3)),
            luck.choice((0.0, 0.1, 0.3)),
            luck.choice((0.0, 0.1, 0.5)),
        )
        self._stage.tell("network", str(self._stage.network.weather))

    def _set_clock(self) -> None:
        host = self._host()
        host.clock.wrong += self._rng.choice((-DAY, -100.0, 100.0, DAY))
        self._stage.tell(host.name, f"clock is wrong by {host.clock.wrong:.0f} s")

    def _set_masters_clock(self) -> None:
        clock = self._world.master.clock
        clock.wrong += self._rng.choice((-DAY, -100.0, 100.0, DAY))
        self._stage.tell("master", f"clock is wrong by {clock.wrong:.0f} s")

    def _fill(self) -> None:
        host = self._host()
        host.disk.free = self._rng.choice((0, 100, 1500, 20_000))
        self._stage.tell(host.name, f"disk has {host.disk.free} bytes left")
        self._stage.later(self._rng.uniform(5, 60), lambda: setattr(host.disk, "free", None))

    def _fill_master(self) -> None:
        master = self._world.master
        master.full = True
        master.disk.free = 0
        self._stage.tell("master", "disk is full")

        def empty() -> None:
            master.full, master.disk.free = False, None

        self._stage.later(self._rng.uniform(2, 40), empty)
