"""Output of running jobs, line by line."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from catena.cli.output.text import printable

#: Maximum length in characters of an incomplete line that is held back.
_LINE_CHARACTERS = 4096


class PrintedLines:
    """Splits the `output` items of a job's or a chain's stream into lines."""

    def __init__(self) -> None:
        #: (minion, stream) -> its incomplete line.
        self._begun: Dict[Tuple[str, str], str] = {}

    def feed(self, item: Mapping[str, Any]) -> List[str]:
        """Return the lines that an item completes; a return completes all incomplete lines."""
        minion = str(item.get("minion", ""))
        if item.get("type") == "return":
            return self.end(minion)
        if item.get("type") != "output":
            return []
        lines: List[str] = []
        if item["missed"]:
            lines = [*self.end(minion), _line(minion, f"({item['missed']} bytes are missing)")]
        if not item["stream"]:
            return [*lines, *self.end(minion), _line(minion, "(more output: see the return)")]
        key = (minion, str(item["stream"]))
        *whole, begun = (self._begun.pop(key, "") + str(item["text"])).split("\n")
        if len(begun) > _LINE_CHARACTERS:
            whole, begun = [*whole, begun], ""
        if begun:
            self._begun[key] = begun
        return [*lines, *(_line(minion, text) for text in whole)]

    def end(self, minion: str) -> List[str]:
        """Return the incomplete lines of a minion, of which nothing more comes."""
        mine = [key for key in self._begun if key[0] == minion]
        return [_line(minion, self._begun.pop(key)) for key in mine]


def _line(minion: str, text: str) -> str:
    return f"{printable(minion)}: {printable(text)}"
