"""The process of one visit: one host, one connection at a time, at most one job.

The process reads the roster itself, so that no secret is sent to it. It works in its main thread,
where time limits of templates are possible, and sends messages through its own copy of stdout. It
ends when the master dies; runs on the host continue.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

from catena.core import failpoints, ids
from catena.core.chain_calls import GET_PENDING
from catena.core.config.master import MasterSettings
from catena.core.custom_faults import error_line
from catena.core.errors import CatenaError, LimitError, RecordError, UsageError
from catena.core.frozen import replace
from catena.core.records import decode
from catena.core.suggest import unknown
from catena.master.process import log
from catena.master.push import messages as m
from catena.master.push.decide import VisitEnd
from catena.runtime.push.protocol import Call, ProgramError, RunStep
from catena.ssh.connect import roster
from catena.ssh.connect.client_config import files_of
from catena.ssh.connect.connection import SshConnection, open_connection
from catena.ssh.connect.errors import (
    HostKeyError,
    PushPhase,
    SshError,
    one_line,
    refused,
)
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.compile import Seat, seat_of
from catena.ssh.push.job import carry_out, run_id
from catena.ssh.push.visit import Visit

LOG = logging.getLogger(__name__)

#: Limit of the process's address space in bytes; a runaway template ends only its own visit.
MEMORY_BYTES = 2 * 1024**3
#: Maximum size of a host's grains, characters of their repr().
GRAINS_LIMIT = 4 * 1024 * 1024
#: Maximum number of fields that a host's resume file may have.
PENDING_LIMIT = 50
#: Kinds of steps that are sent to the master.
_REPORTED = frozenset({"state", "action", "note", "event"})


class MasterPipe:
    """The connection to the master: frames on stdin, and on the original stdout.

    Args:
        source: frames from the master.
        target: frames to the master.
    """

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source = source
        self._target = target
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: Why the job is cancelled; "": it is not.
        self.cancel = ""

    def order(self) -> m.VisitOrder:
        """Return the first message; receive the others in a thread from now on.

        Raises:
            UsageError: the first message is no order.
        """
        first = self._read()
        if not isinstance(first, m.VisitOrder):
            raise UsageError(
                f"the first message of the master is a {type(first).__name__}, not a VisitOrder"
            )
        self.cancel = first.cancel
        threading.Thread(target=self._listen, daemon=True).start()
        return first

    def send(self, message: Any) -> None:
        """Send a message to the master."""
        self._target.write(m.pack(message))
        self._target.flush()

    def answer(self, kind: type[Any]) -> Any:
        """Wait for the next message of the master and return it.

        Raises:
            UsageError: the message is not a *kind*.
        """
        found = self._answers.get()
        if not isinstance(found, kind):
            raise UsageError(f"the master sent a {type(found).__name__}, not a {kind.__name__}")
        return found

    def _read(self) -> Any:
        head = self._source.read(m.HEAD_BYTES)
        if len(head) < m.HEAD_BYTES:
            return None
        return m.unpack(self._source.read(m.size_of(head)))

    def _listen(self) -> None:
        while True:
            message = self._read()
            if message is None:
                # The master is gone, so nothing can be reported.
                os._exit(1)
            if isinstance(message, m.CallOff):
                self.cancel = message.reason
            else:
                self._answers.put(message)


def work(order: m.VisitOrder, master: MasterPipe) -> None:
    """Carry out the visit.

    Raises:
        CatenaError, OSError: the visit failed.
    """
    settings = decode(MasterSettings, order.settings)
    target = _target(settings, order.host)
    files = files_of(settings, order.config_dir)

    def connect(host: SshTarget) -> SshConnection:
        return open_connection(host, files, settings.ssh_timeout)

    def watch(phase: PushPhase, text: str) -> None:
        master.send(m.Phased(phase.value, text))
        if phase is PushPhase.run and text == "started":
            master.send(m.Began())

    own = {path: Path(local) for path, local in order.own_files.items()}
    saltenv = str(order.spec.kwargs.get("saltenv") or "") if order.spec else ""
    seat = seat_of(target, settings, saltenv, own, order.extra_roots)
    visit = Visit(seat, connect, watch, lambda: master.cancel, order.away_seconds)
    try:
        visit.begin()
        master.send(_facts(visit, target))
        if master.answer(m.Go).on and order.spec is not None:
            _job(order, master, seat, visit, watch)
    except ProgramError as error:
        raise refused(target.id, str(error)) from None
    finally:
        visit.close()


def _target(settings: MasterSettings, host: str) -> SshTarget:
    found = roster.read(settings)
    if host not in found:
        raise UsageError(f"{settings.roster_file}: {unknown('host', host, found)}")
    return found[host]


def _facts(visit: Visit, target: SshTarget) -> m.HostReport:
    opened = visit.opened
    pending: dict[str, Any] = {}
    fault = ""
    called = visit.program().call(Call(GET_PENDING))
    if called.fault is not None:
        fault = one_line(called.fault.text)
    elif isinstance(called.value, dict):
        pending = {str(key)[:64]: _plain(value) for key, value in called.value.items()}
    # Untrusted data, which becomes part of file names and is stored.
    machine = ids.machine_id(opened.machine_id)
    boot = (opened.boot_id[:64], opened.boot_time[:40])
    grains = dict(visit.grains)
    if len(repr(grains)) > GRAINS_LIMIT or len(pending) > PENDING_LIMIT:
        raise LimitError(
            f"the host's grains have more than {GRAINS_LIMIT} characters, or its resume file more "
            f"than {PENDING_LIMIT} fields"
        )
    return m.HostReport(machine, *boot, target.host, grains, pending, fault)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, bool)) else str(value)[:1000]


def _job(order: m.VisitOrder, master: MasterPipe, seat: Seat, visit: Visit, watch: Any) -> None:
    spec = order.spec
    assert spec is not None
    if master.cancel and not _is_begun(visit, run_id(spec.jid, order.host, 1)):
        master.send(m.NeverBegan())
        return
    failpoints.hit("visit.job")
    # The master has checked the latest start by its own clock; the host's clock may differ.
    spec = replace(spec, not_after=0.0)
    try:
        found = carry_out(
            seat, visit, spec, watch, lambda step: _report(master, step), order.output_bytes
        )
    except SshError:
        raise
    except (CatenaError, OSError) as error:
        if isinstance(error, ProgramError):
            raise
        # A compile error or an invalid request becomes a normal return, not an error of SSH.
        raise UsageError(str(error) or type(error).__name__) from error
    failpoints.hit("visit.returned")
    master.send(m.Returned(replace(found.ret, boot_id=found.ret.boot_id[:64])))
    master.answer(m.Kept)
    failpoints.hit("visit.kept")
    visit.forget()


def _is_begun(visit: Visit, first: str) -> bool:
    return any(brief.run_id == first for brief in visit.program().hello().runs)


def _report(master: MasterPipe, step: RunStep) -> None:
    if step.kind == "output":
        # Invalid output is dropped; the job continues.
        with contextlib.suppress(RecordError):
            master.send(decode(m.Printed, step.data, "output"))
    elif step.kind in _REPORTED:
        master.send(m.Stepped(step.seq, step.kind, step.when, dict(step.data)))


def trouble_of(error: BaseException) -> m.Troubled:
    """Return an error in the form in which it is reported to the master."""
    if isinstance(error, HostKeyError):
        return m.Troubled(VisitEnd.person.value, _bare(error))
    if isinstance(error, SshError):
        return m.Troubled((VisitEnd.away if error.waits else VisitEnd.fault).value, _bare(error))
    if isinstance(error, CatenaError):
        return m.Troubled(VisitEnd.fault.value, str(error))
    LOG.error("a visit failed", exc_info=error)
    return m.Troubled(
        VisitEnd.fault.value, error_line(error) if isinstance(error, Exception) else str(error)
    )


def _bare(error: SshError) -> str:
    """Return the error's text without the host's name, which precedes it anyway."""
    return str(error).removeprefix(f"{error.host}: ")


def main() -> None:
    """Carry out one visit."""
    # The master ends its processes itself; a terminal's signals reach the whole group.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    master = MasterPipe(sys.stdin.buffer, answers)
    order = master.order()
    failpoints.arm(bool(order.settings.get("testing")))
    log.set_up("-", str(order.settings.get("log_level", "info")))
    with contextlib.suppress(BrokenPipeError):
        try:
            work(order, master)
            master.send(m.Done())
        except BrokenPipeError:
            raise
        except MemoryError:
            text = f"the visit needs more than {MEMORY_BYTES >> 20} MiB of memory"
            master.send(m.Troubled(VisitEnd.fault.value, text))
        except Exception as error:  # noqa: BLE001  # the edge of the process: one visit, one end
            master.send(trouble_of(error))
    # Do not wait for threads of a lost connection.
    os._exit(0)


if __name__ == "__main__":
    main()
