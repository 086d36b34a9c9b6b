"""`catena doc`: the functions and states, with their arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterable, List, Optional

import click

from catena.cli import completion
from catena.core.errors import NotFoundError
from catena.core.suggest import unknown

if TYPE_CHECKING:
    from catena.core.plugins import Plugin, Registry

#: The first parameter of every built-in function, which callers do not pass.
_CONTEXT = re.compile(r"\s+context: ")


@click.command()
@click.argument("function", required=False, shell_complete=completion.functions)
@click.option("--states", is_flag=True, help="Show state functions, which SLS files call.")
def doc(function: Optional[str], states: bool) -> None:
    """Show FUNCTION's arguments and text, or a module's functions; by default all modules."""
    from catena.runtime.session import execution_registry, state_registry

    registries = [state_registry()] if states else [execution_registry(), state_registry()]
    if not function:
        _listing(registries[0])
        return
    for registry in registries:
        found = _named(registry, function)
        if found:
            _show(found)
            return
    known: Iterable[str] = {
        name
        for registry in registries
        for name in (registry.names() if "." in function else registry.prefixes())
    }
    raise NotFoundError(unknown("function" if "." in function else "module", function, known))


def _named(registry: Registry, function: str) -> List[Plugin]:
    module = registry.module(function.partition(".")[0])
    if "." in function:
        return [module[function]] if function in module else []
    return [module[name] for name in sorted(module)]


def _listing(registry: Registry) -> None:
    for prefix in registry.prefixes():
        print(f"{prefix}: {', '.join(n.partition('.')[2] for n in registry.module(prefix))}")


def _show(plugins: Iterable[Plugin]) -> None:
    for plugin in plugins:
        print(f"{plugin.name}{plugin.usage()}\n")
        for line in plugin.doc().splitlines():
            if not _CONTEXT.match(line):
                print(f"    {line}" if line else "")
        print()
