"""`catena store`: maintenance of the master's database, on the master's own host."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from catena.cli.groups import CommandGroup
from catena.cli.output.plain import document
from catena.cli.output.table import table
from catena.client.settings import master_settings
from catena.core import frozen
from catena.core.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings

_MIB = 1024 * 1024


@click.group(cls=CommandGroup)
def store() -> None:
    """Back up, restore, check, upgrade and prune the master's database."""


def _settings(ctx: click.Context) -> MasterSettings:
    settings, _ = master_settings(ctx.find_root().obj)
    try:
        import catena.master.store.upkeep  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this host lacks {error.name}: run these commands where the master is installed"
        ) from None
    return settings


def _url(ctx: click.Context) -> str:
    settings = _settings(ctx)
    from catena.master.store.database import database_url

    return database_url(settings)


def _file(ctx: click.Context) -> Path:
    url = _url(ctx)
    from catena.master.store.upkeep import sqlite_file

    return sqlite_file(url)


@store.command()
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def show(ctx: click.Context, out: str) -> None:
    """Show the database's location, schema, size and contents."""
    url = _url(ctx)
    from catena.master.store.upkeep import summary

    found = summary(url)
    if out == "json":
        print(document(frozen.asdict(found)))
        return
    print(f"store   {found.place}")
    print(f"schema  {found.revision} (this version: {found.known_revision})")
    if found.size_bytes:
        size, free = found.size_bytes / _MIB, found.free_bytes / _MIB
        print(f"size    {size:.1f} MiB, {free:.1f} MiB of it free")
    counts = [{"rows": name, "count": count} for name, count in sorted(found.rows.items())]
    print(table(("rows", "count"), counts))


@store.command()
@click.pass_context
def check(ctx: click.Context) -> int:
    """Check the integrity of the whole database."""
    url = _url(ctx)
    from catena.master.store.upkeep import faults

    found = faults(url)
    for text in found:
        click.echo(text, err=True)
    if found:
        click.echo("stop the master, then: catena store restore BACKUP", err=True)
        return 1
    click.echo("ok", err=True)
    return 0


@store.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.pass_context
def backup(ctx: click.Context, file: Optional[Path]) -> None:
    """Copy the database to FILE; the master may run.

    Without FILE the copy goes to `backups` beside the database. Its path is printed.
    """
    database = _file(ctx)
    from catena.core.files import private_folder
    from catena.master.store.backup import back_up

    if file is None:
        name = time.strftime("master-%Y%m%dT%H%M%S.db")
        file = private_folder(database.parent / "backups") / name
    size = back_up(database, file)
    click.echo(f"{size / _MIB:.1f} MiB, checked", err=True)
    print(file)


@store.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def restore(ctx: click.Context, file: Path) -> None:
    """Replace the database by the backup FILE; the master must be stopped.

    The replaced database is kept beside it. Everything that was open at the time of the backup is
    listed with its outcome: minions report to the started master what they still know.
    """
    database = _file(ctx)
    from catena.master.store import backup as backups
    from catena.master.store import lock, restored

    with lock.held(database, "restoring it"):
        aside = _unused(database.with_name(time.strftime(f"{database.name}.before-%Y%m%dT%H%M%S")))
        now = time.time()
        backups.restore(database, file, aside, now)
        lines = restored.touched(database, now)
    if aside.exists():
        click.echo(f"the replaced database: {aside}", err=True)
    for line in lines:
        click.echo(line, err=True)
    print(database)


def _unused(path: Path) -> Path:
    """Return *path*, or the first numbered variant of it that does not exist."""
    names = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return path if not path.exists() else next(name for name in names if not name.exists())


@store.command()
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """Upgrade the database to this version's schema, as the master's next start would.

    A copy of the old one is kept beside it.
    """
    url = _url(ctx)
    import asyncio

    from catena.master.store import lock, sole, upkeep
    from catena.master.store.backup import keep_before_upgrade
    from catena.master.store.database import Store, is_file

    async def whole() -> None:
        opened = Store(url)
        await opened.open()
        await opened.close()

    file_held = is_file(url) and lock.held(upkeep.sqlite_file(url), "upgrading it")
    with file_held or sole.held(url, "upgrade"):
        before = upkeep.summary(url).revision
        kept = keep_before_upgrade(upkeep.sqlite_file(url)) if is_file(url) else None
        asyncio.run(whole())
    if kept:
        click.echo(f"the previous database: {kept}", err=True)
    print(f"schema {before} -> {upkeep.summary(url).revision}")


@store.command()
@click.option(
    "--vacuum", is_flag=True, help="Return free space to the file system (takes a while)."
)
@click.pass_context
def prune(ctx: click.Context, vacuum: bool) -> None:
    """Delete now what the keep_* settings no longer keep; the master may run."""
    settings = _settings(ctx)
    url = _url(ctx)
    import asyncio

    from catena.master.contributions import retention as retentions
    from catena.master.process import retention
    from catena.master.store import upkeep
    from catena.master.store.database import Store
    from catena.master.store.schema import HEAD

    if upkeep.summary(url).revision != HEAD:
        raise InvalidStateError("the database has an older schema: catena store upgrade")

    async def whole() -> dict[str, int]:
        opened = Store(url)
        await opened.open()
        try:
            rules = retentions()
            kept = retention.limits(rules, settings, time.time())
            return await retention.prune(opened, rules, kept)
        finally:
            await opened.close()

    dropped = asyncio.run(whole())
    print(document(dropped))
    if vacuum:
        upkeep.vacuum(upkeep.sqlite_file(url))
