"""Runs that a command of this master began on hosts: kept here until their returns were shown.

A command that is killed leaves runs that go on without it. What it had begun stands in one small
file for each job and host: written before the run begins, again with its return before the host
forgets it, and removed when the return was printed. `catena ssh-run` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Optional

from catena.core.clock import read_boot_id
from catena.core.errors import CatenaError, ConfigError
from catena.core.files import alone, durable_folder, read_limited, unlink_durable, write_durable
from catena.core.frozen import dataclass, replace
from catena.core.job import JobReturn, JobSpec
from catena.core.records import decode
from catena.runtime import processes
from catena.runtime.processes import ProcessRef
from catena.runtime.push import values
from catena.ssh.connect.target import Target

#: Of one file: a job and its return.
SIZE_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True)
class Begun:
    """One job on one host."""

    #: Id of the host in the roster.
    host: str
    #: How to name it as a target: its id, or user@host:port where no roster has it.
    named: str
    #: Path of the roster, "" for the configured one.
    roster: str
    spec: JobSpec
    #: Who follows it, while that process lives.
    follower: Optional[ProcessRef] = None
    #: The run that began last, and its function: a job may call others before its own.
    run_id: str = ""
    fun: str = ""
    #: (engine, path below the roots) of templates that the run may have rendered as code of ours.
    code: tuple[tuple[str, str], ...] = ()
    #: What it came to, once that is known here.
    ret: Optional[JobReturn] = None

    @property
    def is_followed(self) -> bool:
        """Whether a process still looks after it."""
        return self.follower is not None and processes.is_alive(self.follower, _boot_id())


class Ledger:
    """The files.

    Args:
        state_dir: of the master's settings.
    """

    def __init__(self, state_dir: str) -> None:
        self._folder = Path(state_dir) / "ssh" / "runs"

    def page(self, begun: Begun) -> Page:
        """Return the page of a job on a host; nothing is written yet."""
        me = processes.reference(os.getpid(), _boot_id())
        return Page(self._folder, replace(begun, follower=me))

    def every(self) -> Iterator[Begun]:
        """Yield what is kept, the oldest job first; a file that can't be read is passed over."""
        with suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.suffix == ".run":
                    with suppress(CatenaError, FileNotFoundError):
                        data = values.loads(read_limited(path, SIZE_LIMIT))
                        yield decode(Begun, data, path.name)

    def alone(self) -> AbstractContextManager[None]:
        """Let one process at a time collect."""
        return alone(durable_folder(self._folder) / ".lock")


class Page:
    """What is kept of one job on one host; see `Ledger.page`."""

    def __init__(self, folder: Path, begun: Begun) -> None:
        self._path = folder / f"{begun.spec.jid}@{begun.host}.run"
        self._begun = begun
        self._written = begun.run_id != ""

    @property
    def is_written(self) -> bool:
        """Whether something began, and its return was not shown yet."""
        return self._written

    def begins(self, run_id: str, fun: str, code: frozenset[tuple[str, str]]) -> None:
        """Keep that a run is about to begin; durable when this returns.

        Raises:
            ConfigError: it can't be written.
        """
        try:
            durable_folder(self._path.parent)
            self._write(replace(self._begun, run_id=run_id, fun=fun, code=tuple(sorted(code))))
        except OSError as error:
            raise ConfigError(
                f"{error.filename or self._path}: {error.strerror}; this user must be able to "
                "write to state_dir",
                "state_dir",
            ) from None

    def keep(self, ret: JobReturn) -> None:
        """Keep the return of what began; durable when this returns.

        Raises:
            OSError: it can't be written; the host keeps it too then.
        """
        if self._written:
            self._write(replace(self._begun, ret=ret))

    def close(self) -> None:
        """Forget it: its return was shown, or nothing ran."""
        # Another process may have worked on the host, and written it.
        if self._written or self._path.exists():
            unlink_durable(self._path)
            self._written = False

    def take_over(self) -> None:
        """Say that this process follows it now."""
        self._write(self._begun)

    def _write(self, begun: Begun) -> None:
        self._begun = begun
        write_durable(self._path, values.dumps(begun))
        self._written = True


def named(target: Target, roster: Mapping[str, Target]) -> str:
    """Return how a command line names *target*: by its id, or as user@host:port."""
    if target.id in roster:
        return target.id
    host = f"[{target.host}]" if ":" in target.host else target.host
    user = f"{target.user}@" if target.user else ""
    return f"{user}{host}" + (f":{target.port}" if target.port else "")


def _boot_id() -> str:
    try:
        return read_boot_id()
    except OSError:
        return ""
