"""`catena doctor`: checks of this host, with remedies."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterator, List, Optional

import click

from catena.cli.config_findings import mistakes, warnings
from catena.cli.output.plain import document
from catena.cli.output.text import paint, printable, wants_colour
from catena.client.settings import master_settings
from catena.core import frozen
from catena.core.checkup import Finding, Level
from catena.core.config.schema import Extras
from catena.core.errors import CatenaError, ConfigError

_HUES = {Level.ok: "green", Level.note: "dim", Level.warning: "yellow", Level.fault: "light_red"}


@click.command()
@click.argument("which", type=click.Choice(["master", "minion"]), required=False)
@click.option("--out", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def doctor(ctx: click.Context, which: Optional[str], out: str) -> int:
    """Check this host's master and minion; list problems and what to do about them.

    Nothing is changed, and the daemons need not run. Exits with 1 if there is a fault.
    """
    folder = Path(ctx.find_root().obj)
    names = [which] if which else [n for n in ("master", "minion") if _is_there(folder, n)]
    if not names:
        raise ConfigError(f"{folder} has neither a master nor a minion file")
    looks = {"master": _master, "minion": _minion}
    found = {name: list(_allowed(name, looks[name](folder))) for name in names}
    if out == "json":
        plain = {name: [frozen.asdict(f) for f in some] for name, some in found.items()}
        print(document(plain))
    else:
        _print(found)
    return 1 if any(f.level is Level.fault for some in found.values() for f in some) else 0


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).exists() or (folder / f"{name}.d").is_dir()


def _allowed(name: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield *findings* up to the first file that this user may not open; then report that file."""
    try:
        yield from findings
    except PermissionError as error:
        what = f"{error.filename}: {error.strerror}; nothing after this was checked"
        yield Finding("access", Level.fault, what, f"run it as root, or as the user of the {name}")


def _master(folder: Path) -> Iterator[Finding]:
    try:
        settings, loaded = master_settings(str(folder))
    except CatenaError as error:
        yield Finding("configuration", Level.fault, str(error), "catena config check master")
        return
    yield from _configuration(settings, loaded)
    try:
        from catena.master.contributions import checks
        from catena.master.process.checkup import check
    except ModuleNotFoundError as error:
        advice = "install catena with its extra: catena[master]"
        yield Finding("version", Level.fault, f"the master needs {error.name}", advice)
        return
    yield from check(settings, checks())


def _minion(folder: Path) -> Iterator[Finding]:
    from catena.minion.checkup import check
    from catena.minion.start import configure

    try:
        found = configure.read(folder)
        yield from _configuration(found.settings, found.loaded)
    except CatenaError:
        pass  # the check itself reports it
    yield from check(folder)


def _configuration(settings: object, loaded: Extras) -> Iterator[Finding]:
    wrong, odd = mistakes(settings), warnings(settings)
    for text in loaded.not_yet:
        yield Finding("configuration", Level.warning, text)
    for text in wrong:
        yield Finding("configuration", Level.fault, text)
    for text in odd:
        yield Finding("configuration", Level.note, text)
    if not wrong and not odd and not loaded.not_yet:
        yield Finding("configuration", Level.ok, "all settings are valid")


def _print(found: Dict[str, List[Finding]]) -> None:
    colour = wants_colour()
    for name, some in found.items():
        print(name)
        for finding in some:
            level = paint(f"{finding.level.value:8}", _HUES[finding.level], colour)
            print(f"  {level} {finding.part:14} {printable(finding.what)}")
            if finding.advice:
                print(f"{'':26}-> {printable(finding.advice)}")
