"""`catena master` and `catena minion`: the daemons, and what the master knows about minions."""

from __future__ import annotations

from pathlib import Path

import click

from catena.cli import common_options, completion
from catena.cli.connection import connect
from catena.cli.groups import CommandGroup
from catena.cli.output import renderer
from catena.cli.output.plain import document
from catena.cli.output.table import clock, table
from catena.cli.output.text import wants_colour
from catena.cli.targets import target_options, target_type
from catena.client.requests import minions
from catena.client.settings import master_settings
from catena.core import frozen
from catena.core.config import placeholders
from catena.core.errors import ConfigError
from catena.runtime.garbage import collect_by_default


@click.command()
@click.option(
    "--new-store",
    is_flag=True,
    help="Start with an empty or another database although the keys have served one.",
)
@click.pass_context
def master(ctx: click.Context, new_store: bool) -> int:
    """Run the master in the foreground, as systemd does."""
    settings, loaded = master_settings(ctx.find_root().obj)
    if loaded.without_effect:
        click.echo(f"settings without effect: {', '.join(loaded.without_effect)}", err=True)
    try:
        from catena.master.main import run
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the master needs {error.name}: install catena with its extra, as in pip install "
            "'./catena-VERSION.whl[master]'"
        ) from None
    collect_by_default()
    level = common_options.daemon_level(ctx)
    if level:
        settings = frozen.replace(settings, log_level=level, log_file="-")
    folder = ctx.find_root().obj
    doubts = (*loaded.not_yet, *placeholders.findings(settings))
    return run(settings, folder, new_store=new_store, warnings=doubts)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def minion(ctx: click.Context) -> None:
    """Run the minion daemon; with list or show, ask the master about minions."""
    if ctx.invoked_subcommand is None:
        from catena.minion.launch import launch

        level = common_options.daemon_level(ctx)
        launch(Path(ctx.find_root().obj), {"log_level": level, "log_file": "-"} if level else {})


@minion.command("list")
@click.argument("target", default="*", shell_complete=completion.minions)
@target_options
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def list_minions(ctx: click.Context, /, target: str, out: str, **options: bool) -> None:
    """List accepted minions: up or down since when, version, boot, chain."""
    from catena.client.requests.minions import MinionList

    client, wanted = connect(ctx), MinionList(target, target_type(options))
    if out == "json":
        print(document(client.request(minions.LIST, wanted)))
        return
    shown = [
        {**vars(row), "up": "up" if row.up else "down", "since": clock(row.since, with_date=True)}
        for row in client.ask(minions.LIST, wanted)
    ]
    print(table(("id", "up", "since", "version", "boot_id", "chain", "conflict"), shown))


@minion.command()
@click.argument("name", shell_complete=completion.minions)
@click.option("--out", type=click.Choice(["nested", "json"]), default="nested")
@click.pass_context
def show(ctx: click.Context, name: str, out: str) -> None:
    """Show one minion: grains, jobs, chains."""
    from catena.client.requests.minions import MinionShow

    found = connect(ctx).request(minions.SHOW, MinionShow(name))
    if out == "json":
        print(document(found))
        return
    moments = {key: clock(found.get(key, 0.0), with_date=True) for key in ("since", "last_seen")}
    print(renderer("nested")(name, {**found, **moments}, wants_colour()))
