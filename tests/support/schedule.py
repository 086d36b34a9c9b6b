"""The order in which files of tests run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
#: Folders with the longest files first. With `--dist loadfile`, a worker that gets a long file
#: last runs alone; files of unit tests are short.
_FOLDERS = ("sim", "acceptance", "integration")


def ordered(
    items: Sequence[pytest.Item], roots: Callable[[pytest.Item], Sequence[str]]
) -> list[pytest.Item]:
    """Return *items* in the order in which they run; those of one file stay together.

    Files that need Debian roots run late, as roots take minutes to make, but before unit tests.

    Args:
        items: the tests.
        roots: gives the names of the roots that a test needs.
    """
    waiting = {item.path for item in items if roots(item)}

    def rank(item: pytest.Item) -> int:
        if item.path in waiting:
            return len(_FOLDERS)
        folder = item.path.relative_to(_TESTS).parts[0] if _TESTS in item.path.parents else ""
        return _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS) + 1

    return sorted(items, key=rank)
