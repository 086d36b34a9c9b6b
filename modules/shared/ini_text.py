"""Edit INI files as text: set and remove options line by line, preserve comments.

A changed file is written in Salt's form: `name = value` without indentation, one blank line
between sections and none at their ends.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from catena.core.frozen import dataclass

_SECTION = re.compile(r"\s*\[(?P<name>[^\]]+)\]")
_COMMENT = ("#", ";")


@dataclass(frozen=True)
class _Option:
    """The position of an option."""

    name: str
    value: str
    #: First line of the option, and the line after its last one (values continue in indented
    #: lines).
    start: int
    end: int
    #: Indentation of the name; lines with more indentation continue the value.
    indent: str


class IniText:
    """The text of an INI file.

    Args:
        text: as read.
        separator: between name and value: "=", ":" or a blank.

    Options before the first section belong to the section "".
    """

    def __init__(self, text: str, separator: str = "=") -> None:
        self._lines = text.splitlines()
        self._separator = separator
        # The name ends at the first separator, which may have blanks around it.
        gap = r"[ \t]+" if separator == " " else rf"\s*{re.escape(separator)}[ \t]*"
        self._option = re.compile(rf"(?P<indent>\s*)(?P<name>[^\s\[#;].*?){gap}(?P<value>.*)\Z")
        self._commented = re.compile(rf"#\s*(?P<name>\S.*?){gap}")

    def sections(self) -> List[str]:
        """Return the names of the sections, in their order."""
        return list(self._bounds())

    def options(self, section: str) -> Dict[str, str]:
        """Return the options of a section; {} where there is none."""
        return {one.name: one.value for one in self._options(section)}

    def get(self, section: str, name: str) -> Optional[str]:
        """Return an option's value, or None."""
        return self.options(section).get(name)

    def set(self, section: str, name: str, value: str) -> None:
        """Set an option; a missing one replaces the comment `#name =`.

        Without such a comment, the option and its section are added at the end.
        """
        line = self._line(name, value)
        same = [one for one in self._options(section) if one.name == name]
        for one in reversed(same[1:]):
            # Remove duplicates, because the last line of an option wins.
            del self._lines[one.start : one.end]
        if same:
            self._lines[same[0].start : same[0].end] = [f"{same[0].indent}{line}"]
            return
        self.add_section(section)
        start, end = self._bounds().get(section, (0, 0))
        for number in range(start, end):
            found = self._commented.match(self._lines[number])
            if found and found.group("name") == name:
                self._lines[number] = line
                return
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        self._lines.insert(end, line)

    def add_section(self, section: str) -> None:
        """Add an empty section at the end unless it exists; the section "" always exists."""
        if section and section not in self._bounds():
            self._lines.append(f"[{section}]")

    def remove(self, section: str, name: str) -> Optional[str]:
        """Remove an option; return its value, or None if there was none."""
        for one in self._options(section):
            if one.name == name:
                del self._lines[one.start : one.end]
                return one.value
        return None

    def remove_section(self, section: str) -> Dict[str, str]:
        """Remove a section with its contents; return its options."""
        options = self.options(section)
        start, end = self._bounds().get(section, (0, 0))
        del self._lines[max(0, start - 1 if section else start) : end]
        return options

    def text(self) -> str:
        """Return the text as it is to be written."""
        blocks: List[List[str]] = [[]]
        for line in self._lines:
            if _SECTION.match(line):
                blocks.append([line.strip()])
            else:
                blocks[-1].append(line)
        shown = [self._uniform(blocks[0])]
        shown += [[block[0], *self._uniform(block[1:])] for block in blocks[1:]]
        return "\n".join("".join(f"{line}\n" for line in lines) for lines in shown if lines)

    def _uniform(self, lines: List[str]) -> List[str]:
        """Return the lines of a section in one form, without blank ones at its ends."""
        made = list(lines)
        for one in self._scanned(lines, 0, len(lines)):
            first = one.value.partition("\n")[0]
            made[one.start] = self._line(one.name, first)
        while made and not made[-1].strip():
            made.pop()
        while made and not made[0].strip():
            del made[0]
        return made

    def _line(self, name: str, value: str) -> str:
        blank = "" if self._separator == " " else " "
        return f"{name}{blank}{self._separator}{blank}{value}".rstrip()

    def _bounds(self) -> Dict[str, Tuple[int, int]]:
        """Return by section the line after its header and the line after its last one."""
        heads = [(number, found.group("name")) for number, line in enumerate(self._lines)
                 if (found := _SECTION.match(line))]  # fmt: skip
        bounds: Dict[str, Tuple[int, int]] = {}
        first = heads[0][0] if heads else len(self._lines)
        if any(line.strip() for line in self._lines[:first]):
            bounds[""] = (0, first)
        for position, (number, name) in enumerate(heads):
            end = heads[position + 1][0] if position + 1 < len(heads) else len(self._lines)
            bounds.setdefault(name, (number + 1, end))
        return bounds

    def _options(self, section: str) -> List[_Option]:
        return self._scanned(self._lines, *self._bounds().get(section, (0, 0)))

    def _scanned(self, lines: List[str], number: int, end: int) -> List[_Option]:
        found: List[_Option] = []
        while number < end:
            match = self._option.match(lines[number])
            start, number = number, number + 1
            if match is None:
                continue
            value = [match.group("value")]
            while number < end and _continues(lines[number], len(match.group("indent"))):
                value.append(lines[number].strip())
                number += 1
            indent = match.group("indent")
            found.append(_Option(match.group("name"), "\n".join(value), start, number, indent))
        return found


def _continues(line: str, indent: int) -> bool:
    """Return whether *line* goes on with the value of an option that is indented by *indent*."""
    text = line.lstrip()
    return len(line) - len(text) > indent and bool(text) and not text.startswith(_COMMENT)
