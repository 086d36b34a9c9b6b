"""`catena event`: the master's event bus."""

from __future__ import annotations

from typing import Tuple

import click

from catena.cli.arguments import split
from catena.cli.connection import connect
from catena.cli.groups import CommandGroup
from catena.cli.output.plain import document
from catena.cli.output.text import printable
from catena.client.requests import events
from catena.client.requests.events import EventSend, EventWatch
from catena.core.errors import UsageError
from catena.core.finite import finite


@click.group(cls=CommandGroup)
def event() -> None:
    """Watch events and send one."""


@event.command()
@click.argument("tag", default="*")
@click.option("--after", type=int, default=-1, help="Start after this position; 0: all stored.")
@click.option("--count", type=click.IntRange(min=0), default=0, help="End after this many events.")
@click.option("--jsonl", is_flag=True, help="Print one JSON document per line.")
@click.pass_context
def watch(ctx: click.Context, tag: str, after: int, count: int, jsonl: bool) -> None:
    """Print events whose tag matches the glob TAG, until Ctrl-C."""
    import json

    try:
        for item in connect(ctx).stream(events.WATCH, EventWatch(tag, after, count)):
            if not isinstance(item, dict) or "tag" not in item:
                continue
            if jsonl:
                print(json.dumps(finite(item), default=str), flush=True)
            else:
                body = document(item["data"])
                print(f"{printable(item['tag'])}\t{printable(body)}", flush=True)
    except KeyboardInterrupt:
        return


@event.command()
@click.argument("tag")
@click.argument("data", nargs=-1)
@click.pass_context
def send(ctx: click.Context, tag: str, data: Tuple[str, ...]) -> None:
    """Send an event TAG with DATA (key=value …)."""
    args, kwargs = split(data)
    if len(args) == 1 and isinstance(args[0], dict):
        kwargs = {**args[0], **kwargs}
    elif args:
        raise UsageError("give the event's data as key=value, or as one mapping")
    connect(ctx).request(events.SEND, EventSend(tag, kwargs))
