"""`catena runner`: run a function on the master."""

from __future__ import annotations

from typing import Any, Tuple

import click

from catena.cli.arguments import split
from catena.cli.connection import connect
from catena.cli.hidden_arguments import hidden_options, with_hidden
from catena.cli.output import renderer
from catena.cli.output.plain import document
from catena.cli.output.text import wants_colour
from catena.client.requests import runners
from catena.client.requests.runners import RunnerCall


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("function")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--out", type=click.Choice(["nested", "json"]), default="nested")
@hidden_options
@click.pass_context
def runner(
    ctx: click.Context, /, function: str, arguments: Tuple[str, ...], out: str, **options: Any
) -> None:
    """Run FUNCTION (jobs.*, manage.*, …) on the master."""
    args, kwargs = split(arguments)
    kwargs = with_hidden(kwargs, options)
    found = connect(ctx).request(runners.CALL, RunnerCall(function, tuple(args), kwargs))
    print(
        document(found) if out == "json" else renderer("nested")(function, found, wants_colour())
    )
