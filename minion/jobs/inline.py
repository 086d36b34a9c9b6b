"""Functions that the daemon answers itself: read-only, instant, no process (design §4).

A literal table, so that nothing must be imported to know that a function is not in it. A custom
module of the same name (`_modules/test.py`) wins over it, as over every built-in.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Match, Optional, Protocol

import catena
from catena.core.chain_calls import RESUME
from catena.core.errors import CatenaError
from catena.core.files import AnyPath
from catena.core.job import JobReturn, JobSpec
from catena.core.run_ref import RunRef, not_here

_COUNTED = re.compile(r"takes (\d+) positional arguments? but (\d+) were given")


class Jobs(Protocol):
    """What these functions may ask of the daemon."""

    def describe(self) -> List[Dict[str, Any]]:
        """Return running and waiting jobs."""

    def signal(self, jid: str, number: int) -> str:
        """Signal a job."""


def _ping(_jobs: Jobs) -> bool:
    return True


def _version(_jobs: Jobs) -> str:
    return catena.__version__


def _running(jobs: Jobs) -> List[Dict[str, Any]]:
    return jobs.describe()


def _find_job(jobs: Jobs, jid: Any) -> Dict[str, Any]:
    return next((job for job in jobs.describe() if job["jid"] == str(jid)), {})


def _is_running(jobs: Jobs, fun: str) -> List[Dict[str, Any]]:
    from fnmatch import fnmatchcase

    return [job for job in jobs.describe() if fnmatchcase(job["fun"], fun)]


def _signal_job(jobs: Jobs, jid: Any, sig: int) -> str:
    return jobs.signal(str(jid), int(sig))


def _term_job(jobs: Jobs, jid: Any) -> str:
    return jobs.signal(str(jid), signal.SIGTERM)


def _kill_job(jobs: Jobs, jid: Any) -> str:
    return jobs.signal(str(jid), signal.SIGKILL)


def _nothing_waits(
    _jobs: Jobs, actionchain_id: Optional[int] = None, epoch: Optional[int] = None
) -> Dict[str, Any]:
    return not_here(RunRef(int(actionchain_id), epoch)) if actionchain_id else {}


#: Name -> what answers it.
INLINE: Mapping[str, Callable[..., Any]] = {
    "test.ping": _ping,
    "test.version": _version,
    "saltutil.running": _running,
    "saltutil.find_job": _find_job,
    "saltutil.is_running": _is_running,
    "saltutil.signal_job": _signal_job,
    "saltutil.term_job": _term_job,
    "saltutil.kill_job": _kill_job,
}
#: Same, with what is inline only where nothing waits (`chainless`).
_ANSWERS: Mapping[str, Callable[..., Any]] = {**INLINE, RESUME: _nothing_waits}
#: The outputs that answers ask for, where it is not the plain one.
_OUTS: Mapping[str, str] = {RESUME: "highstate"}


def is_inline(fun: str, cache_dir: Path) -> bool:
    """Return whether the daemon answers *fun* itself."""
    if fun not in _ANSWERS:
        return False
    module = fun.partition(".")[0]
    return not (cache_dir / "extmods" / "modules" / f"{module}.py").exists()


def chainless(conf_dir: AnyPath, cache_dir: AnyPath) -> bool:
    """Return whether nothing of a chain lies on this host: there is nothing to resume.

    Most agents that come up are told to resume all the same; a job for each would start the
    template, which is larger than the agent.
    """
    try:
        kept = os.listdir(f"{cache_dir}/chains")  # noqa: PTH208  # asked after each job: no Path
    except FileNotFoundError:
        kept = []
    return all(name.startswith(".") for name in kept) and not resume_file(conf_dir)


def resume_file(conf_dir: AnyPath) -> bool:
    """Return whether a chain has left word that it goes on after a boundary."""
    path = f"{conf_dir}/minion.d/_mgractionchains.conf"
    return os.path.exists(path) or os.path.exists(f"{path}.running")  # noqa: PTH110  # no Path


def answer(spec: JobSpec, jobs: Jobs, now: float, boot_id: str = "") -> JobReturn:
    """Run an inline function and return what it came to; wrong arguments are its failure."""
    try:
        value = _ANSWERS[spec.fun](jobs, *spec.args, **spec.kwargs)
        success = True
    except (TypeError, ValueError, CatenaError) as error:
        value, success = f"ERROR: {spec.fun}: {_clean(error)}", False
    retcode = 0 if success else 1
    out = _OUTS.get(spec.fun, "")
    return JobReturn(
        spec.jid, spec.fun, spec.args, success, retcode, value, now, 0.0, out, boot_id=boot_id
    )


def _clean(error: Exception) -> str:
    # Python says "_find_job() missing 1 required positional argument: 'jid'", and counts *jobs*.
    text = str(error).partition("() ")[2] or str(error)
    return _COUNTED.sub(_without_jobs, text)


def _without_jobs(counted: Match[str]) -> str:
    takes, given = int(counted[1]) - 1, int(counted[2]) - 1
    return f"takes {takes} positional arguments, {given} were given"
