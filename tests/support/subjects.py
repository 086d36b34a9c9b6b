"""Check the subjects of the last commits; run by `make lint`.

A subject is in the imperative, begins with a capital letter, has at most 72 characters and no full
stop. Only commits made after this check are read, the last 20 of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LIMIT = 72
COMMITS = 20
#: First words that end like a participle or a third person and are imperatives all the same.
_IMPERATIVES = frozenset("Bring Embed Exceed Feed Need Ping Proceed Ring Seed Shed Speed".split())
_NO_VERBS = frozenset("A An The This That It".split())


def mistakes(subject: str) -> Iterator[str]:
    """Yield what is wrong with *subject*."""
    first = subject.partition(" ")[0]
    if len(subject) > LIMIT:
        yield f"is longer than {LIMIT} characters"
    if subject.endswith("."):
        yield "ends with a full stop"
    if not subject[:1].isupper():
        yield "does not begin with a capital letter"
    odd = re.search(r"(ed|ing|[^s]s)$", first) and first not in _IMPERATIVES
    if odd or first in _NO_VERBS or not first.isalpha():
        yield "does not begin with a verb in the imperative"


def subjects(folder: Path) -> list[str] | None:
    """Return the subjects made after this check in *folder*; None if there is no history of it."""
    own = Path(__file__).relative_to(Path(__file__).parents[2])
    added = _git(folder, "log", "--diff-filter=A", "--format=%H", "-1", "--", str(own))
    if not added:
        return None
    found = _git(
        folder, "log", "--no-merges", "--format=%s", f"-{COMMITS}", f"{added.strip()}..HEAD"
    )
    return None if found is None else found.splitlines()


def _git(folder: Path, *words: str) -> str | None:
    try:
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def main(folder: Path) -> int:
    """Print the mistakes of the last subjects; return 1 if there are any."""
    found = subjects(folder)
    if found is None:
        print("subjects of commits: skipped, there is no history here")
        return 0
    lines = [f"{subject!r} {what}" for subject in found for what in mistakes(subject)]
    print("\n".join(lines) or f"subjects of commits: {len(found)} read, all fine")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[2]))
