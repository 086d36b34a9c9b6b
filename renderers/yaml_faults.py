"""What PyYAML says of a fault, as an error that shows the lines that a person wrote."""

from __future__ import annotations

from typing import Any, NoReturn

import yaml

from catena.core.types import SourceLine
from catena.renderers.source import LineMap, YamlFaultError

#: What the parser says -> what is probably meant.
_HINTS = {
    "mapping values are not allowed in this context": (
        ": quote a value that has a colon and a blank in it, or mend the indentation"
    ),
    "did not find expected key": ": mend the indentation",
    "found unknown escape character": ": between single quotes a backslash is a backslash",
}


class YamlErrors:
    """Turns faults of the parser into errors that show the lines a person wrote."""

    def __init__(self, text: str, name: str, original: str, line_map: LineMap) -> None:
        self._text = text
        self._name = name
        self._original = original
        self._map = line_map

    def source_line(self, rendered: int) -> int:
        """Return the line of the source that a rendered line came from."""
        return self._map(rendered)

    def marked(self, error: yaml.MarkedYAMLError) -> NoReturn:
        """Raise what the parser found wrong at a mark."""
        mark = error.problem_mark or error.context_mark
        rendered = mark.line + 1 if mark else 0
        reason = error.problem or error.context or "not YAML"
        line = self._line(rendered)
        if "found character" in reason and "\t" in line:
            reason = "found a tab, a character that cannot start any token: indent with spaces"
        elif "found character" in reason and mark is not None:
            reason += f": quote a value that begins with {line[mark.column : mark.column + 1]}"
        elif "another document" in reason:
            self.fail("expected a single document, but found another one", rendered)
        else:
            reason += _HINTS.get(reason, "")
        context = error.context_mark
        if "unexpected end of stream" in reason and context is not None:
            # The parser notices a missing quote at the next one or at the end; show its beginning.
            mark, rendered = context, context.line + 1
            reason += f" {error.context}: is the quote closed?"
        if context is not None and mark is not None and context.line != mark.line:
            reason += f" ({error.context} that begins in line {self._map(context.line + 1)})"
        self.fail(reason, rendered)

    def other(self, error: yaml.YAMLError) -> NoReturn:
        """Raise a fault that has no mark: a character that YAML forbids."""
        position = getattr(error, "position", None)
        character = getattr(error, "character", None)
        if position is None or character is None:
            self.fail(str(error), 0)
        number = ord(character) if isinstance(character, str) else character
        rendered = self._text.count("\n", 0, position) + 1
        self.fail(f"the character U+{number:04X} is not allowed in YAML", rendered)

    def fail(self, reason: str, rendered: int, kind: Any = YamlFaultError) -> NoReturn:
        """Raise *kind* for line *rendered* of the rendered text (0: no line)."""
        lines = self._original.splitlines()
        # Show an error at the end of the text at its last line.
        line = min(self._map(rendered), max(len(lines), 1)) if rendered else 0
        rendered = min(rendered, max(len(self._text.splitlines()), 1))
        note = ""
        shown = self._line(rendered)
        written = lines[line - 1 : line]
        if rendered and written != [shown]:
            note = f"  rendered (line {rendered}): {shown[:200]}"
        raise kind(reason, SourceLine(self._name, line), self._original, (), note) from None

    def fail_at(self, reason: str, event: Any, kind: Any = YamlFaultError) -> NoReturn:
        """Raise *kind* for the place of *event*."""
        self.fail(reason, event.start_mark.line + 1, kind)

    def _line(self, rendered: int) -> str:
        found = self._text.splitlines()[rendered - 1 : rendered] if rendered else []
        return found[0] if found else ""
