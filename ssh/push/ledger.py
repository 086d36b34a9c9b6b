"""Records of runs that commands of this master started, until their returns were shown.

Runs continue when their command is killed. There is one small file per job and host. It is written
before the run starts, again with the return before the host deletes the run, and removed when the
return was printed. `catena ssh-run` reads these files.
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
from catena.ssh.connect.target import SshTarget

#: Maximum bytes of one file with a job and its return.
SIZE_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True)
class Begun:
    """One job on one host."""

    #: Id of the host in the roster.
    host: str
    #: The target expression of the host: its id, or user@host:port if no roster has it.
    named: str
    #: Path of the roster, "" for the configured one.
    roster: str
    spec: JobSpec
    #: The process that follows the run, while it is alive.
    follower: Optional[ProcessRef] = None
    #: The run that started last, and its function: a job may call others before its own.
    run_id: str = ""
    fun: str = ""
    #: (engine, path below the roots) of code templates that the run may request.
    code: tuple[tuple[str, str], ...] = ()
    #: The return, once it is known here.
    ret: Optional[JobReturn] = None

    @property
    def is_followed(self) -> bool:
        """Whether a process still follows the run."""
        return self.follower is not None and processes.is_alive(self.follower, _boot_id())


class PushLedger:
    """The files.

    Args:
        state_dir: of the master's settings.
    """

    def __init__(self, state_dir: str) -> None:
        self._folder = Path(state_dir) / "ssh" / "runs"

    def page(self, begun: Begun) -> Page:
        """Return the page of a job on a host without writing it."""
        me = processes.reference(os.getpid(), _boot_id())
        return Page(self._folder, replace(begun, follower=me))

    def every(self) -> Iterator[Begun]:
        """Yield the stored records, oldest job first; skip unreadable files."""
        with suppress(FileNotFoundError):
            for path in sorted(self._folder.iterdir()):
                if path.suffix == ".run":
                    with suppress(CatenaError, FileNotFoundError):
                        data = values.loads(read_limited(path, SIZE_LIMIT))
                        yield decode(Begun, data, path.name)

    def alone(self) -> AbstractContextManager[None]:
        """Lock the records against other collecting processes."""
        return alone(durable_folder(self._folder) / ".lock")


class Page:
    """The record of one job on one host; see `PushLedger.page`."""

    def __init__(self, folder: Path, begun: Begun) -> None:
        self._path = folder / f"{begun.spec.jid}@{begun.host}.run"
        self._begun = begun
        self._written = begun.run_id != ""

    @property
    def is_written(self) -> bool:
        """Whether a run started and its return was not shown yet."""
        return self._written

    def begins(self, run_id: str, fun: str, code: frozenset[tuple[str, str]]) -> None:
        """Record durably that a run is about to start.

        Raises:
            ConfigError: the record can't be written.
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
        """Record the return of the run durably.

        Raises:
            OSError: the record can't be written; the host then keeps the return.
        """
        if self._written:
            self._write(replace(self._begun, ret=ret))

    def close(self) -> None:
        """Remove the record, because its return was shown or nothing ran."""
        # Another process may have written the record.
        if self._written or self._path.exists():
            unlink_durable(self._path)
            self._written = False

    def take_over(self) -> None:
        """Record that this process follows the run."""
        self._write(self._begun)

    def _write(self, begun: Begun) -> None:
        self._begun = begun
        write_durable(self._path, values.dumps(begun))
        self._written = True


def named(target: SshTarget, roster: Mapping[str, SshTarget]) -> str:
    """Return *target* for a command line: its id, or user@host:port."""
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
