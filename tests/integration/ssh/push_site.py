"""A master with its roots and one host, to which tests push jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from catena.core.config.master import MasterSettings
from catena.core.ids import minion_id
from catena.core.job import JobSpec
from catena.runtime.executor import FinishedJob
from catena.ssh.connect.link import Connection
from catena.ssh.connect.target import SshTarget
from catena.ssh.push import job
from tests.support.pushed import Bench
from tests.support.ssh_cases import PYTHON, connector

NUMBERS = itertools.count(1)


class Site:
    """A master with its roots, and one host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states, self.pillar = folder / "states", folder / "pillar"
        self.there = folder / "there"
        for each in (self.states, self.pillar, self.there):
            each.mkdir()
        self.bench = Bench(folder / "room", PYTHON)
        self.settings = MasterSettings(
            file_roots={"base": [str(self.states)]},
            pillar_roots={"base": [str(self.pillar)]},
            cache_dir=str(folder / "master"),
        )
        self.steps: list[str] = []

    def write(self, **files: str) -> None:
        """Write files of the roots; `__` in a name is a dot, `@` in a text the host's folder."""
        for name, text in files.items():
            path = self.states / name.replace("__", ".")
            path.write_text(text.replace("@", str(self.there)))

    def host(self, name: str = "web1", **opts: Any) -> SshTarget:
        return SshTarget(minion_id(name), "127.0.0.1", minion_opts=opts)

    def run(
        self,
        fun: str,
        *args: Any,
        connect: Callable[[SshTarget], Connection] | None = None,
        target: SshTarget | None = None,
        **kwargs: Any,
    ) -> FinishedJob:
        spec = JobSpec(f"2026112119{next(NUMBERS):010d}", fun, args, kwargs)

        def watch(phase: Any, text: str) -> None:
            self.steps.append(f"{phase.value}: {text}")

        link = connect or connector(self.bench)
        return job.outcome(target or self.host(), link, spec, self.settings, watch)

    def made(self, name: str) -> str:
        return (self.there / name).read_text()


def rows(outcome: FinishedJob) -> dict[str, Any]:
    value = outcome.ret.value
    assert isinstance(value, dict), value
    return {row["__id__"]: row["result"] for row in value.values()}
