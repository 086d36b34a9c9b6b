"""What minions report of large files on their way from the master."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

from catena.cli.output.text import printable

if TYPE_CHECKING:
    from catena.cli.output.live import LiveLines

_MIB = 1024 * 1024
#: Longest path that is shown, characters: its end says most.
_PATH_CHARACTERS = 60


def fetching(item: Mapping[str, Any]) -> str:
    """Return what an item of a job's stream says of a file's way; "": nothing."""
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
    """A line on stderr for each minion that fetches a large file; none without a terminal."""

    def __init__(self) -> None:
        self._lines: Optional[LiveLines] = None

    def feed(self, item: Mapping[str, Any]) -> None:
        """Take an item of a job's stream; a return takes all lines away, to be printed."""
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
        """Take the lines off the terminal."""
        if self._lines is not None:
            self._lines.hide()
