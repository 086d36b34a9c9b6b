"""`catena config`: check whether the configuration means what its author intended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from catena.cli.config_findings import mistakes, warnings
from catena.cli.groups import CommandGroup
from catena.cli.output.plain import document
from catena.client.settings import read
from catena.core import frozen
from catena.core.config.folders import placed
from catena.core.config.master import SALT_KEYS as MASTER_KEYS
from catena.core.config.master import MasterSettings
from catena.core.config.minion import SALT_KEYS as MINION_KEYS
from catena.core.config.minion import MinionSettings
from catena.core.config.schema import load
from catena.core.errors import ConfigError

_KINDS: Any = {"master": (MasterSettings, MASTER_KEYS), "minion": (MinionSettings, MINION_KEYS)}


@click.group(cls=CommandGroup)
def config() -> None:
    """Check the configuration."""


@config.command()
@click.argument("which", type=click.Choice(["master", "minion"]), required=False)
@click.option("--show", is_flag=True, help="Also print every setting with its value.")
@click.pass_context
def check(ctx: click.Context, which: str, show: bool) -> int:
    """Check the configuration of this host; list errors and settings without effect."""
    folder = Path(ctx.find_root().obj)
    names = [which] if which else [name for name in _KINDS if (folder / name).exists()]
    if not names:
        raise ConfigError(f"{folder} has neither a master nor a minion file")
    return max(_check(folder / name, name, show) for name in names)


def _check(path: Path, name: str, show: bool) -> int:
    """Print the findings about one configuration; return the exit code."""
    kind, salt_keys = _KINDS[name]
    try:
        data = read(path)
        settings, loaded = load(kind, data, salt_keys)
    except ConfigError as error:
        from catena.renderers.config_files import explained

        # An error without a setting is about a file's text, and its message names the file.
        click.echo(explained(path, error) if error.key else error, err=True)
        return error.exit_code
    for key in loaded.without_effect:
        click.echo(f"{path}: {key} has no effect here", err=True)
    for text in loaded.not_yet:
        click.echo(f"{path}: {text}", err=True)
    for key in loaded.free_keys:
        click.echo(f"{path}: {key} is not a setting of catena; config.get sees it", err=True)
    for text in warnings(settings):
        click.echo(f"{path}: {text}", err=True)
    if show:
        where = placed(settings, data, path.parent, name)
        print(document({name: frozen.asdict(where)}))
    wrong = mistakes(settings)
    for text in wrong or ([] if loaded.not_yet else ["ok"]):
        click.echo(f"{path}: {text}", err=True)
    if wrong:
        return ConfigError.exit_code
    return 1 if loaded.not_yet else 0


@config.command()
@click.argument("which", type=click.Choice(["master", "minion"]))
def keys(which: str) -> None:
    """List every setting with its default and its meaning."""
    defaults = _KINDS[which][0]()
    for field in frozen.fields(defaults):
        print(f"{field.name}: {getattr(defaults, field.name)!r}\n    {field.metadata['help']}")
