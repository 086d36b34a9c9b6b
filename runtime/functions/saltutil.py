"""saltutil.*: jobs of this host, custom files, refresh."""

from __future__ import annotations

import signal as signals
from typing import Any, Dict, List, Optional, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.ids import jid as checked_jid
from catena.core.plugins import function
from catena.runtime.custom_files import KINDS

#: What sync_all brings, in this order: grains first, so that the rest can look at them.
ALL_KINDS = (
    "beacons",
    "clouds",
    "engines",
    "executors",
    "grains",
    "log_handlers",
    "matchers",
    "modules",
    "output",
    "proxymodules",
    "renderers",
    "returners",
    "sdb",
    "serializers",
    "states",
    "utils",
)


@function(inline=True)
def running(context: Context) -> List[Dict[str, Any]]:
    """Return the jobs that run or wait on this minion."""
    return context.host.running()


@function(inline=True)
def is_running(context: Context, fun: str) -> List[Dict[str, Any]]:
    """Return the running jobs of a function; shell-style patterns are allowed."""
    import fnmatch

    jobs = context.host.running()
    return [job for job in jobs if fnmatch.fnmatchcase(str(job.get("fun", "")), fun)]


@function(inline=True)
def find_job(context: Context, jid: str) -> Dict[str, Any]:
    """Return the running job of an id; {} when it does not run here."""
    for job in context.host.running():
        if str(job.get("jid")) == str(jid):
            return job
    return {}


@function(inline=True)
def signal_job(context: Context, jid: str, sig: Union[int, str]) -> str:
    """Send a signal to a job's process tree.

    Args:
        context: the call's context.
        jid: the job.
        sig: number or name (15, TERM, SIGTERM).

    Raises:
        UsageError: no such signal.
    """
    name = str(sig).upper()
    if not name.isdigit():
        name = name if name.startswith("SIG") else f"SIG{name}"
        try:
            number = signals.Signals[name].value
        except KeyError:
            raise UsageError(f"{sig!r} is not a signal") from None
    else:
        number = int(name)
    return context.host.signal_job(checked_jid(str(jid)), number)


@function(inline=True)
def term_job(context: Context, jid: str) -> str:
    """Ask a job to end."""
    return signal_job(context, jid, signals.SIGTERM.value)


@function(inline=True)
def kill_job(context: Context, jid: str) -> str:
    """Kill a job's process tree."""
    return signal_job(context, jid, signals.SIGKILL.value)


@function()
def term_all_jobs(context: Context) -> List[str]:
    """Ask every other job to end."""
    own = context.job.jid if context.job else ""
    others = [str(job["jid"]) for job in context.host.running() if str(job.get("jid")) != own]
    return [term_job(context, jid) for jid in others]


@function()
def kill_all_jobs(context: Context) -> List[str]:
    """Kill every other job."""
    own = context.job.jid if context.job else ""
    others = [str(job["jid"]) for job in context.host.running() if str(job.get("jid")) != own]
    return [kill_job(context, jid) for jid in others]


def _sync(context: Context, kind: str, saltenv: Optional[str], refresh: bool) -> List[str]:
    """Fetch the custom files of one kind; return the names of new and changed ones."""
    changed = context.host.sync(kind, saltenv or context.saltenv)
    context.forget_plugins()
    if kind == "grains" and refresh:
        refresh_grains(context)
    return changed


@function()
def sync_all(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> Dict[str, List[str]]:
    """Fetch custom files of every kind from the file roots.

    Args:
        context: the call's context.
        saltenv: environment, or several separated by commas.
        refresh: let this minion use them at once.

    Returns:
        Names of new and changed files by kind.
    """
    return {kind: _sync(context, kind, saltenv, refresh) for kind in ALL_KINDS if kind in KINDS}


@function()
def sync_modules(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom execution modules (`_modules`)."""
    return _sync(context, "modules", saltenv, refresh)


@function()
def sync_states(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom state modules (`_states`)."""
    return _sync(context, "states", saltenv, refresh)


@function()
def sync_grains(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom grains (`_grains`) and collect all grains anew."""
    return _sync(context, "grains", saltenv, refresh)


@function()
def sync_renderers(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom renderers (`_renderers`)."""
    return _sync(context, "renderers", saltenv, refresh)


@function()
def sync_utils(context: Context, saltenv: Optional[str] = None, refresh: bool = True) -> List[str]:
    """Fetch custom utilities (`_utils`)."""
    return _sync(context, "utils", saltenv, refresh)


@function()
def sync_returners(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom returners (`_returners`)."""
    return _sync(context, "returners", saltenv, refresh)


@function()
def sync_output(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom outputters (`_output`)."""
    return _sync(context, "output", saltenv, refresh)


@function()
def sync_matchers(
    context: Context, saltenv: Optional[str] = None, refresh: bool = True
) -> List[str]:
    """Fetch custom matchers (`_matchers`)."""
    return _sync(context, "matchers", saltenv, refresh)


@function()
def refresh_grains(context: Context, **kwargs: Any) -> bool:
    """Collect grains anew; the master learns them.

    Args:
        context: the call's context.
        kwargs: refresh_pillar, clean_pillar_cache: accepted.
    """
    fresh = context.host.collect_grains()
    if isinstance(context.grains, dict):
        context.grains.clear()
        context.grains.update(fresh)
    return True


@function()
def refresh_pillar(context: Context, wait: bool = False, timeout: int = 30, **_: Any) -> bool:
    """Compile the pillar anew and say whether that works.

    Jobs compile it when they first look into it, so there is nothing else to refresh.

    Args:
        context: the call's context.
        wait: accepted; it is always waited for.
        timeout: accepted.
        _: clean_cache and the like: accepted.
    """
    context.host.compile_pillar({})
    return True


@function()
def refresh_modules(context: Context, **_: Any) -> bool:
    """Load custom modules anew on their next use."""
    context.forget_plugins()
    return True


@function()
def clear_cache(context: Context, days: int = -1) -> bool:
    """Forget fetched files. Chains, journals, jobs and custom modules stay.

    Args:
        context: the call's context.
        days: only files that were not used for so many days; -1: all.
    """
    import shutil
    import time

    folder = context.host.cache_dir / "files"
    if days < 0:
        shutil.rmtree(folder, ignore_errors=True)
        return True
    oldest = time.time() - days * 86400
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.is_file() and path.stat().st_atime < oldest:
            path.unlink()
    return True
