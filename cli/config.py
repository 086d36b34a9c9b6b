"""`catena config`: is what I wrote what I meant."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from catena.cli.output.plain import document
from catena.cli.settings import read
from catena.core.config.folders import rooted
from catena.core.config.master import SALT_KEYS as MASTER_KEYS
from catena.core.config.master import MasterSettings
from catena.core.config.minion import SALT_KEYS as MINION_KEYS
from catena.core.config.minion import MinionSettings
from catena.core.config.schema import load
from catena.core.errors import ConfigError

_KINDS: Any = {"master": (MasterSettings, MASTER_KEYS), "minion": (MinionSettings, MINION_KEYS)}


@click.group()
def config() -> None:
    """Check the configuration."""


@config.command()
@click.argument("which", type=click.Choice(["master", "minion"]), required=False)
@click.option("--show", is_flag=True, help="Print every setting with its value.")
@click.pass_context
def check(ctx: click.Context, which: str, show: bool) -> int:
    """Read the configuration of this host; name what is wrong and what has no effect."""
    folder = Path(ctx.find_root().obj)
    names = [which] if which else [name for name in _KINDS if (folder / name).exists()]
    if not names:
        raise ConfigError(f"{folder} has neither a master nor a minion file")
    code = 0
    for name in names:
        try:
            settings, loaded = load(_KINDS[name][0], read(folder / name), _KINDS[name][1])
        except ConfigError as error:
            click.echo(f"{folder / name}: {error}", err=True)
            code = error.exit_code
            continue
        for key in loaded.without_effect:
            click.echo(f"{folder / name}: {key} has no effect here", err=True)
        for key in loaded.free_keys:
            click.echo(f"{folder / name}: {key} is no setting; config.get sees it", err=True)
        if show:
            print(document({name: dataclasses.asdict(rooted(settings))}))
        click.echo(f"{folder / name}: ok", err=True)
    return code


@config.command()
@click.argument("which", type=click.Choice(["master", "minion"]))
def keys(which: str) -> None:
    """List every setting with its default and what it does."""
    defaults = _KINDS[which][0]()
    for field in dataclasses.fields(defaults):
        print(f"{field.name}: {getattr(defaults, field.name)!r}\n    {field.metadata['help']}")
