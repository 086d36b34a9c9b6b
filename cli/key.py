"""`catena key`: accept, reject and delete keys."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence

import click

from catena.cli import completion
from catena.cli.connection import connect
from catena.cli.groups import CommandGroup
from catena.cli.output.plain import document
from catena.cli.output.table import age, table
from catena.client.connection import MasterClient
from catena.client.requests import keys, minions
from catena.client.requests.keys import KeyChange, KeyFinger, KeyList, TokenCreate
from catena.client.requests.minions import MinionList
from catena.core.errors import NotFoundError, UsageError
from catena.core.suggest import unknown

if TYPE_CHECKING:
    from catena.client.replies.keys import KeyLine

#: Seconds for which `accept` waits for the accepted minions, and between its checks.
CONNECT_SECONDS = 3.0
LOOK_SECONDS = 0.05

_ALL = click.option("--all", "-A", "everything", is_flag=True, help="Every key.")


@click.group(cls=CommandGroup)
def key() -> None:
    """Accept, reject and delete minion keys."""


@key.command("list")
@click.argument("match", default="*", shell_complete=completion.keys())
@click.option(
    "--out",
    type=click.Choice(["table", "key", "json"]),
    default="table",
    help="Format of the list; key is the layout of `salt-key -L`.",
)
@click.pass_context
def list_keys(ctx: click.Context, match: str, out: str) -> None:
    """List keys by state, with fingerprint, address and age."""
    client, wanted = connect(ctx), KeyList(match)
    if out == "json":
        print(document(client.request(keys.LIST, wanted)))
        return
    found = client.ask(keys.LIST, wanted)
    if out == "key":
        _print_salt_lists(found)
        return
    rows = [
        {**vars(row), "state": state, "age": age(row.since)}
        for state, rows in found.items()
        for row in rows
    ]
    print(table(("state", "id", "fingerprint", "address", "age", "conflict"), rows, widest=64))


def _print_salt_lists(found: Mapping[str, Sequence[KeyLine]]) -> None:
    from catena.cli.output.key_lists import SALT_NAMES, key_lines
    from catena.cli.output.text import wants_colour

    lists = {name: [row.id for row in found.get(state, ())] for state, name in SALT_NAMES.items()}
    for line in key_lines(lists, wants_colour()):
        print(line)


def _change(ctx: click.Context, action: str, match: Optional[str], everything: bool) -> None:
    if bool(match) == everything:
        raise UsageError("give an id or a glob, or --all")
    client = connect(ctx)
    reply = client.ask(keys.CHANGE, KeyChange(action, match or "*"))
    for name in reply.changed:
        print(name, flush=True)
    if action == "accept":
        _until_connected(client, reply.told)
    if not reply.changed:
        why = _why_nothing(action, match or "", client.ask(keys.LIST, KeyList("*")))
        if match:
            raise NotFoundError(why)
        click.echo(why, err=True)


def _until_connected(client: MasterClient, names: Sequence[str]) -> None:
    """Wait a moment for minions to connect, so that a job right after this reaches them."""
    end = time.monotonic() + CONNECT_SECONDS
    while names and time.monotonic() < end:
        rows = client.ask(minions.LIST, MinionList(",".join(names), "list"))
        if all(row.connected for row in rows):
            return
        time.sleep(LOOK_SECONDS)


def _why_nothing(action: str, match: str, found: Dict[str, List[KeyLine]]) -> str:
    """Return why no key was changed, and suggest the nearest matching id."""
    states: Dict[str, List[str]] = {}
    for state, rows in found.items():
        for row in rows:
            states.setdefault(row.id, []).append(state)
    if match in states:
        state = " and ".join(states[match])
        if action == "rotate" and "accepted" in states[match]:
            return f"{match} is not connected; only a connected minion can replace its key"
        return f"the key of {match} is {state}: nothing to {action}"
    if not match or set(match) & set("*?[,"):
        return f"there is no key to {action}" + (f" that matches {match!r}" if match else "")
    return unknown("minion key", match, states)


@key.command()
@click.argument("match", required=False, shell_complete=completion.keys("pending"))
@_ALL
@click.pass_context
def accept(ctx: click.Context, match: Optional[str], everything: bool) -> None:
    """Accept pending keys by id or glob."""
    _change(ctx, "accept", match, everything)


@key.command()
@click.argument("match", required=False, shell_complete=completion.keys("pending", "accepted"))
@_ALL
@click.pass_context
def reject(ctx: click.Context, match: Optional[str], everything: bool) -> None:
    """Reject keys: they are refused until deleted. A connected minion is disconnected at once."""
    _change(ctx, "reject", match, everything)


@key.command()
@click.argument("match", required=False, shell_complete=completion.keys())
@_ALL
@click.pass_context
def delete(ctx: click.Context, match: Optional[str], everything: bool) -> None:
    """Delete keys. A connected minion is disconnected at once and may ask again."""
    _change(ctx, "delete", match, everything)


@key.command()
@click.argument("match", required=False, shell_complete=completion.keys("accepted"))
@_ALL
@click.pass_context
def rotate(ctx: click.Context, match: Optional[str], everything: bool) -> None:
    """Let minions create new keys and announce them over their connections."""
    _change(ctx, "rotate", match, everything)


@key.command()
@click.argument("match", default="*", shell_complete=completion.keys())
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def finger(ctx: click.Context, match: str, out: str) -> None:
    """Print the fingerprints of the master's key and the minions' keys."""
    client, wanted = connect(ctx), KeyFinger(match)
    if out == "json":
        print(document(client.request(keys.FINGER, wanted)))
        return
    found = client.ask(keys.FINGER, wanted)
    print(f"master  {found.master}")
    print("\n".join(f"{name}  {value}" for name, value in found.minions.items()))


@key.command()
@click.option("--id", "minion", default="", help="The only minion id that may use it.")
@click.option("--hours", type=click.FloatRange(min=0.01, max=8760), default=1.0, show_default=True)
@click.pass_context
def token(ctx: click.Context, minion: str, hours: float) -> None:
    """Create a one-time enrol token; it is shown only now."""
    made = connect(ctx).ask(keys.TOKEN, TokenCreate(minion, int(hours * 3600)))
    print(made.token)
