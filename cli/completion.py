"""`catena completion`, and the completion of catena's own words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Mapping, Tuple

import click

from catena.core.errors import CatenaError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from catena.client.requests.contract import Ask

#: Shell -> (completion file for all users, completion file below one user's home folder).
PLACES: Mapping[str, Tuple[str, str]] = {
    "bash": (
        "/usr/share/bash-completion/completions/catena",
        ".local/share/bash-completion/completions/catena",
    ),
    "fish": (
        "/usr/share/fish/vendor_completions.d/catena.fish",
        ".config/fish/completions/catena.fish",
    ),
    "zsh": ("/usr/local/share/zsh/site-functions/_catena", ".zfunc/_catena"),
}

#: Maximum number of names offered for one word.
_OFFERED = 200
#: Seconds that a shell waits for the master's list of minions or keys.
_PATIENCE_SECONDS = 2.0


@click.command()
@click.argument("shell", type=click.Choice(sorted(PLACES)))
@click.option("--install", is_flag=True, help="Write the script to the shell's folder for it.")
@click.pass_context
def completion(ctx: click.Context, shell: str, install: bool) -> None:
    """Print the completion script for SHELL, or install it (for all users if you are root)."""
    text = _script(ctx, shell)
    if not install:
        click.echo(text)
        return
    path = place(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    click.echo(f"wrote {path}; new shells use it", err=True)
    if shell == "zsh" and os.geteuid():
        click.echo("put this into .zshrc, before compinit: fpath=(~/.zfunc $fpath)", err=True)


def place(shell: str) -> Path:
    """Return the path of the completion file of *shell* for the calling user."""
    everybody, own = PLACES[shell]
    return Path.home() / own if os.geteuid() else Path(everybody)


def _script(ctx: click.Context, shell: str) -> str:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"this version of click does not support completion in {shell}")
    return kind(ctx.find_root().command, {}, "catena", "_CATENA_COMPLETE").source().rstrip("\n")


def functions(ctx: click.Context, _: click.Parameter, word: str) -> List[CompletionItem]:
    """Offer names of built-in execution functions: modules first, then a module's functions."""
    from catena.runtime.session import execution_registry

    registry = execution_registry()
    if "." in word:
        return _items(name for name in registry.names() if name.startswith(word))
    return _items(f"{name}." for name in registry.prefixes() if name.startswith(word))


def minions(ctx: click.Context, _: click.Parameter, word: str) -> List[CompletionItem]:
    """Offer ids of accepted minions; none if the master does not answer."""
    from catena.client.requests.minions import LIST

    rows = _answer(ctx, LIST) or []
    return _items(row["id"] for row in rows if row["id"].startswith(word))


def keys(*states: str) -> Callable[[click.Context, click.Parameter, str], List[CompletionItem]]:
    """Return a function that offers ids of keys in some states; all states if none is given.

    It offers nothing if the master does not answer.
    """

    def offer(ctx: click.Context, _: click.Parameter, word: str) -> List[CompletionItem]:
        from catena.client.requests.keys import LIST

        found = _answer(ctx, LIST) or {}
        lines = [line for state in states or found for line in found.get(state, ())]
        return _items({line["id"] for line in lines if line["id"].startswith(word)})

    return offer


def _answer(ctx: click.Context, ask: Ask[Any, Any, Any]) -> Any:
    """Return the master's answer as plain data; None on a timeout."""
    from catena.client import connect

    # Completion runs before any command, so the folder is not where `connect` expects it.
    folder = str(ctx.find_root().params["config_dir"])
    try:
        return connect(config_dir=folder, timeout=_PATIENCE_SECONDS).request(ask)
    except (CatenaError, OSError):
        # An error would disturb the command line that the user is typing.
        return None


def _items(names: Iterable[str]) -> List[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in sorted(names)[:_OFFERED]]
