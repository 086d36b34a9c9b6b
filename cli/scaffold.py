"""`catena scaffold`: the first files of a state, a module, a grain or a formula of your own."""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Mapping, Optional

import click

from catena.cli.groups import CommandGroup
from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern

_NAME = lazy_pattern(r"[a-z][a-z0-9_]{0,63}")
_FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="File root that gets the files; default: this folder.",
)


@click.group(cls=CommandGroup)
def scaffold() -> None:
    """Write the first files of a state, module, grain or formula, with tests that pass.

    Existing files are never overwritten.
    """


@scaffold.command()
@click.argument("name")
@_FOLDER
def state(name: str, folder: Optional[Path]) -> None:
    """Write _states/NAME.py, a state module, and its tests."""
    from catena.states import INDEX

    _refuse_built_in("state", name, INDEX)
    _make("state", name, folder or Path())


@scaffold.command()
@click.argument("name")
@_FOLDER
def module(name: str, folder: Optional[Path]) -> None:
    """Write _modules/NAME.py, an execution module, and its tests."""
    from catena.runtime.session import execution_index

    _refuse_built_in("execution", name, execution_index())
    _make("module", name, folder or Path())


@scaffold.command()
@click.argument("name")
@_FOLDER
def grain(name: str, folder: Optional[Path]) -> None:
    """Write _grains/NAME.py, which gives the grain NAME, and its tests."""
    _make("grain", name, folder or Path())


@scaffold.command()
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder of the formula; default: NAME-formula.",
)
def formula(name: str, folder: Optional[Path]) -> None:
    """Write a formula: SLS files, map.jinja, defaults, an example pillar and tests."""
    _make("formula", name, folder or Path(f"{name}-formula"))


def _refuse_built_in(kind: str, name: str, index: Mapping[str, str]) -> None:
    if name in index:
        raise UsageError(f"{name} is a built-in {kind} module, which yours would replace")


def _make(kind: str, name: str, folder: Path) -> None:
    """Write the files of *kind* below *folder* and print their names.

    Raises:
        UsageError: the name can't be used, or a file exists already; then nothing is written.
    """
    from catena.cli.testing.templates import TEMPLATES

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name: use lower-case letters, digits and _, at most 64")
    files = {
        folder / path.replace("NAME", name): text.replace("NAME", name)
        for path, text in TEMPLATES[kind].items()
    }
    taken = [str(path) for path in files if path.exists() or path.is_symlink()]
    if taken:
        raise UsageError(f"{', '.join(taken)}: exists already; nothing was written")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x": another process may have made the file meanwhile.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        print(path)
    click.echo(f"run the tests: catena test {folder}", err=True)
