"""file.keyvalue: keys and their values in a file of `key<separator>value` lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import content
from catena.modules.file.inspect import text_of
from catena.modules.file.keyvalues import KeyValueOutcome, KeyValues, with_values
from catena.modules.shared.arguments import split, truth
from catena.states.answers import done, failed, would
from catena.states.file.kept import keep


def _pairs(key: Any, value: Any, key_values: Any) -> Tuple[Tuple[str, Any], ...]:
    if key is not None and value is not None:
        return ((str(key), value),)
    if not key_values or not isinstance(key_values, Mapping):
        problem = "is not a dictionary" if key_values else "is empty"
        raise UsageError(f"file.keyvalue key and value not supplied and key_values {problem}")
    return tuple((str(each), key_values[each]) for each in key_values)


def _old_text(path: Path, create: bool) -> Optional[str]:
    """Return the text of the file; "" if it will be created, None if it can't be read."""
    if create and not path.exists():
        return ""
    try:
        return text_of(str(path))
    except CommandExecutionError:
        return None


def _told(context: Context, name: str, made: KeyValueOutcome, shown: bool) -> StateResult:
    if not made.changed and not made.deleted:
        return done("")
    changes = {"diff": "".join(made.diff) if shown else "<show_changes=False>"}
    if not context.test:
        return done(f"Changed {made.changed}, deleted {made.deleted} lines", changes)
    comment = f"File {name} is set to be changed ({made.changed} lines modified, "
    comment += f"{made.deleted} deleted)"
    if shown:
        comment += "\nPredicted diff:\n\r\t\t" + "\r\t\t".join(made.diff)
    return would(comment, changes)


@state()
def keyvalue(context: Context, /, name: str, **options: Any) -> StateResult:
    """Set keys in a file of `key<separator>value` lines.

    Args:
        context: the call's context.
        name: the file.
        options: key and value, or key_values; separator ("="), append_if_not_found,
            prepend_if_not_found, count (1; -1: every line of a key), prune (remove other lines),
            uncomment (characters), key_ignore_case, value_ignore_case, ignore_if_missing,
            create_if_missing, show_changes.
    """
    given = {part: options.pop(part, None) for part in ("key", "value", "key_values")}
    create = truth(options.get("create_if_missing"))
    try:
        wanted, rest = split(KeyValues, {**options, "pairs": _pairs(**given)})
        path = Path(str(name)).expanduser()
        keep(context, path)
        old = _old_text(path, create)
        if old is None:
            missing = truth(rest.get("ignore_if_missing"))
            return (done if missing else failed)(f"unable to open {name}")
        if create and not path.exists():
            wanted = replace(wanted, append_if_not_found=True)
        made = with_values(old, wanted)
        if (made.changed or made.deleted) and not context.test:
            content.write(path, content.encode("".join(made.lines)))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return _told(context, name, made, truth(rest.get("show_changes", True)))
