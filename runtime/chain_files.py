"""The files of a chain that may continue without its master (`resume: local`).

What its chunks need is known only when they run, because SLS files include others and templates
import more. Therefore all small files are cached before the first chunk, and all files that the
chunks name by address, whatever their size.
"""

from __future__ import annotations

import re
from typing import List, Sequence

from catena.core.context import FileClient, FileEntry

#: Maximum bytes of a file to cache, and below of all of them together.
SMALL = 1024 * 1024
TOGETHER = 256 * 1024 * 1024
_ADDRESS = re.compile(r"salt://([^\s'\"]+)")


def bring(files: FileClient, chunks: Sequence[str]) -> None:
    """Fetch the files that *chunks* (texts) may need into the cache of *files*."""
    files.fetch_all(wanted(files.entries("base"), chunks))


def wanted(entries: Sequence[FileEntry], chunks: Sequence[str]) -> List[str]:
    """Return the paths of the files to fetch, those named in the chunks first."""
    named = {path for text in chunks for path in _ADDRESS.findall(text)}
    found = [entry.path for entry in entries if entry.path in named]
    left = TOGETHER
    for entry in sorted(entries, key=lambda entry: entry.size):
        left -= entry.size
        if entry.size > SMALL or left < 0:
            break
        if entry.path not in named:
            found.append(entry.path)
    return found
