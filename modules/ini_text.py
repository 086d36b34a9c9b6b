"""INI files as text: options are set and removed line by line, the rest stays as written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

_SECTION = re.compile(r"\s*\[(?P<name>[^\]]+)\]")
_COMMENT = ("#", ";")


@dataclass(frozen=True)
class _Option:
    """Where an option stands."""

    name: str
    value: str
    #: Its lines: first, and one beyond the last (values go on in indented lines).
    start: int
    end: int


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
        # The name ends at the first separator; around a sign there may be blanks.
        gap = r"[ \t]+" if separator == " " else rf"\s*{re.escape(separator)}[ \t]*"
        self._option = re.compile(rf"(?P<name>[^\s\[#;].*?){gap}(?P<value>.*)\Z")

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
        """Set an option; it and its section are added at the end where they are missing."""
        blank = "" if self._separator == " " else " "
        line = f"{name}{blank}{self._separator}{blank}{value}".rstrip()
        for one in self._options(section):
            if one.name == name:
                self._lines[one.start : one.end] = [line]
                return
        self.add_section(section)
        start, end = self._bounds().get(section, (0, 0))
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        self._lines.insert(end, line)

    def add_section(self, section: str) -> None:
        """Add an empty section at the end unless it is there; "" always is."""
        if section and section not in self._bounds():
            self._lines.append(f"[{section}]")

    def remove(self, section: str, name: str) -> Optional[str]:
        """Remove an option; return its value, or None where there was none."""
        for one in self._options(section):
            if one.name == name:
                del self._lines[one.start : one.end]
                return one.value
        return None

    def remove_section(self, section: str) -> Dict[str, str]:
        """Remove a section with all that is in it; return its options."""
        options = self.options(section)
        start, end = self._bounds().get(section, (0, 0))
        del self._lines[max(0, start - 1 if section else start) : end]
        return options

    def text(self) -> str:
        """Return the text; a blank line stands before each section but the first line."""
        shown: List[str] = []
        for line in self._lines:
            if _SECTION.match(line) and shown and shown[-1].strip():
                shown.append("")
            shown.append(line)
        while shown and not shown[-1].strip():
            shown.pop()
        return "\n".join(shown) + "\n" if shown else ""

    def _bounds(self) -> Dict[str, Tuple[int, int]]:
        """Return section -> (first line below its header, one beyond its last)."""
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
        found: List[_Option] = []
        number, end = self._bounds().get(section, (0, 0))
        while number < end:
            match = self._option.match(self._lines[number])
            start, number = number, number + 1
            if match is None:
                continue
            value = [match.group("value")]
            while number < end and self._continues(self._lines[number]):
                value.append(self._lines[number].strip())
                number += 1
            found.append(_Option(match.group("name"), "\n".join(value), start, number))
        return found

    def _continues(self, line: str) -> bool:
        return (
            line[:1] in (" ", "\t")
            and bool(line.strip())
            and not (line.lstrip().startswith(_COMMENT))
        )
