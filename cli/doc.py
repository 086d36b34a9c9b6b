"""`catena doc`: what functions there are and what each takes."""

from __future__ import annotations

from typing import Optional

import click

from catena.core.errors import NotFoundError
from catena.core.suggest import unknown


@click.command()
@click.argument("function", required=False)
def doc(function: Optional[str]) -> None:
    """Show FUNCTION's arguments and text; a module's functions; without FUNCTION, all modules."""
    from catena.runtime.session import execution_registry

    registry = execution_registry()
    if not function:
        for prefix in registry.prefixes():
            print(f"{prefix}: {', '.join(n.partition('.')[2] for n in registry.module(prefix))}")
        return
    names = [function] if "." in function else sorted(registry.module(function))
    if not names:
        raise NotFoundError(unknown("module", function, registry.prefixes()))
    for name in names:
        plugin = registry[name]
        print(f"{name}{plugin.signature()}\n")
        for line in plugin.doc().splitlines():
            print(f"    {line}" if line else "")
        print()
