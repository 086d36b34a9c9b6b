"""Scripts of chains that leave a mark outside the product, and what a chain shows."""

from __future__ import annotations

import json
from collections import Counter

from fleet import Fleet


def witness(fleet: Fleet, name: str) -> Counter[str]:
    """Return how often each line was written to a file outside the product."""
    path = fleet.folder / name
    return Counter(path.read_text().split()) if path.exists() else Counter()


def script(fleet: Fleet, name: str, body: str) -> str:
    """Write a shell script; return its path."""
    path = fleet.folder / f"{name}.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    return str(path)


def note(fleet: Fleet, file: str, word: str) -> str:
    """Return a command that writes the minion's machine id and a word to a witness file."""
    return f"echo $CATENA_DEMO_HOST:{word} >> {fleet.folder / file}"


def statuses(fleet: Fleet, label: str) -> dict[str, list[str]]:
    """Return the status of each action of a chain, by minion."""
    shown = json.loads(fleet.catena("chain", "show", label, "--out", "json").stdout)
    return {m["minion"]: [a["status"] for a in m["actions"]] for m in shown["minions"]}
