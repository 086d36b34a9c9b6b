"""`catena job`: list jobs, show their progress, and cancel them."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from catena.cli.connection import connect
from catena.cli.groups import CommandGroup
from catena.cli.output import OUTPUTS, renderer
from catena.cli.output.answers import state_options, style
from catena.cli.output.jobs import job_text
from catena.cli.output.plain import document
from catena.cli.output.table import table
from catena.cli.output.text import wants_colour
from catena.cli.watch import Shown, follow_job
from catena.client.requests import jobs
from catena.client.requests.jobs import JobCancelRequest, JobList, JobShow, JobWatch


@click.group(cls=CommandGroup)
def job() -> None:
    """List, show, watch and cancel jobs."""


@job.command("list")
@click.option("--active", is_flag=True, help="Only jobs that have not ended on all minions.")
@click.option("--fun", default="", help="Only jobs with this function.")
@click.option("--minion", default="", help="Only jobs on this minion.")
@click.option("--limit", type=click.IntRange(1, 10000), default=100, show_default=True)
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def list_jobs(ctx: click.Context, /, out: str, **filters: Any) -> None:
    """List jobs, newest first."""
    client, wanted = connect(ctx), JobList(**filters)
    if out == "json":
        print(document(client.request(jobs.LIST, wanted)))
        return
    shown = [{**vars(row), "failed": row.failed or ""} for row in client.ask(jobs.LIST, wanted)]
    print(table(("jid", "fun", "target", "user", "states", "failed"), shown))


@job.command()
@click.argument("jid")
@click.option("--out", type=click.Choice(["text", "nested", "json"]), default="text")
@state_options
@click.pass_context
def show(ctx: click.Context, /, jid: str, out: str, **options: Any) -> None:
    """Show a job: user, function, and each minion's state and return; with json also its steps."""
    client, wanted = connect(ctx), JobShow(jid)
    if out == "text":
        print(job_text(client.ask(jobs.SHOW, wanted), wants_colour(), style(options)))
        return
    found = client.request(jobs.SHOW, wanted)
    print(document(found) if out == "json" else renderer("nested")(jid, found, wants_colour()))


@job.command()
@click.argument("jid")
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None)
@click.option("--timeout", "-t", type=click.FloatRange(min=0), help="Seconds to watch.")
@state_options
@click.pass_context
def watch(
    ctx: click.Context, /, jid: str, out: Optional[str], timeout: Optional[float], **options: Any
) -> int:
    """Watch a job from its start; returns that have already arrived are shown first.

    Output of its commands is shown on stderr while they run, each line with its minion.
    """
    shown = Shown(out or "", style(options), output=True)
    return follow_job(connect(ctx), jobs.WATCH, JobWatch(jid), shown, timeout)


@job.command()
@click.argument("jid")
@click.argument("minions", nargs=-1)
@click.pass_context
def cancel(ctx: click.Context, jid: str, minions: Tuple[str, ...]) -> None:
    """Cancel a job on all or the given minions; its process tree is killed."""
    answer = connect(ctx).request(jobs.CANCEL, JobCancelRequest(jid, minions))
    print(document(answer))
