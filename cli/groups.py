"""Groups of commands that suggest the nearest command for an unknown one."""

from __future__ import annotations

from typing import List, Optional, Tuple

import click

from catena.core.suggest import unknown


class CommandGroup(click.Group):
    """A group of commands; an unknown command is refused in the words of other unknown names.

    click itself suggests similar names only since version 8.2.
    """

    def resolve_command(
        self, ctx: click.Context, args: List[str]
    ) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        """Return the command that the first of *args* names, or suggest the nearest one."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            ctx.fail(unknown(f"{ctx.command_path} command", args[0], names, few=True))
        return super().resolve_command(ctx, args)
