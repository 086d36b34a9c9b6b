"""`catena ssh-key`: host keys of SSH hosts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Tuple

import click

from catena.cli.groups import CommandGroup
from catena.cli.output.plain import document
from catena.cli.output.table import table
from catena.cli.ssh import client_files
from catena.client.settings import master_settings
from catena.core.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.connect.host_keys import HostKey
    from catena.ssh.connect.target import SshTarget

_ROSTER = click.option("--roster", default="", help="Roster file instead of the configured one.")


@click.group("ssh-key", cls=CommandGroup)
def ssh_key() -> None:
    """Trust, list and forget host keys of SSH hosts."""


@ssh_key.command()
@click.argument("host")
@_ROSTER
@click.option("--yes", "-y", is_flag=True, help="Trust without asking whatever host answers now.")
@click.option(
    "--fingerprint", default="", help="Trust only the key with this fingerprint SHA256:…."
)
@click.pass_context
def trust(ctx: click.Context, host: str, roster: str, yes: bool, fingerprint: str) -> None:
    """Fetch the keys of HOST (an id of the roster, host, host:port), show them, and trust them.

    They replace the previously trusted keys. Compare the fingerprints with those that `ssh-keygen
    -lf /etc/ssh/ssh_host_ed25519_key.pub` prints on the host itself.
    """
    from catena.ssh.connect import host_keys
    from catena.ssh.connect.client_config import route
    from catena.ssh.connect.transport import shown_keys

    settings, _ = master_settings(ctx.find_root().obj)
    target = _target(settings, host, roster)
    files = client_files(ctx.find_root().obj, settings)
    way = route(target, files)
    found = shown_keys(way, target.id, files.trust_command, settings.ssh_timeout)
    if fingerprint:
        found = [key for key in found if key.fingerprint == fingerprint]
        if not found:
            raise NotFoundError(f"{host} has no key {fingerprint}; no key was trusted")
    for key in found:
        print(f"{way[-1].key_name}  {key.kind}  {key.fingerprint}")
    if not (yes or fingerprint):
        _ask(host)
    host_keys.trust(Path(settings.ssh_known_hosts_file), way[-1].key_name, found)


def _ask(host: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "no terminal to ask on: give --fingerprint SHA256:… as read on the host, or --yes"
        )
    click.confirm(f"trust these keys of {host}?", abort=True, err=True)


@ssh_key.command("list")
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def list_keys(ctx: click.Context, out: str) -> None:
    """List the keys trusted here; those in users' known_hosts files are trusted, too."""
    from catena.ssh.connect import host_keys

    settings, _ = master_settings(ctx.find_root().obj)
    rows: List[Dict[str, str]] = [
        {
            "host": ",".join(entry.names),
            "kind": entry.key.kind,
            "fingerprint": entry.key.fingerprint,
        }
        for entry in host_keys.read([Path(settings.ssh_known_hosts_file)])
    ]
    if out == "json":
        print(document(rows))
    else:
        print(table(("host", "kind", "fingerprint"), rows, widest=64))


@ssh_key.command()
@click.argument("host")
@_ROSTER
@click.pass_context
def forget(ctx: click.Context, host: str, roster: str) -> None:
    """Stop trusting the keys of HOST."""
    from catena.ssh.connect import host_keys
    from catena.ssh.connect.client_config import route

    settings, _ = master_settings(ctx.find_root().obj)
    files = client_files(ctx.find_root().obj, settings)
    name = route(_target(settings, host, roster), files)[-1].key_name
    gone = host_keys.forget(Path(settings.ssh_known_hosts_file), name)
    if not gone:
        raise NotFoundError(f"no key of {name} is trusted here")
    print("\n".join(_lines(name, gone)))


def _lines(name: str, keys: List[HostKey]) -> Tuple[str, ...]:
    return tuple(f"{name}  {key.kind}  {key.fingerprint}" for key in keys)


def _target(settings: MasterSettings, text: str, roster_file: str) -> SshTarget:
    """Return the selected host; one that is not in a roster needs no user here."""
    from catena.core.ids import minion_id
    from catena.ssh.connect import roster
    from catena.ssh.connect.target import SshTarget, direct_target, host_name

    known = roster.read(settings, roster_file)
    if text in known:
        return known[text]
    return direct_target(text) or SshTarget(minion_id(text), host_name(text))
