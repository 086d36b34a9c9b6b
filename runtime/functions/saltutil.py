"""saltutil.*: manage this host's jobs, fetch custom files, refresh grains and pillar."""

from __future__ import annotations

import signal as signals
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.ids import jid as checked_jid
from catena.core.peer import PeerCall, PeerKind
from catena.core.plugins import function
from catena.runtime.custom_files import KINDS
from catena.runtime.functions.publish import parted

#: Kinds of custom files that sync_all fetches, in Salt's order; each has its own sync function.
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
    """Return the jobs that are running or queued on this minion."""
    return context.host.running()


@function(inline=True)
def is_running(context: Context, fun: str) -> List[Dict[str, Any]]:
    """Return the running jobs of a function; shell-style patterns are allowed."""
    import fnmatch

    jobs = context.host.running()
    return [job for job in jobs if fnmatch.fnmatchcase(str(job.get("fun", "")), fun)]


@function(inline=True)
def find_job(context: Context, jid: str) -> Dict[str, Any]:
    """Return the running job with the given id; {} if it does not run here."""
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
        UsageError: there is no such signal.
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
    """Send SIGTERM to a job's process tree."""
    return signal_job(context, jid, signals.SIGTERM.value)


@function(inline=True)
def kill_job(context: Context, jid: str) -> str:
    """Send SIGKILL to a job's process tree."""
    return signal_job(context, jid, signals.SIGKILL.value)


@function()
def term_all_jobs(context: Context) -> List[str]:
    """Send SIGTERM to the process trees of all other jobs."""
    own = context.job.jid if context.job else ""
    others = [str(job["jid"]) for job in context.host.running() if str(job.get("jid")) != own]
    return [term_job(context, jid) for jid in others]


@function()
def kill_all_jobs(context: Context) -> List[str]:
    """Send SIGKILL to the process trees of all other jobs."""
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
        saltenv: environment, or several separated by commas; the last one has precedence.
        refresh: collect the grains again after custom grains were fetched.
        extmod_whitelist: kind -> names of the only files to fetch.
        extmod_blacklist: kind -> names of files to skip.

    Returns:
        Kind -> names of new and changed files.
    """
    only, never = extmod_whitelist or {}, extmod_blacklist or {}
    # Custom pillar modules run where the pillar is compiled: here only without a master.
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
    """Collect the grains again and send them to the master.

    Args:
        context: the call's context.
        kwargs: refresh_pillar and clean_pillar_cache are accepted and ignored.
    """
    fresh = context.host.collect_grains()
    if isinstance(context.grains, dict):
        context.grains.clear()
        context.grains.update(fresh)
    return True


@function()
def refresh_pillar(context: Context, /, wait: bool = False, timeout: int = 30, **_: Any) -> bool:
    """Compile the pillar to check it; return True, or fail with the pillar's errors.

    Each job compiles the pillar on its first use, so there is nothing else to refresh.

    Args:
        context: the call's context.
        wait: accepted and ignored; the function always waits for the compilation.
        timeout: accepted and ignored.
        _: clean_cache and other arguments of Salt are accepted and ignored.
    """
    context.host.compile_pillar({})
    return True


@function()
def refresh_modules(context: Context, /, **_: Any) -> bool:
    """Make the next use of each custom module load it again."""
    context.forget_plugins()
    return True


@function()
def clear_cache(context: Context, days: int = -1) -> bool:
    """Remove fetched files from the cache. Chains, journals, jobs and custom modules stay.

    Args:
        context: the call's context.
        days: remove only files unused for this number of days; -1: remove all.
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


@function()
def runner(
    context: Context, /, name: str, arg: Any = None, kwarg: Any = None, **kwargs: Any
) -> Any:
    """Call a runner of the master; its setting `peer_run` must allow it to this minion.

    Args:
        context: the call's context.
        name: the runner, as manage.up.
        arg: its arguments: a value or a list.
        kwarg: its keyword arguments, as a mapping.
        kwargs: further keyword arguments; full_return, saltenv, jid and asynchronous are accepted
            without effect.

    Raises:
        NotAllowedError: the master does not allow it.
    """
    return _on_master(context, PeerKind.runner, name, arg, kwarg, kwargs)


@function()
def wheel(
    context: Context, /, name: str, arg: Any = None, kwarg: Any = None, **kwargs: Any
) -> Any:
    """Call a wheel function of the master; its setting `peer_wheel` must allow it to this minion.

    Args:
        context: the call's context.
        name: the function, as key.accept.
        arg: its arguments: a value or a list.
        kwarg: its keyword arguments, as a mapping.
        kwargs: further keyword arguments.

    Raises:
        NotAllowedError: the master does not allow it.
    """
    return _on_master(context, PeerKind.wheel, name, arg, kwarg, kwargs)


#: Arguments of saltutil.runner that are not the runner's.
_OWN = frozenset({"full_return", "saltenv", "jid", "asynchronous"})


def _on_master(
    context: Context, kind: PeerKind, name: str, arg: Any, kwarg: Any, more: Mapping[str, Any]
) -> Any:
    args, named = parted(arg)
    if kwarg is not None and not isinstance(kwarg, Mapping):
        raise UsageError("kwarg is a mapping of keyword arguments")
    given = {key: value for key, value in more.items() if key not in _OWN and key[:2] != "__"}
    return context.host.ask_master(
        PeerCall(kind, str(name), args, {**named, **(kwarg or {}), **given})
    )
