"""Runs one job in this process: binds its arguments, calls it, judges and bounds what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from catena.core.job import JobReturn, JobSpec
from catena.runtime.host import After
from catena.runtime.session import Session


@dataclass(frozen=True)
class Outcome:
    """What a job came to, and what the agent has to do once that is safe in its outbox."""

    ret: JobReturn
    after: Optional[After] = None


def execute(session: Session, spec: JobSpec) -> Outcome:
    """Run *spec* to its end and return what it came to; a failing job is no exception.

    Only what stops a process (KeyboardInterrupt, SystemExit) passes through.
    """
    raise NotImplementedError
