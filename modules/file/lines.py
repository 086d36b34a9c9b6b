"""file.line: one line ensured, replaced, deleted or inserted among others.

The rules are Salt's down to its oddities (a text that ends with a newline has an empty last line,
after which `location: end` puts the new one), since people's SLS files count on the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from catena.core.errors import CommandExecutionError
from catena.modules.file.edits import compiled

MODES = ("ensure", "replace", "delete", "insert")


@dataclass(frozen=True)
class LineEdit:
    """Arguments of file.line that decide what the text becomes."""

    content: Optional[str] = None
    match: Optional[str] = None
    mode: Optional[str] = None
    location: Optional[str] = None
    before: Optional[str] = None
    after: Optional[str] = None
    indent: bool = True


def checked(edit: LineEdit) -> LineEdit:
    """Return *edit* complete, or refuse it.

    Raises:
        CommandExecutionError: an argument lacks or makes no sense.
    """
    mode = (edit.mode or "").lower()
    if mode not in MODES:
        known = f"Unknown mode: {edit.mode!r}" if edit.mode else "Mode was not defined"
        raise CommandExecutionError(f"{known}. How to process the file? ({', '.join(MODES)})")
    if edit.content is None and mode != "delete":
        raise CommandExecutionError("Content can only be empty if mode is delete.")
    if mode == "insert" and not (edit.location or edit.before or edit.after):
        raise CommandExecutionError(
            'On insert either "location" or "before/after" conditions are required.'
        )
    if mode == "ensure" and not (edit.before or edit.after):
        raise CommandExecutionError(
            "Wrong conditions? Unable to ensure line without knowing where to put it "
            "before and/or after."
        )
    if edit.location not in (None, "", "start", "end"):
        raise CommandExecutionError(f"location: {edit.location!r} is neither start nor end")
    return edit


def _eol(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _like(source: str, line: str, indent: bool) -> str:
    """Return *line* with the leading space of *source*."""
    if not indent:
        return line
    return source[: len(source) - len(source.lstrip())] + line.lstrip()


def _ended(source: str, line: str) -> str:
    return line.rstrip("\r\n") + (_eol(source) or "\n")


def _matching(lines: List[str], pattern: Optional[str]) -> List[int]:
    if not pattern:
        return []
    expression = compiled(pattern)
    return [position for position, line in enumerate(lines) if expression.search(line)]


def _single(lines: List[str], pattern: str, what: str) -> int:
    found = _matching(lines, pattern)
    if len(found) != 1:
        amount = "more than" if found else "no"
        raise CommandExecutionError(f'Found {amount} expected occurrences in "{what}" expression')
    return found[0]


def _between(lines: List[str], edit: LineEdit) -> List[int]:
    after = _single(lines, str(edit.after), "after")
    before = _single(lines, str(edit.before), "before")
    if before <= after:
        raise CommandExecutionError('"before" does not stand below "after"')
    return [after, before]


def _insert(lines: List[str], edit: LineEdit) -> List[str]:
    content = str(edit.content)
    if edit.location == "end":
        last = _like(lines[-1], content, edit.indent) if lines else content
        return [*lines, last]
    if edit.location == "start":
        first = _ended(lines[0], content) if lines else f"{content}\n"
        return [first, *lines]
    if edit.before and edit.after:
        place = _between(lines, edit)[1]
        guide = place
    elif edit.before:
        guide = place = _single(lines, edit.before, "before")
    else:
        guide = _single(lines, str(edit.after), "after")
        place = guide + 1
    return [*lines[:place], _like(lines[guide], content, edit.indent), *lines[place:]]


def _same(line: str, content: str) -> bool:
    return line.strip() == content.strip()


def _ensure(lines: List[str], edit: LineEdit) -> List[str]:
    content = str(edit.content)
    if edit.before and edit.after:
        first, last = _between(lines, edit)
        inside = lines[first + 1 : last]
        if any(_same(line, content) for line in inside):
            return lines
        if len(inside) > 1:
            raise CommandExecutionError(
                'Found more than one line between boundaries "before" and "after".'
            )
        return [*lines[: first + 1], _like(lines[last], content, edit.indent), *lines[last:]]
    if edit.before:
        place = _single(lines, edit.before, "before")
        if place and _same(lines[place - 1], content):
            return lines
        return [*lines[:place], _like(lines[place], content, edit.indent), *lines[place:]]
    place = _single(lines, str(edit.after), "after")
    if place + 1 < len(lines) and _same(lines[place + 1], content):
        return lines
    return [*lines[: place + 1], _like(lines[place], content, edit.indent), *lines[place + 1 :]]


def _changed(lines: List[str], edit: LineEdit, mode: str) -> List[str]:
    if mode == "insert":
        return _insert(lines, edit)
    if mode == "ensure":
        return _ensure(lines, edit)
    pattern = edit.match or edit.content
    found = _matching(lines, pattern)
    if mode == "delete":
        return [line for position, line in enumerate(lines) if position not in found]
    return [
        _like(line, str(edit.content), edit.indent) if position in found else line
        for position, line in enumerate(lines)
    ]


def edited(text: str, edit: LineEdit) -> str:
    """Return *text* as *edit* wants it.

    Raises:
        CommandExecutionError: the edit makes no sense, or its place was not found exactly once.
    """
    mode = str(checked(edit).mode).lower()
    lines = text.splitlines(True)
    if lines and _eol(lines[-1]):
        lines.append("")
    if not text and mode in ("delete", "replace"):
        return text
    lines = _changed(lines, edit, mode)
    for position in range(len(lines) - 1):
        if not _eol(lines[position]):
            neighbour = lines[position - 1 if position else 1]
            lines[position] = _ended(neighbour, lines[position])
    if lines and not lines[-1]:
        lines.pop()
    return "".join(lines)
