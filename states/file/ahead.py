"""Write the contents of new files of consecutive file.managed states with one fsync."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.modules.file import content
from catena.modules.file.staged import GROUP_BYTES, Staged
from catena.modules.shared import attributes
from catena.modules.shared.arguments import split, truth
from catena.states.file.contents import given_contents, text_of_contents
from catena.states.file.kept import writing
from catena.states.file.options import ManagedOptions


@contextmanager
def staged(context: Context, calls: Sequence[Tuple[str, Mapping[str, Any]]]) -> Iterator[None]:
    """Write the contents of *calls* (name, arguments) ahead; their states rename the files.

    Raises:
        CommandExecutionError: at the end, if the new names can't be made durable.
    """
    with Staged(_new_files(context, calls)) as group, writing(context, group.write):
        yield


def _new_files(
    context: Context, calls: Sequence[Tuple[str, Mapping[str, Any]]]
) -> Iterator[Tuple[Path, bytes, Optional[str]]]:
    """Yield path, content and mode of new files whose arguments contain the whole content."""
    size = 0
    for name, arguments in calls:
        if not str(name).startswith("/") or os.path.lexists(name):
            continue
        options, _ = split(ManagedOptions, arguments)
        if options.has_source or options.template or options.encoding:
            continue
        try:
            given = given_contents(context, options)
            if given is None:
                continue
            data = content.encode(text_of_contents(given, truth(options.contents_newline)))
            mode = attributes.parse_mode(options.mode)
        except UsageError:
            continue  # the state itself reports the error
        if mode == attributes.KEEP:
            continue  # the state itself decides about an existing path
        size += len(data)
        if size > GROUP_BYTES:
            return
        yield Path(name), data, mode
