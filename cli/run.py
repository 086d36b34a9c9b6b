"""`catena run`: run a function on many minions."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

import click

from catena.cli import completion
from catena.cli.arguments import split
from catena.cli.connection import connect
from catena.cli.function_command import FunctionCommand, check_function
from catena.cli.hidden_arguments import hidden_options, with_hidden
from catena.cli.output import OUTPUTS
from catena.cli.output.answers import state_options, style
from catena.cli.targets import target_options, target_type
from catena.cli.watch import Shown, follow_job
from catena.client.connection import MasterClient
from catena.client.requests import jobs, keys
from catena.client.requests.jobs import RunJob
from catena.core.errors import CatenaError, UsageError


@click.command(
    cls=FunctionCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("target", shell_complete=completion.minions)
@click.argument("function", shell_complete=completion.functions)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@target_options
@click.option("--async", "detach", is_flag=True, help="Print the job id and return at once.")
@click.option("--batch", "-b", default="", help="Number of minions at a time: 5 or 20%.")
@click.option(
    "--batch-wait",
    type=click.FloatRange(min=0),
    default=0.0,
    help="With --batch: seconds that a minion keeps its place in the batch after its return.",
)
@click.option(
    "--failhard", is_flag=True, help="With --batch: start no more minions after a failure."
)
@click.option(
    "--subset", type=click.IntRange(min=1), help="Run on this many random minions of the target."
)
@click.option("--static", is_flag=True, help="Print all answers at the end, sorted by minion.")
@click.option("--summary", is_flag=True, help="Print at the end how many minions returned.")
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Format of answers.")
@click.option(
    "--timeout",
    "-t",
    type=click.FloatRange(min=0),
    help="Seconds to watch; the job itself continues.",
)
@click.option(
    "--deadline", type=click.IntRange(min=1), help="Seconds after which a minion kills the job."
)
@click.option(
    "--expire",
    type=click.IntRange(min=1),
    help="Seconds after which a minion that was disconnected no longer starts it.",
)
@hidden_options
@state_options
@click.pass_context
def run(
    ctx: click.Context, /, target: str, function: str, arguments: Tuple[str, ...], **options: Any
) -> int:
    """Run FUNCTION on the minions of TARGET with ARGUMENTS (values, or key=value).

    Ends when every connected minion has returned. Ctrl-C detaches; the job continues.
    """
    check_function(function, target)
    if not options["batch"] and (options["batch_wait"] or options["failhard"]):
        raise UsageError("--batch-wait and --failhard need --batch")
    args, kwargs = split(arguments)
    kwargs = with_hidden(kwargs, options)
    client = connect(ctx)
    request = RunJob(
        tgt=target,
        tgt_type=target_type(options),
        fun=function,
        args=tuple(args),
        kwargs=kwargs,
        follow=not options["detach"],
        batch=options["batch"],
        batch_wait=options["batch_wait"],
        batch_failhard=options["failhard"],
        subset=options["subset"] or 0,
        deadline_seconds=options["deadline"],
        expiry_seconds=options["expire"],
    )
    try:
        return _send(client, request, options)
    except UsageError as error:
        why = _key_of(client, target)
        if "," in target and request.tgt_type == "glob":
            why = "; a list of ids takes -L"
        if not why:
            raise
        raise UsageError(f"{error}{why}") from None


def _send(client: MasterClient, request: RunJob, options: Mapping[str, Any]) -> int:
    if options["detach"]:
        print(client.ask(jobs.RUN, request).jid)
        return 0
    return follow_job(
        client,
        jobs.RUN,
        request,
        Shown(
            options["out"] or "",
            style(options),
            options["static"],
            options["summary"],
            f"{request.fun} on {request.tgt}" if request.batch else "",
        ),
        options["timeout"],
    )


def _key_of(client: MasterClient, target: str) -> str:
    """Return a description of unaccepted keys that match *target*, or ""."""
    try:
        from catena.client.requests.keys import KeyList

        found = client.ask(keys.LIST, KeyList(target))
    except CatenaError:
        return ""
    for state in ("pending", "rejected", "denied"):
        names = [row.id for row in found.get(state, ())]
        if names:
            more = ", …" if len(names) > 5 else ""
            return f"; {state} at `catena key list`: {', '.join(names[:5])}{more}"
    return ""
