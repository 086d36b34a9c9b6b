"""Pure functions of file.line: ensure, replace, delete or insert one line.

The rules are exactly Salt's, because SLS files rely on them. For example, a text that ends with a
newline has an empty last line, and `location: end` inserts after that line.
"""

from __future__ import annotations

import re
from typing import List, Optional

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.modules.file.edits import compiled

MODES = ("ensure", "replace", "delete", "insert")


@dataclass(frozen=True)
class LineEdit:
    """Arguments of file.line that determine the new text."""

    content: Optional[str] = None
    match: Optional[str] = None
    mode: Optional[str] = None
    location: Optional[str] = None
    before: Optional[str] = None
    after: Optional[str] = None
    indent: bool = True


def checked(edit: LineEdit) -> str:
    """Check the arguments of *edit*; return its mode.

    Raises:
        CommandExecutionError: an argument is missing or invalid.
    """
    if edit.mode is None:
        raise CommandExecutionError("Mode was not defined. How to process the file?")
    mode = str(edit.mode).lower()
    if mode not in MODES:
        raise CommandExecutionError(f'Unknown mode: "{mode}"; there are {", ".join(MODES)}')
    if edit.content is None and mode != "delete":
        raise CommandExecutionError("Content can only be empty if mode is ['delete']")
    if edit.location not in (None, "", "start", "end"):
        raise CommandExecutionError(f"location: {edit.location!r} is neither start nor end")
    return mode


def _eol(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _like(source: str, line: str, indent: bool) -> str:
    """Return *line* with the indentation of *source*."""
    if not indent:
        return line
    return source[: len(source) - len(source.lstrip(" \t"))] + line.lstrip()


def _ended(source: str, line: str) -> str:
    return line.rstrip() + (_eol(source) or "\n")


def _matching(lines: List[str], pattern: Optional[str]) -> Optional[List[int]]:
    """Return the lines where *pattern*, an expression or literal, matches; None if not given."""
    if not pattern or not lines:
        return None
    expression = compiled(str(pattern), re.DOTALL)
    return [n for n, line in enumerate(lines) if expression.search(line) or str(pattern) in line]


def _single(found: Optional[List[int]], what: str) -> Optional[int]:
    """Return the single match, or None if there is none."""
    if not found:
        return None
    if len(found) > 1:
        raise CommandExecutionError(f'Found more than expected occurrences in "{what}" expression')
    return found[0]


@dataclass(frozen=True)
class _Places:
    """Positions of the lines that determine the place of the new one; None: no such line."""

    before: Optional[int]
    after: Optional[int]


def _inserted(lines: List[str], place: int, guide: int, edit: LineEdit) -> List[str]:
    return [*lines[:place], _like(lines[guide], str(edit.content), edit.indent), *lines[place:]]


def _at_end(lines: List[str], edit: LineEdit) -> List[str]:
    content = str(edit.content)
    if edit.location == "start":
        return [_ended(lines[0], content) if lines else f"{content}\n", *lines]
    return [*lines, _like(lines[-1], content, edit.indent) if lines else content]


def _insert(lines: List[str], edit: LineEdit, places: _Places) -> List[str]:
    bare = str(edit.content).rstrip("\r\n")
    before, after = places.before, places.after
    if before is not None and after is not None:
        return _inserted(lines, before, before, edit)
    if after is not None:
        if after + 1 < len(lines) and lines[after + 1].rstrip("\r\n") == bare:
            return lines
        return _inserted(lines, after + 1, after, edit)
    if before is None:
        raise CommandExecutionError("Neither before or after was found in file")
    if lines[before - 1].rstrip("\r\n") == bare:
        return lines
    return _inserted(lines, before, before, edit)


def _ensure(lines: List[str], edit: LineEdit, places: _Places) -> List[str]:
    before, after = places.before, places.after
    bare = str(edit.content).strip()
    if before is not None and after is not None:
        inside = lines[after + 1 : before]
        if any(line.strip() == bare for line in inside):
            return lines
        if len(inside) > 1 or before <= after:
            raise CommandExecutionError(
                'Found more than one line between boundaries "before" and "after".'
            )
        kept = [*lines[: after + 1], *lines[before:]]
        return _inserted(kept, after + 1, after, edit)
    if before is not None:
        if before and lines[before - 1].strip() == bare:
            return lines
        return _inserted(lines, before, before - 1, edit)
    if after is None:
        raise CommandExecutionError(
            "Wrong conditions? Unable to ensure line without knowing where to put it "
            "before and/or after."
        )
    if after + 1 < len(lines) and lines[after + 1].strip() == bare:
        return lines
    return _inserted(lines, after + 1, after, edit)


def _changed(lines: List[str], edit: LineEdit, mode: str) -> List[str]:
    if mode == "insert" and edit.location:
        return _at_end(lines, edit)
    around = {"before": _matching(lines, edit.before), "after": _matching(lines, edit.after)}
    if mode in ("insert", "ensure"):
        if mode == "insert" and list(around.values()) == [None, None]:
            raise CommandExecutionError(
                'On insert either "location" or "before/after" conditions are required.'
            )
        places = _Places(**{what: _single(found, what) for what, found in around.items()})
        return (_insert if mode == "insert" else _ensure)(lines, edit, places)
    alone = edit.before is None and edit.after is None
    found = _matching(lines, edit.match or (edit.content if alone else None))
    if not found:
        return lines
    first = lines[found[0]]
    if mode == "delete":
        return [line for line in lines if line != first]
    new = _like(first, str(edit.content), edit.indent)
    return [*lines[: found[0]], new, *lines[found[0] + 1 :]]


def edited(text: str, edit: LineEdit) -> str:
    """Return *text* after *edit*.

    `replace` changes the first matching line; `delete` removes it and all equal lines.

    Raises:
        CommandExecutionError: the arguments are invalid, or the place was not found exactly once.
    """
    mode = checked(edit)
    lines = text.splitlines(True)
    if lines and _eol(lines[-1]):
        lines.append("")
    lines = _changed(lines, edit, mode)
    for position in range(len(lines) - 1):
        if not _eol(lines[position]):
            neighbour = lines[position - 1 if position else 1]
            lines[position] = _ended(neighbour, lines[position])
    if lines and not lines[-1]:
        lines.pop()
    return "".join(lines)
