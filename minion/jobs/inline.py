"""Functions that the daemon runs itself: read-only, instant, without a process (design §4).

The table is literal, so that nothing has to be imported to look up a function. A custom module of
the same name (`_modules/test.py`) takes precedence, as over every built-in.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Match, Optional, Protocol

import catena
from catena.core.chain_calls import RESUME, RESUME_FILE, TAKEN
from catena.core.errors import CatenaError
from catena.core.files import AnyPath
from catena.core.job import JobReturn, JobSpec
from catena.core.patterns import lazy_pattern

_COUNTED = lazy_pattern(r"takes (\d+) positional arguments? but (\d+) were given")


class RunningJobs(Protocol):
    """What these functions may ask the daemon."""

    def describe(self) -> List[Dict[str, Any]]:
        """Return running and queued jobs."""

    def signal(self, jid: str, number: int) -> str:
        """Send a signal to a job."""


def _ping(_jobs: RunningJobs) -> bool:
    return True


def _version(_jobs: RunningJobs) -> str:
    return catena.__version__


def _running(jobs: RunningJobs) -> List[Dict[str, Any]]:
    return jobs.describe()


def _find_job(jobs: RunningJobs, jid: Any) -> Dict[str, Any]:
    return next((job for job in jobs.describe() if job["jid"] == str(jid)), {})


def _is_running(jobs: RunningJobs, fun: str) -> List[Dict[str, Any]]:
    from fnmatch import fnmatchcase

    return [job for job in jobs.describe() if fnmatchcase(job["fun"], fun)]


def _signal_job(jobs: RunningJobs, jid: Any, sig: int) -> str:
    return jobs.signal(str(jid), int(sig))


def _term_job(jobs: RunningJobs, jid: Any) -> str:
    return jobs.signal(str(jid), signal.SIGTERM)


def _kill_job(jobs: RunningJobs, jid: Any) -> str:
    return jobs.signal(str(jid), signal.SIGKILL)


def _nothing_waits(
    _jobs: RunningJobs, actionchain_id: Optional[int] = None, epoch: Optional[int] = None
) -> Dict[str, Any]:
    if not actionchain_id:
        return {}
    from catena.core.run_ref import RunRef, not_here

    return not_here(RunRef(int(actionchain_id), epoch))


#: Name -> function.
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
#: Also functions that are inline only if no chain waits (`chainless`).
_ANSWERS: Mapping[str, Callable[..., Any]] = {**INLINE, RESUME: _nothing_waits}
#: Name -> outputter, if it is not the default.
_OUTS: Mapping[str, str] = {RESUME: "highstate"}


def is_inline(fun: str, cache_dir: Path) -> bool:
    """Return whether the daemon runs *fun* itself."""
    if fun not in _ANSWERS:
        return False
    module = fun.partition(".")[0]
    return not (cache_dir / "extmods" / "modules" / f"{module}.py").exists()


def chainless(conf_dir: AnyPath, cache_dir: AnyPath) -> bool:
    """Return whether this host has no files of chains, so there is nothing to resume.

    Most starting agents are told to resume nevertheless. A job for each would start the template,
    which is larger than the agent.
    """
    try:
        kept = os.listdir(f"{cache_dir}/chains")  # noqa: PTH208  # asked after each job: no Path
    except FileNotFoundError:
        kept = []
    return all(name.startswith(".") for name in kept) and not resume_file(conf_dir)


def resume_file(conf_dir: AnyPath) -> bool:
    """Return whether a chain has a resume file, so it continues after a boundary."""
    path = f"{conf_dir}/minion.d/{RESUME_FILE}"
    return os.path.exists(path) or os.path.exists(f"{path}{TAKEN}")  # noqa: PTH110  # no Path


def answer(spec: JobSpec, jobs: RunningJobs, now: float, boot_id: str = "") -> JobReturn:
    """Run an inline function and return its outcome; wrong arguments are a failure of it."""
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
    # Python's text is "_find_job() missing 1 required positional argument: 'jid'"; it counts
    # *jobs*.
    text = str(error).partition("() ")[2] or str(error)
    return _COUNTED.sub(_without_jobs, text)


def _without_jobs(counted: Match[str]) -> str:
    takes, given = int(counted[1]) - 1, int(counted[2]) - 1
    return f"takes {takes} positional arguments, {given} were given"
