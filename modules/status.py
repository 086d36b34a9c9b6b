"""status.*: load, memory, processes and uptime, from /proc."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Union

from catena.core.context import Context
from catena.core.plugins import function


def _proc(name: str) -> str:
    path = Path("/proc", name)
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


@function(inline=True)
def loadavg(context: Context) -> Dict[str, float]:
    """Return the load averages {"1-min", "5-min", "15-min"}."""
    return dict(zip(("1-min", "5-min", "15-min"), os.getloadavg()))


@function(inline=True)
def uptime(context: Context) -> Dict[str, Any]:
    """Return seconds, since_iso, since_t, days, time, users and load of the running boot."""
    seconds = int(float((_proc("uptime").split() or ["0"])[0]))
    since = int(time.time()) - seconds
    hours, minutes = seconds // 3600 % 24, seconds // 60 % 60
    return {
        "seconds": seconds,
        "since_iso": datetime.fromtimestamp(since, timezone.utc).replace(tzinfo=None).isoformat(),
        "since_t": since,
        "days": seconds // 86400,
        "time": f"{hours}:{minutes}",
    }


@function(inline=True)
def meminfo(context: Context) -> Dict[str, Dict[str, str]]:
    """Return /proc/meminfo: {name: {"value", "unit"}}."""
    found = {}
    for line in _proc("meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words:
            found[name] = {"value": words[0], **({"unit": words[1]} if words[1:] else {})}
    return found


@function(inline=True)
def cpuinfo(context: Context) -> Dict[str, Union[str, List[str]]]:
    """Return /proc/cpuinfo by name; flags as a list."""
    found: Dict[str, Union[str, List[str]]] = {}
    for line in _proc("cpuinfo").splitlines():
        name, mark, value = line.partition(":")
        if mark:
            key = name.strip()
            found[key] = value.split() if key == "flags" else value.strip()
    return found


@function(inline=True)
def nproc(context: Context) -> int:
    """Return how many processors there are."""
    return os.cpu_count() or 0


@function(reads=True)
def diskusage(context: Context, *args: str) -> Dict[str, Dict[str, int]]:
    """Return total and available bytes by path; of "/" when none is named."""
    found = {}
    for path in args or ("/",):
        if Path(path).exists():
            status = os.statvfs(path)
            found[path] = {
                "total": status.f_frsize * status.f_blocks,
                "available": status.f_frsize * status.f_bavail,
            }
    return found


@function(reads=True)
def procs(context: Context) -> Dict[str, Dict[str, str]]:
    """Return user, cmd and start time (seconds after boot) of each process, by id."""
    from catena.modules.shared.attributes import user_name

    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            owner = user_name(folder.stat().st_uid)
        except OSError:
            continue  # it ended while we looked
        ticks = int(text[text.rfind(")") + 2 :].split()[19])
        name = words.strip() or "[" + text[text.find("(") + 1 : text.rfind(")")] + "]"
        started = f"{ticks / os.sysconf('SC_CLK_TCK'):.2f}"
        found[folder.name] = {"user": owner, "cmd": name, "start_time": started}
    return found


@function(reads=True)
def pid(context: Context, sig: str) -> str:
    """Return the ids of the processes whose command line holds *sig*, one per line."""
    own = {str(os.getpid()), str(os.getppid())}
    hits = [
        number
        for number, entry in procs(context).items()
        if str(sig) in entry["cmd"] and number not in own
    ]
    return "\n".join(sorted(hits, key=int))


@function(inline=True)
def version(context: Context) -> str:
    """Return the kernel's version line."""
    return _proc("version").strip()


@function(name="time", inline=True)
def time_(context: Context, format: str = "%A, %d. %B %Y %I:%M%p") -> str:
    """Return the local time in a strftime format."""
    return datetime.now().astimezone().strftime(format)


@function(reads=True)
def all_status(context: Context) -> Dict[str, Any]:
    """Return cpuinfo, diskusage, loadavg, meminfo and uptime."""
    return {
        "cpuinfo": cpuinfo(context),
        "diskusage": diskusage(context),
        "loadavg": loadavg(context),
        "meminfo": meminfo(context),
        "uptime": uptime(context),
    }


@function(inline=True)
def master(context: Context, master: str = "", connected: bool = True) -> bool:
    """Return whether the agent is set to work under a master."""
    return bool(context.opts.get("master"))
