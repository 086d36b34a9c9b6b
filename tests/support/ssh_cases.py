"""The recorded cases of Salt, run as `catena ssh` runs a job, on a host behind pipes.

The host is this one, with nothing of catena in reach: a bare interpreter gets the program, the
parts of the run and nothing else. Only sshd is missing between.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from catena.cli.arguments import split
from catena.cli.output.plain import document
from catena.cli.output.text import printable
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.core.ids import minion_id
from catena.core.job import JobSpec
from catena.renderers import config_files
from catena.runtime.executor import FinishedJob
from catena.ssh.connect.link import Completed, Connection, Probed, ProgramChannel
from catena.ssh.connect.target import SshTarget
from catena.ssh.push import job
from tests.support.pushed import Bench
from tests.support.salt_cases import Answer, Case, Stage, _answer

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
ID = "oracle-minion"
_MASTERS = ("file_roots", "pillar_roots")


@dataclass
class PipeConnection:
    """A host behind pipes, as `ssh.connect.connection` is behind sshd."""

    bench: Bench
    target: SshTarget

    def run(self, argv: Any, **_: Any) -> Completed:
        raise AssertionError(f"no command is run on the side: {argv}")

    def probe(self) -> Probed:
        return Probed(self.bench.python, (3, 9, 0), os.geteuid(), "/", str(self.bench.room), "")

    def open_channel(
        self, argv: Any, *, supply: Callable[[], bytes] | None = None, timeout: float = 60.0
    ) -> ProgramChannel:
        from typing import cast

        from catena.ssh.connect import channel
        from tests.support.pushed import Pipes

        pipes = Pipes([*self.bench.before, *argv], self.bench.env)
        return channel.start(cast(Any, pipes), self.target.id, supply, timeout)

    def close(self) -> None:
        """Nothing is left: channels end by themselves."""


def connector(bench: Bench) -> Callable[[SshTarget], Connection]:
    """Return what connects to a host behind pipes."""

    def connect(target: SshTarget) -> Connection:
        return PipeConnection(bench, target)

    return connect


class PushedStage(Stage):
    """A case whose steps go to a host behind pipes."""

    _count = 0

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        grains = self.conf / "grains"
        if not grains.exists():
            # Where the host keeps what was set there; cases look at it.
            grains.symlink_to(self.work / "room" / "hosts" / ID / "conf" / "grains")

    def call(self, step: Mapping[str, Any]) -> Answer:
        """Call a step's function and return what it answered, in comparable form."""
        words = [step["function"], *(self._word(value) for value in step.get("args", []))]
        words += [f"{k}={self._word(value)}" for k, value in (step.get("kwargs") or {}).items()]
        env = {k: self.fill(str(value)) for k, value in (step.get("env") or {}).items()}
        bench = Bench(self.work / "room", PYTHON)
        bench.env = {**self.env, **env}
        args, kwargs = split(words[1:])
        PushedStage._count += 1
        spec = JobSpec(f"20261121{PushedStage._count:012d}", words[0], tuple(args), kwargs)
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stderr(err):
                found = job.outcome(
                    self.target(step),
                    self.connector(bench),
                    spec,
                    self.settings(),
                    lambda *_: None,
                )
            code = self._show(found, out, err)
        except CatenaError as error:
            err.write(f"{error}\n")
            code = error.exit_code
        return _answer(self.clean(out.getvalue()), self.clean(err.getvalue()), code)

    def connector(self, bench: Bench) -> Callable[[SshTarget], Connection]:
        """Return what connects to the host."""
        return connector(bench)

    def _show(self, found: FinishedJob, out: io.StringIO, err: io.StringIO) -> int:
        ret = found.ret
        if found.raised and isinstance(ret.value, str):
            err.write(printable(ret.value) + "\n")
            return 1
        out.write(document({"local": ret.value}))
        return 1 if ret.retcode or not ret.success else 0

    def _config(self) -> dict[str, Any]:
        return config_files.read(self.conf / "minion")

    def target(self, step: Mapping[str, Any]) -> SshTarget:
        """Return the host, with the case's configuration."""
        given = {k: v for k, v in self._config().items() if k not in (*_MASTERS, "id", "root_dir")}
        return SshTarget(minion_id(ID), "127.0.0.1", minion_opts=given)

    def settings(self) -> MasterSettings:
        """Return a master that has the case's roots."""
        config = self._config()
        states, pillar = (
            {"base": [str(self.work / "states")]},
            {"base": [str(self.work / "pillar")]},
        )
        if not self._case.spec.get("cli_roots", True):
            states = config.get("file_roots") or states
            pillar = config.get("pillar_roots") or pillar
        known = MasterSettings.__dataclass_fields__
        own = {k: v for k, v in config.items() if k in known and k not in (*_MASTERS, "root_dir")}
        own.pop("user", None)
        state = str(self.work / "master")
        return MasterSettings(
            **{**own, "file_roots": states, "pillar_roots": pillar},
            cache_dir=f"{state}/cache",
            state_dir=f"{state}/lib",
        )
