"""`catena job`: what was asked, where it stands, and how to end it."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from catena.cli.connection import connect
from catena.cli.output import OUTPUTS, renderer
from catena.cli.output.answers import state_options, style
from catena.cli.output.jobs import job_text
from catena.cli.output.plain import document
from catena.cli.output.table import table
from catena.cli.output.text import wants_colour
from catena.cli.watch import Shown, follow
from catena.client.requests import jobs
from catena.client.requests.jobs import JobCancelRequest, JobList, JobShow, JobWatch


@click.group()
def job() -> None:
    """List, show, watch and cancel jobs."""


@job.command("list")
@click.option("--active", is_flag=True, help="Only jobs that have not ended everywhere.")
@click.option("--fun", default="", help="Only this function.")
@click.option("--minion", default="", help="Only jobs of this minion.")
@click.option("--limit", type=click.IntRange(1, 10000), default=100, show_default=True)
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def list_jobs(ctx: click.Context, /, out: str, **filters: Any) -> None:
    """List jobs, newest first."""
    rows = connect(ctx).request(jobs.LIST, JobList(**filters))
    if out == "json":
        print(document(rows))
        return
    shown = [{**row, "failed": row["failed"] or ""} for row in rows]
    print(table(("jid", "fun", "target", "user", "states", "failed"), shown))


@job.command()
@click.argument("jid")
@click.option("--out", type=click.Choice(["text", "nested", "json"]), default="text")
@click.pass_context
def show(ctx: click.Context, jid: str, out: str) -> None:
    """Show a job: who asked for what, and per minion its state and answer; json has its steps."""
    found = connect(ctx).request(jobs.SHOW, JobShow(jid))
    if out == "text":
        print(job_text(found, wants_colour()))
        return
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
    """Follow a job from its start; answers already given are shown first.

    What its commands print while they run is shown on stderr, each line with its minion.
    """
    return follow(
        connect(ctx).stream(jobs.WATCH, JobWatch(jid), timeout),
        Shown(out or "", style(options), output=True),
        timeout,
    )


@job.command()
@click.argument("jid")
@click.argument("minions", nargs=-1)
@click.pass_context
def cancel(ctx: click.Context, jid: str, minions: Tuple[str, ...]) -> None:
    """Cancel a job everywhere, or on the named minions: its process tree is ended."""
    answer = connect(ctx).request(jobs.CANCEL, JobCancelRequest(jid, minions))
    print(document(answer))
