"""`catena call`: run a function on this host."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Mapping, Optional, Tuple

import click

from catena.cli import completion
from catena.cli.arguments import split
from catena.cli.function_command import FunctionCommand, check_function
from catena.cli.hidden_arguments import hidden_options, with_hidden
from catena.cli.output import OUTPUTS
from catena.cli.output.answers import answer, state_options, style
from catena.cli.output.fetching import FetchLines
from catena.cli.output.plain import document
from catena.cli.output.text import printable, wants_colour


def _take_folder(ctx: click.Context, _: click.Parameter, folder: Optional[str]) -> None:
    """Let the command's own --config-dir replace that of `catena` wherever it is read."""
    if folder is not None:
        ctx.find_root().obj = folder


def _show_step(lines: FetchLines, kind: str, data: Mapping[str, Any]) -> None:
    """Show how much of a large file has arrived; other steps remove the line."""
    lines.feed({"type": "progress", "minion": "local", "kind": kind, "data": data})


@click.command(cls=FunctionCommand, context_settings={"ignore_unknown_options": True})
@click.argument("function", shell_complete=completion.functions)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--local", is_flag=True, help="Use no master: files and pillar from local roots.")
@click.option(
    "--config-dir",
    "-c",
    expose_value=False,
    callback=_take_folder,
    help="Folder with the minion's configuration.",
)
@click.option(
    "--file-root", type=click.Path(exists=True, file_okay=False), help="States, with --local."
)
@click.option(
    "--pillar-root", type=click.Path(exists=True, file_okay=False), help="Pillar, with --local."
)
@click.option(
    "--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Format of the answer."
)
@hidden_options
@state_options
@click.option("--retcode-passthrough", is_flag=True, help="Exit with the function's exit code.")
@click.pass_context
def call(ctx: click.Context, /, function: str, arguments: Tuple[str, ...], **options: Any) -> int:
    """Run FUNCTION on this host, with the master's or, with --local, local files and pillar."""
    from catena.minion.calls.local import call as call_here

    check_function(function)
    args, kwargs = split(arguments)
    kwargs = with_hidden(kwargs, options)
    with closing(FetchLines()) as lines:
        outcome = call_here(
            Path(ctx.find_root().obj),
            function,
            tuple(args),
            kwargs,
            local=options["local"],
            file_root=options["file_root"],
            pillar_root=options["pillar_root"],
            watch=partial(_show_step, lines),
        )
    ret = outcome.ret
    if outcome.raised and isinstance(ret.value, str):
        # An error goes to stderr: stdout is for data only.
        print(printable(ret.value), file=sys.stderr)
        return ret.retcode if options["retcode_passthrough"] else 1
    if options["out"] == "json":
        print(document({"local": ret.value}))
    else:
        shown = {"value": ret.value, "out": ret.out}
        text = answer(
            "local", shown, options["out"] or "", wants_colour(), style(options, "minion")
        )
        print(text, end="\n" if text else "")
    sys.stdout.flush()
    if options["retcode_passthrough"]:
        return ret.retcode
    return 1 if ret.retcode or not ret.success else 0
