"""at.*: commands that run once, later (at(1))."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs

_PACKAGE = "at"
#: Comment with the tag of a job, as Salt writes it.
_TAG = re.compile(r"^### SALT: (\S+)\s*$", re.MULTILINE)
_WORD = re.compile(r"[^\s#]{1,128}\Z")
_NEW = re.compile(r"^job (\d+) at ", re.MULTILINE)
_ROW = re.compile(r"(\d+)\s+(\w+\s+\w+\s+\d+\s+\d+:\d+:\d+\s+\d+)\s+(\S)\s+(\S+)\s*\Z")
#: Arguments of jobcheck by the part of a job's date or time that they select.
_PARTS = {
    "year": ("date", 0),
    "month": ("date", 1),
    "day": ("date", 2),
    "hour": ("time", 0),
    "minute": ("time", 1),
}


def parse(text: str) -> List[Dict[str, Any]]:
    """Return the jobs that atq prints: job, date, time, queue and user."""
    found = []
    for line in text.splitlines():
        row = _ROW.match(line.strip())
        if row:
            stamp = " ".join(row.group(2).split())
            # Local time, as atq prints it.
            when = datetime.strptime(stamp, "%a %b %d %H:%M:%S %Y")
            date, _, clock = when.isoformat().partition("T")
            job = {"job": int(row.group(1)), "date": date, "time": clock}
            found.append({**job, "queue": row.group(3), "user": row.group(4)})
    return found


def selected(jobs: List[Dict[str, Any]], wanted: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Return the jobs that match all of runas, tag, year, month, day, hour and minute.

    Raises:
        UsageError: a part of a date is no number.
    """

    def matches(job: Mapping[str, Any], key: str, value: Any) -> bool:
        if key in ("runas", "tag"):
            return bool(job["user" if key == "runas" else "tag"] == str(value))
        if not str(value).isdigit():
            raise UsageError(f"{key}: {str(value)[:80]!r} is not a number")
        field, index = _PARTS[key]
        number = int(value) + (2000 if key == "year" and int(value) < 100 else 0)
        return int(re.split("[-:]", job[field])[index]) == number

    known = [key for key in wanted if key in (*_PARTS, "runas", "tag")]
    # As in Salt, an argument without a value selects nothing out.
    given = {key: wanted[key] for key in known if wanted[key] not in (None, "")}
    return [job for job in jobs if all(matches(job, *pair) for pair in given.items())]


@function(reads=True)
def atc(context: Context, jobid: Any) -> str:
    """Return the script of a job.

    Raises:
        CommandExecutionError: at is not installed, or there is no such job.
        UsageError: *jobid* is no number.
    """
    if not str(jobid).isdigit():
        raise UsageError(f"jobid: {str(jobid)[:80]!r} is not a number")
    return programs.need(context, ["at", "-c", str(jobid)], _PACKAGE)


@function(reads=True)
def atq(context: Context, tag: Any = None) -> Dict[str, List[Dict[str, Any]]]:
    """Return the jobs, or those with a tag or the one with a number: {"jobs": […]}.

    Raises:
        CommandExecutionError: at is not installed, or failed.
    """
    jobs = []
    for job in parse(programs.need(context, ["atq"], _PACKAGE)):
        found = _TAG.search(programs.look(context, ["at", "-c", str(job["job"])], _PACKAGE).stdout)
        job["tag"] = found.group(1) if found else ""
        if tag in (None, "") or str(tag) in (job["tag"], str(job["job"])):
            jobs.append(job)
    return {"jobs": jobs}


@function(reads=True)
def jobcheck(context: Context, /, **wanted: Any) -> Dict[str, Any]:
    """Return the jobs that match all of runas, tag, year, month, day, hour and minute.

    Raises:
        CommandExecutionError: at is not installed, or failed.
        UsageError: nothing to match is given, or a part of a date is no number.
    """
    if not any(key in (*_PARTS, "runas", "tag") for key in wanted):
        raise UsageError("give a condition: runas, tag, year, month, day, hour or minute")
    jobs = selected(atq(context)["jobs"], wanted)
    return {"jobs": jobs} if jobs else {"jobs": [], "note": "No match jobs or time format error"}


@function()
def at(
    context: Context,
    timespec: str,
    *cmd: str,
    tag: Optional[str] = None,
    runas: Optional[str] = None,
) -> Dict[str, List[Dict[str, Any]]]:
    """Add a job; return it as atq does.

    Args:
        context: the host.
        timespec: when, as at(1) reads it: "9:09 11/09/26", "now + 5 min".
        cmd: the command and its arguments, for a shell.
        tag: a word by which the job is found.
        runas: the user that runs it.

    Raises:
        CommandExecutionError: at is not installed, or does not understand the time.
        UsageError: an argument makes no sense.
    """
    text, when = " ".join(map(str, cmd)), str(timespec)
    if not text.strip() or "\0" in text:
        raise UsageError("at needs a command")
    if not when.strip() or when.startswith("-") or any(mark in when for mark in "\r\n\0"):
        raise UsageError(f"timespec: {when[:80]!r} is no time")
    if tag is not None and not _WORD.match(str(tag)):
        raise UsageError(f"tag: {str(tag)[:80]!r} must be one word")
    head = "" if tag is None else f"### SALT: {tag}\n"
    ran = programs.look(context, ["at", when], _PACKAGE, stdin=f"{head}{text}\n", runas=runas)
    told = f"{ran.stdout}\n{ran.stderr}"
    found = _NEW.search(told)
    if ran.retcode or found is None:
        reason = "invalid timespec" if "Garbled time" in told else told.strip()[-500:]
        raise CommandExecutionError(f"at {when!r}: {reason or 'it printed nothing'}")
    return atq(context, int(found.group(1)))


@function()
def atrm(context: Context, *jobs: Any) -> Dict[str, Dict[str, Any]]:
    """Remove jobs: their numbers, or "all" and optionally a tag; return those removed.

    Raises:
        CommandExecutionError: at is not installed, or failed.
    """
    words = [str(one) for one in jobs]
    if not words:
        return {"jobs": {"removed": [], "tag": None}}
    tag = words[1] if words[0] == "all" and len(words) > 1 else None
    there = [str(one["job"]) for one in atq(context, tag)["jobs"]]
    removed = there if words[0] == "all" else [one for one in there if one in words]
    if removed:
        programs.need(context, ["atrm", *removed], _PACKAGE)
    return {"jobs": {"removed": removed, "tag": tag}}
