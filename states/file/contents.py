"""Contents of file.managed from the SLS file, the pillar or the grains."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.nested import MISSING, traverse
from catena.modules.file import content
from catena.modules.shared.arguments import listed, truth
from catena.states.file.options import ManagedOptions

_KINDS = ("contents", "contents_pillar", "contents_grains")


def given_contents(context: Context, options: ManagedOptions) -> Any:
    """Return the given contents; None if there are none.

    Raises:
        UsageError: more than one kind is given, the pillar or grain does not exist, or the
            contents are empty without `allow_empty`.
    """
    asked = [kind for kind in _KINDS if getattr(options, kind) is not None]
    if options.has_source and asked:
        raise UsageError(
            "'source' cannot be used in combination with 'contents', 'contents_pillar', or "
            "'contents_grains'"
        )
    if len(asked) > 1:
        raise UsageError(
            "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted"
        )
    if not asked:
        return None
    label, value = _found(context, options, asked[0])
    if value == "" and not truth(options.allow_empty):
        raise UsageError(
            f"{label} value would result in empty contents. Set allow_empty to True to allow the "
            "managed file to be empty."
        )
    return value


def _found(context: Context, options: ManagedOptions, kind: str) -> Tuple[str, Any]:
    """Return the name of the contents for messages, and their value."""
    given = getattr(options, kind)
    if kind == "contents":
        return "'contents'", given
    what = "Pillar" if kind == "contents_pillar" else "Grain"
    tree = context.pillar if kind == "contents_pillar" else context.grains
    values: List[Any] = []
    for name in listed(given):
        values.append(traverse(tree, str(name), MISSING, options.contents_delimiter))
        if values[-1] is MISSING:
            raise UsageError(f"{what} {name} does not exist")
    return f"{kind} {given}", values[0] if len(values) == 1 else values


def text_of_contents(value: Any, newline: bool) -> str:
    """Return contents as text: a text, or a list of texts that each start a line.

    Raises:
        UsageError: the contents are neither.
    """
    if isinstance(value, bytes):
        return content.decode(value)
    if isinstance(value, Mapping):
        raise UsageError("contents must be text or a list of lines; use file.serialize for data")
    if isinstance(value, (list, tuple)):
        if not value:
            raise UsageError(
                "Contents specified by contents/contents_pillar/contents_grains is not a string "
                "or list of strings, and is not binary data. SLS is likely malformed."
            )
        text = "".join(f"{line}\n" for part in value for line in str(part).splitlines())
        return text if newline else text[:-1]
    text = str(value).replace("\r\n", "\n")
    return text + "\n" if newline and text and not text.endswith("\n") else text
