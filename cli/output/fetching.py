"""Progress of large files that minions fetch from the master."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

from catena.cli.output.text import printable

if TYPE_CHECKING:
    from catena.cli.output.live import LiveLines

_MIB = 1024 * 1024
#: Maximum length of a displayed path in characters; its end is the significant part.
_PATH_CHARACTERS = 60


def fetching(item: Mapping[str, Any]) -> str:
    """Return the text for an item of a job's stream that reports how much of a file has arrived.

    For any other item, return "".
    """
    if item.get("type") != "progress" or item.get("kind") != "transfer":
        return ""
    data = item.get("data")
    if not isinstance(data, Mapping):
        return ""
    path, done, total = data.get("path"), data.get("done"), data.get("total")
    if not isinstance(path, str) or type(done) is not int or type(total) is not int:
        return ""
    name = printable(path)[-_PATH_CHARACTERS:]
    return f"{name}: {done // _MIB} of {total // _MIB} MiB"


class FetchLines:
    """A line on stderr for each minion that fetches a large file.

    Without a terminal, nothing is printed.
    """

    def __init__(self) -> None:
        self._lines: Optional[LiveLines] = None

    def feed(self, item: Mapping[str, Any]) -> None:
        """Process an item of a job's stream.

        A return hides the lines, because it is printed next.
        """
        text = fetching(item)
        if text:
            if self._lines is None:
                from catena.cli.output.live import LiveLines

                self._lines = LiveLines()
            self._lines.say(str(item["minion"]), text)
        elif self._lines is not None and item.get("type") in ("progress", "return"):
            self._lines.end(str(item["minion"]))
            self._lines.hide()

    def close(self) -> None:
        """Remove the lines from the terminal."""
        if self._lines is not None:
            self._lines.hide()
