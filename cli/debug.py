"""`catena debug`: information for tests of catena itself."""

from __future__ import annotations

import click

from catena.cli.groups import CommandGroup
from catena.cli.output.plain import document


@click.group(cls=CommandGroup)
def debug() -> None:
    """Show information for tests of catena itself."""


@debug.command()
@click.option("--out", type=click.Choice(["text", "json"]), default="text")
def failpoints(out: str) -> None:
    """List the failpoints at which a test can stop, delay or break a daemon.

    Arm them with the environment variable CATENA_FAILPOINTS, as in "name=kill;name=sleep(500)@2".
    They work only if the configuration has `testing: true`.
    """
    from catena.core.failpoint_rules import FAILPOINTS

    if out == "json":
        print(document(dict(FAILPOINTS)))
        return
    for name, text in FAILPOINTS.items():
        print(f"{name:26} {text}")
