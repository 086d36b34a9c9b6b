"""`catena debug`: what tests of catena itself need to know."""

from __future__ import annotations

import click

from catena.cli.output.plain import document


@click.group()
def debug() -> None:
    """Look at what serves tests of catena itself."""


@debug.command()
@click.option("--out", type=click.Choice(["text", "json"]), default="text")
def failpoints(out: str) -> None:
    """List the places where a test can stop, delay or break a daemon.

    They are armed by the environment variable CATENA_FAILPOINTS, "name=kill;name=sleep(500)@2",
    and only where the configuration says `testing: true`.
    """
    from catena.core.failpoint_rules import FAILPOINTS

    if out == "json":
        print(document(dict(FAILPOINTS)))
        return
    for name, text in FAILPOINTS.items():
        print(f"{name:26} {text}")
