"""`catena chain`: create, schedule and watch action chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Tuple

import click

from catena.cli.chain_actions import action, action_options
from catena.cli.chain_watch import follow_chain
from catena.cli.connection import connect
from catena.cli.groups import CommandGroup
from catena.cli.output.answers import state_options, style
from catena.cli.output.chains import chain_text, listing, named
from catena.cli.output.plain import document
from catena.cli.output.text import wants_colour
from catena.cli.targets import short_target_options, target_type
from catena.cli.times import moment
from catena.cli.watch import Shown, follow_job
from catena.client.replies.chains import ChainMade
from catena.client.requests import chains, jobs
from catena.client.requests.chains import (
    ChainAdd,
    ChainCreate,
    ChainEdit,
    ChainList,
    ChainMove,
    ChainPause,
    ChainRef,
    ChainRemoveEntry,
    ChainResolve,
    ChainSchedule,
)
from catena.client.requests.contract import Ask
from catena.client.requests.jobs import JobWatch
from catena.core import ids
from catena.core.errors import UsageError

_OUT = click.option("--out", type=click.Choice(["table", "json"]), default="table")


@click.group(cls=CommandGroup)
def chain() -> None:
    """Create, schedule and watch action chains. LABEL is a label or an id; an id wins."""


_AGAIN = click.option(
    "--again",
    is_flag=True,
    help="Create the chain although another one of this label has not ended.",
)


@chain.command()
@click.argument("label")
@_AGAIN
@click.pass_context
def create(ctx: click.Context, label: str, again: bool) -> None:
    """Create an empty chain."""
    _print_made(connect(ctx).ask(chains.CREATE, ChainCreate(label, again)))


def _print_made(made: ChainMade) -> None:
    """Print number and label of a new chain; warn on stderr if its label may mean another one."""
    print(f"chain {made.id}: {made.label}")
    if ids.is_chain_id(made.label) and made.label != str(made.id):
        hint = f'"{made.label}" means chain {made.label} if there is one'
        click.echo(f"name this chain {made.id}: {hint}", err=True)


@chain.command()
@click.argument("label")
@click.option("--target", "-t", required=True, help="Minions that run the action.")
@short_target_options
@action_options
@click.pass_context
def add(ctx: click.Context, /, label: str, target: str, **options: Any) -> None:
    """Append one action for every minion of the target."""
    client = connect(ctx)
    request = ChainAdd(label, target, action(client, options), target_type(options))
    answer = client.ask(chains.ADD, request)
    print(f"{label}: action {answer.sort_order} on {', '.join(answer.minions)}")


@chain.command()
@click.argument("label")
@click.argument("position", type=click.IntRange(min=0))
@action_options
@click.pass_context
def edit(ctx: click.Context, /, label: str, position: int, **options: Any) -> None:
    """Replace the action at POSITION (as `show` numbers them)."""
    client = connect(ctx)
    client.request(chains.EDIT, ChainEdit(label, position, action(client, options)))


@chain.command()
@click.argument("label")
@click.argument("position", type=click.IntRange(min=0))
@click.argument("to", type=click.IntRange(min=0))
@click.pass_context
def move(ctx: click.Context, label: str, position: int, to: int) -> None:
    """Move the action at POSITION to TO; the actions between shift by one."""
    connect(ctx).request(chains.MOVE, ChainMove(label, position, to))


@chain.command("remove-entry")
@click.argument("label")
@click.argument("position", type=click.IntRange(min=0))
@click.argument("minions", nargs=-1)
@click.pass_context
def remove_entry(ctx: click.Context, label: str, position: int, minions: Tuple[str, ...]) -> None:
    """Remove the action at POSITION, everywhere or for the named minions."""
    connect(ctx).request(chains.REMOVE_ENTRY, ChainRemoveEntry(label, position, minions))


@chain.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--schedule", "at", help="Also schedule it: now, +10m, 22:30, 2026-12-01T04:00.")
@click.option("--watch", "watching", is_flag=True, help="Schedule it now and watch it.")
@_AGAIN
@click.pass_context
def apply(ctx: click.Context, file: str, at: str, watching: bool, again: bool) -> int:
    """Create a chain from a YAML file.

    If a chain of the same label has not ended, this is an error that names its number, so that a
    repeated command runs nothing twice. A draft of that label is replaced.
    """
    from catena.cli.output.transfer import upload
    from catena.core.frozen import replace
    from catena.master.chains.document import read

    client, found = connect(ctx), read(Path(file))
    for path in found.uploads.values():
        upload(client, path, path.read_bytes())
    made = client.ask(chains.APPLY, replace(found.request, again=again))
    _print_made(made)
    if at or watching:
        client.request(chains.SCHEDULE, ChainSchedule(str(made.id), moment(at or "now")))
    else:
        click.echo(f"created a draft; run it with: catena chain schedule {made.id}", err=True)
    return follow_chain(client, str(made.id)) if watching else 0


@chain.command()
@click.argument("label")
@click.option("--at", default="now", show_default=True, help="now, +10m, 22:30, or a date.")
@click.option("--approve-required", is_flag=True, help="Wait for `chain approve`.")
@click.option("--watch", "watching", is_flag=True, help="Watch it.")
@click.pass_context
def schedule(
    ctx: click.Context, label: str, at: str, approve_required: bool, watching: bool
) -> int:
    """Schedule a chain."""
    client = connect(ctx)
    line = client.ask(chains.SCHEDULE, ChainSchedule(label, moment(at), approve_required))
    if watching:
        return follow_chain(client, str(line.id))
    print(chain_text(client.ask(chains.SHOW, ChainRef(str(line.id))), wants_colour()))
    return 0


@chain.command("list")
@click.option("--all", "everything", is_flag=True, help="Include dispatched and archived chains.")
@click.option("--limit", type=click.IntRange(1, 10000), default=100)
@_OUT
@click.pass_context
def list_chains(ctx: click.Context, everything: bool, limit: int, out: str) -> None:
    """List chains, newest first."""
    client, wanted = connect(ctx), ChainList(everything, limit)
    if out == "json":
        print(document(client.request(chains.LIST, wanted)))
    else:
        print(listing(client.ask(chains.LIST, wanted)))


@chain.command()
@click.argument("label")
@_OUT
@click.option("--full", is_flag=True, help="Show all output of commands and scripts.")
@click.pass_context
def show(ctx: click.Context, label: str, out: str, full: bool) -> None:
    """Show for each minion and action: state, times, changes, comment, last lines of output."""
    client, wanted = connect(ctx), ChainRef(label)
    if out == "json":
        print(document(client.request(chains.SHOW, wanted)))
    else:
        print(chain_text(client.ask(chains.SHOW, wanted), wants_colour(), full))


@chain.command()
@click.argument("label")
@click.option("--wait", is_flag=True, help="If the chain is a draft, wait until it is scheduled.")
@click.pass_context
def watch(ctx: click.Context, label: str, wait: bool) -> int:
    """Watch a chain until it ends. Ctrl-C stops watching; the chain continues.

    What running commands print from now on goes to stderr, each line after its minion's name. The
    live view shows the last line.

    For a draft the exit code is 2, since nothing happens before it is scheduled.
    """
    return follow_chain(connect(ctx), label, wait)


def _simple(name: str, ask: Ask[ChainRef, Any, Any], text: str, say: str) -> None:
    """Add a command whose only argument is a chain."""

    @chain.command(name, help=text)
    @click.argument("label")
    @click.pass_context
    def command(ctx: click.Context, label: str) -> None:
        line = connect(ctx).request(ask, ChainRef(label))
        print(f"{named(line, label)}: {say}")


_simple("approve", chains.APPROVE, "Approve a scheduled chain.", "approved")
_simple("cancel", chains.CANCEL, "Cancel the actions that have not run yet.", "cancelled")
_simple("retry", chains.RETRY, "Run a failed chain again, from its failed actions.", "scheduled")
_simple("release", chains.RELEASE, "Release a chain that waits for the clock.", "released")
_simple("delete", chains.DELETE, "Delete a chain that is not running.", "deleted")


def _pausing(
    name: str, ask: Ask[ChainPause, Any, Any], text: str, say: str, more: str = ""
) -> None:
    """Add a command that names a chain and some of its minions."""

    @chain.command(name, help=text)
    @click.argument("label")
    @click.option("--minion", "minions", multiple=True, help="Only on this minion.")
    @click.pass_context
    def command(ctx: click.Context, label: str, minions: Tuple[str, ...]) -> None:
        line = connect(ctx).request(ask, ChainPause(label, minions))
        where = f" on {', '.join(minions)}" if minions else ""
        print(f"{named(line, label)}: {say}{where}{more}")


_pausing(
    "pause",
    chains.PAUSE,
    "Send no further chunk of a chain until it is continued. A minion gets a chunk as one job: it "
    "completes all actions of the chunk that it has.",
    "paused",
    "; a minion completes the chunk that it has",
)
_pausing("continue", chains.CONTINUE, "Continue a paused chain.", "continued")


@chain.command()
@click.argument("label")
@click.option("--mark-done", is_flag=True, help="The actions were done: continue after them.")
@click.option("--retry", is_flag=True, help="Run the actions again.")
@click.option("--cancel", is_flag=True, help="Cancel the chain.")
@click.option("--minion", "minions", multiple=True, help="Decide only for this minion.")
@click.pass_context
def resolve(ctx: click.Context, /, label: str, minions: Tuple[str, ...], **verdicts: bool) -> None:
    """Decide how to proceed with interrupted actions; `show` lists them.

    A chain stops at an action that must not run twice and that was interrupted. Only somebody who
    checks the host can say whether the action was done.
    """
    given = [name for name, chosen in verdicts.items() if chosen]
    if len(given) != 1:
        raise UsageError("give one of --mark-done, --retry, --cancel")
    request = ChainResolve(label, given[0], minions)
    line = connect(ctx).request(chains.RESOLVE, request)
    print(f"{named(line, label)}: {line['state']}")


@chain.command()
@click.argument("label")
@click.option("--out", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def render(ctx: click.Context, label: str, out: str) -> None:
    """Write the chunks of a chain and print them; run nothing."""
    client, wanted = connect(ctx), ChainRef(label)
    if out == "json":
        print(document(client.request(chains.RENDER, wanted)))
        return
    found = client.ask(chains.RENDER, wanted)
    if not found.files and not found.refused:
        raise UsageError(f"chain {label!r} has no actions")
    for chunk in found.files:
        print(f"# {chunk.file}  ({chunk.minion}, sha256 {chunk.sha256[:16]}…)")
        print(chunk.text)
    for minion, reason in found.refused.items():
        click.echo(f"{minion}: {reason}", err=True)


@chain.command()
@click.argument("label")
@state_options
@click.pass_context
def preview(ctx: click.Context, /, label: str, **options: Any) -> int:
    """Run every chunk in test mode on its minions: show what would change, without reboots."""
    client = connect(ctx)
    submitted = client.ask(chains.PREVIEW, ChainRef(label))
    return follow_job(client, jobs.WATCH, JobWatch(submitted.jid), Shown(style=style(options)))
