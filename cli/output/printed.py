"""What running jobs print, line by line, as people follow it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from catena.cli.output.text import printable

#: Longest line that waits for its end, characters.
_LINE_CHARACTERS = 4096


class PrintedLines:
    """Makes lines of the `output` items of a job's stream."""

    def __init__(self) -> None:
        #: The begun line of each stream of a minion.
        self._begun: Dict[Tuple[str, str], str] = {}

    def feed(self, item: Mapping[str, Any]) -> List[str]:
        """Return the lines that an item completes; a return completes what is begun."""
        minion = str(item.get("minion", ""))
        if item.get("type") == "return":
            return self._rest(minion)
        if item.get("type") != "output":
            return []
        lines: List[str] = []
        if item["missed"]:
            lines = [*self._rest(minion), _line(minion, f"({item['missed']} bytes are missing)")]
        if not item["stream"]:
            return [*lines, *self._rest(minion), _line(minion, "(more output: see the return)")]
        key = (minion, str(item["stream"]))
        *whole, begun = (self._begun.pop(key, "") + str(item["text"])).split("\n")
        if len(begun) > _LINE_CHARACTERS:
            whole, begun = [*whole, begun], ""
        if begun:
            self._begun[key] = begun
        return [*lines, *(_line(minion, text) for text in whole)]

    def _rest(self, minion: str) -> List[str]:
        mine = [key for key in self._begun if key[0] == minion]
        return [_line(minion, self._begun.pop(key)) for key in mine]


def _line(minion: str, text: str) -> str:
    return f"{printable(minion)}: {printable(text)}"
