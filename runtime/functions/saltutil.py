"""saltutil.*: jobs of this host, custom files, refresh."""

from __future__ import annotations

import signal as signals
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.ids import jid as checked_jid
from catena.core.plugins import function
from catena.runtime.custom_files import KINDS

#: What sync_all brings, in Salt's order; each has a function of its own.
ALL_KINDS = (
    "tops",
    "clouds",
    "beacons",
    "modules",
    "states",
    "sdb",
    "grains",
    "renderers",
    "returners",
    "output",
    "utils",
    "log_handlers",
    "executors",
    "proxymodules",
    "engines",
    "thorium",
    "serializers",
    "matchers",
    "resources",
    "pillar",
    "wrapper",
)
Names = Union[str, Sequence[str], None]


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


def _sync(
    context: Context,
    kind: str,
    saltenv: Optional[str],
    refresh: bool,
    only: Names = None,
    never: Names = None,
) -> List[str]:
    """Fetch the custom files of one kind; return the names of new and changed ones."""
    env = saltenv or context.saltenv
    wanted = None if only is None else _names(only)
    changed = context.host.sync(kind, env, only=wanted, never=_names(never))
    context.forget_plugins()
    if kind == "grains" and refresh:
        refresh_grains(context)
    return changed


def _names(given: Names) -> List[str]:
    if isinstance(given, str):
        return [name.strip() for name in given.split(",")]
    return [str(name) for name in given or ()]


@function()
def sync_all(
    context: Context,
    saltenv: Optional[str] = None,
    refresh: bool = True,
    extmod_whitelist: Optional[Mapping[str, Names]] = None,
    extmod_blacklist: Optional[Mapping[str, Names]] = None,
) -> Dict[str, List[str]]:
    """Fetch custom files of every kind from the file roots.

    Args:
        context: the call's context.
        saltenv: environment, or several separated by commas; the last one wins.
        refresh: let this minion use them at once.
        extmod_whitelist: by kind, the names of the files that are wanted.
        extmod_blacklist: by kind, the names of files that are not wanted.

    Returns:
        Names of new and changed files by kind.
    """
    only, never = extmod_whitelist or {}, extmod_blacklist or {}
    # Pillar is compiled where its files are.
    alone = context.opts.get("file_client") == "local"
    return {
        kind: _sync(context, kind, saltenv, refresh, only.get(kind), never.get(kind))
        for kind in ALL_KINDS
        if alone or kind != "pillar"
    }


def _sync_of(kind: str, name: str = "") -> Callable[..., List[str]]:
    """Return the function that fetches one kind of custom files."""

    def sync(
        context: Context,
        saltenv: Optional[str] = None,
        refresh: bool = True,
        extmod_whitelist: Names = None,
        extmod_blacklist: Names = None,
    ) -> List[str]:
        return _sync(context, kind, saltenv, refresh, extmod_whitelist, extmod_blacklist)

    sync.__name__ = f"sync_{name or kind}"
    sync.__doc__ = f"Fetch custom {kind} (`{KINDS[kind]}`); see saltutil.sync_all."
    return function(name=sync.__name__)(sync)


sync_tops = _sync_of("tops")
sync_clouds = _sync_of("clouds")
sync_beacons = _sync_of("beacons")
sync_modules = _sync_of("modules")
sync_states = _sync_of("states")
sync_sdb = _sync_of("sdb")
sync_grains = _sync_of("grains")
sync_renderers = _sync_of("renderers")
sync_returners = _sync_of("returners")
sync_output = _sync_of("output")
sync_outputters = _sync_of("output", "outputters")
sync_utils = _sync_of("utils")
sync_log_handlers = _sync_of("log_handlers")
sync_executors = _sync_of("executors")
sync_proxymodules = _sync_of("proxymodules")
sync_engines = _sync_of("engines")
sync_thorium = _sync_of("thorium")
sync_serializers = _sync_of("serializers")
sync_matchers = _sync_of("matchers")
sync_resources = _sync_of("resources")
sync_pillar = _sync_of("pillar")
sync_wrapper = _sync_of("wrapper")


@function()
def refresh_grains(context: Context, /, **kwargs: Any) -> bool:
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
def refresh_pillar(context: Context, /, wait: bool = False, timeout: int = 30, **_: Any) -> bool:
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
def refresh_modules(context: Context, /, **_: Any) -> bool:
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
