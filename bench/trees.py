"""State trees of a set size, the same for every tool, and what a right answer to them is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError

#: Files that `files` manages.
FILES = 1000
CHAINED = 300
LOOPED = 5000
#: Size of the SLS `large`.
LARGE_BYTES = 1_000_000


def noops(count: int) -> str:
    """Return an SLS of so many states that do nothing."""
    return "".join(f"nop {number}:\n  test.nop: []\n" for number in range(count))


def chained(count: int) -> str:
    """Return an SLS in which each state requires the one before."""
    parts = ["link 0:\n  test.nop: []\n"]
    parts += [
        f"link {number}:\n  test.nop:\n  - require:\n    - test: link {number - 1}\n"
        for number in range(1, count)
    ]
    return "".join(parts)


def files(folder: Path, count: int) -> str:
    """Return an SLS of so many small files."""
    return "".join(
        f"{folder}/f{number:04d}:\n  file.managed:\n  - contents: line {number}\n"
        for number in range(count)
    )


def looped(count: int) -> str:
    """Return an SLS whose states a Jinja loop makes."""
    return (
        f"{{% for number in range({count}) %}}\n"
        "loop {{ number }}:\n"
        "  test.configurable_test_state:\n"
        "  - name: {{ 'state %05d' | format(number) }}\n"
        "  - result: {{ number % 2 == 0 }}\n"
        "{% endfor %}\n"
    )


def large(size: int) -> str:
    """Return an SLS of at least *size* bytes, as people write them: lists, maps, some Jinja."""
    parts, total, number = [], 0, 0
    while total < size:
        parts.append(
            f"/srv/app/config{number:05d}.conf:\n"
            "  file.managed:\n"
            "  - source: salt://app/config.conf.jinja\n"
            "  - template: jinja\n"
            "  - user: root\n"
            "  - mode: '0644'\n"
            "  - context:\n"
            f"      port: {{{{ 1000 + {number} }}}}\n"
            f"      names: [alpha{number}, beta{number}]\n"
            "      enabled: true\n"
            "      comment: \"one of many, 'quoted'\"\n"
        )
        total += len(parts[-1])
        number += 1
    return "".join(parts)


@dataclass(frozen=True)
class Tree:
    """The trees in a folder.

    Attributes:
        states: the file root.
        target: the folder whose files `files` manages.
    """

    states: Path
    target: Path


def write(folder: Path) -> Tree:
    """Write all trees below *folder*."""
    states, target = folder / "states", folder / "target"
    for path in (states, target):
        path.mkdir(parents=True, exist_ok=True)
    texts = {
        "nop1": noops(1),
        "nop1000": noops(1000),
        "nop10000": noops(10_000),
        "files": files(target, FILES),
        "chained": chained(CHAINED),
        "looped": looped(LOOPED),
        "large": large(LARGE_BYTES),
    }
    for name, text in texts.items():
        (states / f"{name}.sls").write_text(text, encoding="utf-8")
    return Tree(states, target)


def check_run(text: str, states: int, changed: int) -> None:
    """Check the JSON answer of a state run.

    Raises:
        BenchError: it has not so many states and changes, or one failed.
    """
    found = _answer(text)
    bad = [tag for tag, state in found.items() if state["result"] is not True]
    changes = sum(1 for state in found.values() if state["changes"])
    if bad or len(found) != states or changes != changed:
        raise BenchError(
            f"{len(found)} states, {len(bad)} failed, {changes} changed; "
            f"wanted {states} and {changed}"
        )


def check_shown(text: str, least: int) -> None:
    """Check the JSON answer of state.show_sls.

    Raises:
        BenchError: it has fewer than *least* states.
    """
    found = _answer(text)
    if len(found) < least:
        raise BenchError(f"{len(found)} states were shown; wanted {least}")


def _answer(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)["local"]
    except (ValueError, KeyError, TypeError):
        raise BenchError(f"no answer: {text[:200]}") from None
    if not isinstance(found, dict):
        raise BenchError(f"no states: {str(found)[:200]}")
    return found
