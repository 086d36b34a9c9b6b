"""at.*: commands that run once, later."""

from __future__ import annotations

from typing import Any, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


@state()
def present(
    context: Context,
    name: str,
    timespec: str,
    tag: Optional[str] = None,
    user: Optional[str] = None,
    job: Optional[str] = None,
    unique_tag: Any = False,
) -> StateResult:
    """Add a job to the queue of at; without unique_tag at every run.

    Args:
        context: of the run.
        name: the command.
        timespec: when, as at(1) reads it.
        tag: a word by which the job is found.
        user: who runs it.
        job: the command, instead of the name.
        unique_tag: add nothing if there is a job with the tag.
    """
    command = str(job or name)
    as_user = f" as {user}" if user else ""
    told = f"job {command} added and will run{as_user} on {timespec}"
    if truth(unique_tag) and not tag:
        return failed("no tag provided and unique_tag is set to True")
    try:
        if truth(unique_tag) and context.call("at.jobcheck", tag=tag)["jobs"]:
            return done(f"atleast one job with tag {tag} exists.")
        if user and not context.call("user.info", user):
            return failed(f"user {user} does not exists")
        if context.test:
            return would(told)
        found = context.call("at.at", timespec, command, tag=tag, runas=user)
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    return done(told, found["jobs"][0] if found["jobs"] else {})


@state()
def absent(context: Context, /, name: str, jobid: Any = None, **wanted: Any) -> StateResult:
    """Remove jobs from the queue of at; without arguments all of them.

    Args:
        context: of the run.
        name: a label.
        jobid: number of one job; the other arguments are ignored then.
        wanted: tag, runas, year, month, day, hour and minute: remove the jobs that match all.
    """
    if "limit" in wanted:
        return failed(f"limit parameter not supported {name}")
    try:
        if jobid:
            jobs = context.call("at.atq", str(jobid))["jobs"]
            jobs = [one for one in jobs if str(one["job"]) == str(jobid)]
        elif wanted:
            jobs = context.call("at.jobcheck", **wanted)["jobs"]
        else:
            jobs = context.call("at.atq")["jobs"]
        if not jobs:
            return done(f"job with id {jobid} not present" if jobid else "removed 0 job(s)")
        if context.test:
            return would(f"{len(jobs)} job(s) are set to be removed")
        removed = context.call("at.atrm", *[one["job"] for one in jobs])["jobs"]["removed"]
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    changes = {"removed": removed} if removed else {}
    if jobid:
        return done(f"job with id {jobid} was removed", changes)
    return done(f"removed {len(removed)} job(s)", changes)


@state()
def watch(
    context: Context,
    name: str,
    timespec: str,
    tag: Optional[str] = None,
    user: Optional[str] = None,
    job: Optional[str] = None,
    unique_tag: Any = False,
) -> StateResult:
    """Add a job when something watched changes; the arguments are those of at.present."""
    return done("")


@state()
def mod_watch(context: Context, /, name: str, sfun: str = "watch", **options: Any) -> StateResult:
    """Add the job of at.watch: something watched has changed."""
    if sfun != "watch":
        return failed(f"at.mod_watch does not support {sfun}")
    known = ("timespec", "tag", "user", "job", "unique_tag")
    chosen = {key: options[key] for key in known if key in options}
    if "timespec" not in chosen:
        return failed("at.watch needs a timespec")
    return present(context, name, **chosen)
