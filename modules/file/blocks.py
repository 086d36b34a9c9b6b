"""Pure functions of file.blockreplace: replace the text between two marker lines."""

from __future__ import annotations

from typing import List, Optional

from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.file.edits import compiled

_PLACES = (
    "append_if_not_found",
    "prepend_if_not_found",
    "insert_before_match",
    "insert_after_match",
)


@dataclass(frozen=True)
class Block:
    """Arguments of file.blockreplace that determine the new text."""

    marker_start: str = "#-- start managed zone --"
    marker_end: str = "#-- end managed zone --"
    content: str = ""
    append_if_not_found: bool = False
    prepend_if_not_found: bool = False
    #: None: add a newline after the content only if it has none.
    append_newline: Optional[bool] = None
    insert_before_match: Optional[str] = None
    insert_after_match: Optional[str] = None


def _eol(lines: List[str]) -> str:
    """Return the line end of a text, taken from its first line."""
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def _body(block: Block, last: str, eol: str) -> List[str]:
    """Return the lines of the content followed by the marker line *last*."""
    body = [line.rstrip("\r") + eol for line in block.content.split("\n")]
    newline = block.append_newline
    if newline is None:
        newline = not block.content.endswith("\n")
    end = last.rstrip("\r\n") + eol
    if newline:
        return [*body, end]
    return [*body[:-1], body[-1][: -len(eol)] + end]


def _replaced(lines: List[str], block: Block, eol: str) -> Optional[List[str]]:
    """Return *lines* with every block replaced, or None if there is no block.

    Text before an end marker in its line is part of the old content.

    Raises:
        CommandExecutionError: a block has no end marker.
    """
    new: List[str] = []
    inside = found = False
    for line in lines:
        if block.marker_start in line:
            inside = True
            new.append(line)
        elif inside and block.marker_end in line:
            new.extend(_body(block, line[line.index(block.marker_end) :], eol))
            inside, found = False, True
        elif not inside:
            new.append(line)
    if inside:
        raise CommandExecutionError(
            "Unterminated marked block. End of file reached before marker_end."
        )
    return new if found else None


def _added(lines: List[str], block: Block, eol: str) -> List[str]:
    """Return *lines* with the missing block added where the arguments say."""
    whole = [block.marker_start + eol, *_body(block, block.marker_end, eol)]
    if block.prepend_if_not_found:
        return [*whole, *lines]
    ended = list(lines)
    if ended and not ended[-1].endswith("\n"):
        ended[-1] += eol
    if block.append_if_not_found:
        return [*ended, *whole]
    before, after = block.insert_before_match, block.insert_after_match
    if before or after:
        expression = compiled(str(before or after))
        for position, line in enumerate(ended):
            if expression.search(line):
                place = position if before else position + 1
                return [*ended[:place], *whole, *ended[place:]]
    raise CommandExecutionError("Cannot edit marked block. Markers were not found in file.")


def with_block(text: str, block: Block) -> str:
    """Return *text* with the text between the markers replaced, or the block added.

    Raises:
        CommandExecutionError: no markers and no place to add them, or no end marker.
        UsageError: more than one place is given.
    """
    if sum(1 for place in _PLACES if getattr(block, place)) > 1:
        raise UsageError(f"Only one of {', '.join(_PLACES[:3])}, and {_PLACES[3]} is permitted")
    lines = text.splitlines(True)
    eol = _eol(lines)
    found = _replaced(lines, block, eol)
    return "".join(_added(lines, block, eol) if found is None else found)
