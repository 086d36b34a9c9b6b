"""Text of `.repo` files: sections of options; what does not change stays as it is."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from catena.core.patterns import lazy_pattern

_SECTION = lazy_pattern(r"\[([^\]\n]+)\]\s*\Z")
_OPTION = lazy_pattern(r"([^\s=:#;\[][^=:\n]*?)\s*[=:]\s*(.*?)\s*\Z")
_COMMENT = ("#", ";")


class RepoText:
    """The text of a `.repo` file.

    Args:
        text: as read.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if not self._lines[-1]:
            self._lines.pop()

    def sections(self) -> List[str]:
        """Return the names of the sections, in their order."""
        return list(self._bounds())

    def options(self, section: str) -> Dict[str, str]:
        """Return the options of a section; values of several lines are joined by line ends."""
        return {name: value for name, value, _, _ in self._options(section)}

    def comments(self, section: str) -> List[str]:
        """Return the comments in a section, without their marks."""
        start, end = self._bounds().get(section, (0, 0))
        lines = [line.strip() for line in self._lines[start:end]]
        return [line[1:].strip() for line in lines if line.startswith(_COMMENT)]

    def set(self, section: str, name: str, value: Optional[str]) -> None:
        """Set an option, or remove it; add a section that is missing."""
        made = [] if value is None else f"{name}={value}".replace("\n", "\n    ").splitlines()
        for known, _, start, end in self._options(section):
            if known == name:
                self._lines[start:end] = made
                return
        if section not in self._bounds():
            if self._lines and self._lines[-1].strip():
                self._lines.append("")
            self._lines.append(f"[{section}]")
        start, end = self._bounds()[section]
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        self._lines[end:end] = made

    def set_comments(self, section: str, comments: List[str]) -> None:
        """Replace the comments of a section."""
        start, end = self._bounds()[section]
        kept = [one for one in self._lines[start:end] if not one.strip().startswith(_COMMENT)]
        self._lines[start:end] = [*(f"# {one}" for one in comments), *kept]

    def remove(self, section: str) -> None:
        """Remove a section with its options and comments."""
        start, end = self._bounds()[section]
        del self._lines[start - 1 : end]

    def text(self) -> str:
        """Return the text as it is to be written."""
        return "".join(f"{line}\n" for line in self._lines)

    def _bounds(self) -> Dict[str, Tuple[int, int]]:
        """Return by section the line after its header and the line after its last one."""
        heads = [(number, found[1]) for number, line in enumerate(self._lines)
                 if (found := _SECTION.match(line.strip()))]  # fmt: skip
        ends = [*(number for number, _ in heads[1:]), len(self._lines)]
        bounds: Dict[str, Tuple[int, int]] = {}
        for (number, name), end in zip(heads, ends):
            bounds.setdefault(name, (number + 1, end))
        return bounds

    def _options(self, section: str) -> List[Tuple[str, str, int, int]]:
        """Return name, value, first line and line after the last one of each option."""
        number, end = self._bounds().get(section, (0, 0))
        found: List[Tuple[str, str, int, int]] = []
        while number < end:
            match = None if self._lines[number][:1].isspace() else self._matched(number)
            start, number = number, number + 1
            if match is None:
                continue
            value = [match[1]]
            while number < end and self._continues(number):
                value.append(self._lines[number].strip())
                number += 1
            found.append((match[0], "\n".join(one for one in value if one), start, number))
        return found

    def _matched(self, number: int) -> Optional[Tuple[str, str]]:
        match = _OPTION.match(self._lines[number])
        return (match[1], match[2]) if match else None

    def _continues(self, number: int) -> bool:
        line = self._lines[number]
        return line[:1].isspace() and bool(line.strip()) and not line.strip().startswith(_COMMENT)
