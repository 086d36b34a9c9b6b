"""The process that executes one run; it reports to the master only through the run's journal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import traceback
from typing import Any, Callable, Iterator, Optional

from catena.core.chain_calls import RESUME
from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.job import JobReturn
from catena.core.records import encode
from catena.runtime.executor import execute
from catena.runtime.garbage import collect_rarely
from catena.runtime.host import After
from catena.runtime.push.host import session_of
from catena.runtime.push.host_folder import Room
from catena.runtime.push.outcome import failed
from catena.runtime.push.protocol import PushedJob, RunResult
from catena.runtime.push.runs import RunFolder
from catena.runtime.session import JobSession
from catena.states.compiler import api
from catena.states.compiler.faults import StateArgumentsError
from catena.states.compiler.model import Low, Row
from catena.states.compiler.run import MockHooks, ProgressHooks


def work(room: Room, run: RunFolder, job: PushedJob) -> None:
    """Run *job* in this process and store its return durably; errors become a failed return."""
    collect_rarely()
    try:
        session = session_of(room, run, job)
        with _turn(room, session, job):
            outcome = execute(session, job.spec, _states(job) if job.low is not None else None)
        asked = outcome.after or _promised(session, outcome.ret)
        after = encode(asked) if asked else None
        run.finish(RunResult(outcome.ret, after, outcome.raised))
    except (CatenaError, OSError) as error:
        run.finish(failed(run, job.spec, str(error) or type(error).__name__))
    except (Exception, SystemExit):  # noqa: BLE001  # custom code may raise what it likes
        run.finish(failed(run, job.spec, traceback.format_exc()))


@contextlib.contextmanager
def _turn(room: Room, session: JobSession, job: PushedJob) -> Iterator[None]:
    """Hold the host's lock for state runs, shared by all its ids; other functions take no lock."""
    functions = session.context.functions
    queued = job.spec.fun in functions and functions[job.spec.fun].mark.queued
    if not queued or job.spec.kwargs.get("concurrent") is True:
        yield
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(room.path / "states.lock", flags, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            session.host.progress("note", {"text": "waits behind another state run"})
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _promised(session: JobSession, ret: JobReturn) -> Optional[After]:
    """Return a reboot that a chain armed and that has not happened, for example after a crash.

    An agent checks this when it starts. Over SSH only jobs start, so a resume job checks it.
    """
    if ret.fun != RESUME or not isinstance(ret.value, dict) or "not_resumed" not in ret.value:
        return None
    from catena.runtime.chain_run import pending_after

    return pending_after(session.host.place)


class StepHooks(ProgressHooks):
    """Reports the beginning of each state as well, so that an interruption can be reported."""

    def before(self, low: Low) -> Optional[Row]:
        """Report that a state begins."""
        row = super().before(low)
        if row is None:
            self._host.progress("begin", {"key": low.key, "id": low.id, "sls": low.sls})
        return row


def _states(job: PushedJob) -> Callable[[Context], Any]:
    def run(context: Context) -> Any:
        lows = [one.low() for one in job.low or ()]
        hooks = (MockHooks if job.mock else StepHooks)(context, len(lows))
        try:
            return api.run(context, lows, hooks)
        except StateArgumentsError as error:
            return str(error).splitlines()

    return run
