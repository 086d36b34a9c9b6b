"""The files of a chain that may go on without its master (`resume: local`).

What its chunks will ask for is known only when they run: SLS files include others, and templates
import more. So everything small is brought into the cache before the first chunk, and what the
chunks name by address, whatever its size.
"""

from __future__ import annotations

import re
from typing import List, Sequence

from catena.core.context import FileClient, FileEntry

#: Files up to this size are kept, until they are this much together; bytes.
SMALL = 1024 * 1024
TOGETHER = 256 * 1024 * 1024
_ADDRESS = re.compile(r"salt://([^\s'\"]+)")


def bring(files: FileClient, chunks: Sequence[str]) -> None:
    """Bring the files that *chunks* (texts) may need into the cache of *files*."""
    files.fetch_all(wanted(files.entries("base"), chunks))


def wanted(entries: Sequence[FileEntry], chunks: Sequence[str]) -> List[str]:
    """Return the paths of the files to bring, the named ones first."""
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
