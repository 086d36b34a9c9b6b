"""Runners of jobs, which return the same structures as Salt's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catena.client.replies.jobs import JobHead
from catena.client.requests.jobs import JobList
from catena.core.errors import NotFoundError
from catena.master.jobs.views import FINAL, result_map
from catena.master.runners.dependencies import RunnerParts

LIST_LIMIT = 10_000


def _head(row: JobHead) -> dict[str, Any]:
    named = [{"__kwarg__": True, **row.kwargs}] if row.kwargs else []
    start = datetime.fromtimestamp(row.issued, UTC)
    return {
        "Function": row.fun,
        "Arguments": [*row.args, *named],
        "Target": row.target,
        "Target-type": row.tgt_type,
        "User": row.user,
        "StartTime": start.strftime("%Y, %b %d %H:%M:%S.%f"),
    }


async def list_jobs(parts: RunnerParts) -> dict[str, Any]:
    """Return every stored job by jid."""
    rows = await parts.views.list(JobList(limit=LIST_LIMIT))
    return {row.jid: _head(row) for row in rows}


async def list_jobs_filter(parts: RunnerParts, count: int) -> list[dict[str, Any]]:
    """Return the last *count* jobs."""
    rows = await parts.views.list(JobList(limit=count))
    return [{"JID": row.jid, **_head(row)} for row in rows]


async def list_job(parts: RunnerParts, jid: str) -> dict[str, Any]:
    """Return one job with its results; {} if there is none."""
    try:
        shown = await parts.views.show(str(jid))
    except NotFoundError:
        return {}
    results = {
        minion: {
            "return": data.ret.value,
            "retcode": data.ret.retcode,
            "success": data.ret.success,
        }
        for minion, data in shown.minions.items()
        if data.ret is not None
    }
    minions = sorted(shown.minions)
    return {"jid": shown.jid, **_head(shown), "Minions": minions, "Result": results}


async def print_job(parts: RunnerParts, jid: str) -> dict[str, Any]:
    """Return {jid: job}."""
    return {str(jid): await list_job(parts, jid)}


async def last_run(parts: RunnerParts, function: str = "", target: str = "") -> dict[str, Any]:
    """Return the newest job, optionally of a function or target, in the form of print_job."""
    rows = await parts.views.list(JobList(limit=LIST_LIMIT if target else 1, fun=function))
    found = [row for row in rows if not target or row.target == target]
    return await print_job(parts, found[0].jid) if found else {}


async def lookup_jid(parts: RunnerParts, jid: str) -> dict[str, Any]:
    """Return {minion: value} of a job; {} if there is none."""
    try:
        return result_map(await parts.views.show(str(jid)))
    except NotFoundError:
        return {}


async def active(parts: RunnerParts) -> dict[str, Any]:
    """Return the jobs that have not ended on all minions."""
    found = {}
    for row in await parts.views.list(JobList(limit=LIST_LIMIT, active=True)):
        shown = await parts.views.show(row.jid)
        minions = shown.minions
        found[row.jid] = {
            **_head(row),
            "Running": [
                {name: m.state} for name, m in minions.items() if m.state and m.state not in FINAL
            ],
            "Returned": [name for name, m in minions.items() if m.ret is not None],
        }
    return found


async def exit_success(parts: RunnerParts, jid: str) -> dict[str, bool]:
    """Return for each minion of a job whether it returned and succeeded."""
    try:
        shown = await parts.views.show(str(jid))
    except NotFoundError:
        return {}
    return {
        name: data.ret is not None and data.ret.success and not data.ret.retcode
        for name, data in shown.minions.items()
    }
