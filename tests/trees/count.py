"""Count the state functions that SLS files use, and those that catena lacks.

    python -m tests.trees.count ~/formulas

SLS files are read line by line, because most are no YAML before Jinja has rendered them. A use is
a key "module.function" below an id, or a key "module" whose list names the function. Files in
another language (#!py) and names that Jinja makes up are counted apart.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catena.core.plugins import Registry, StateMark
from catena.states import INDEX

#: States of other operating systems, which no host of catena has.
ELSEWHERE = re.compile(
    r"(?:win_\w+|chocolatey|macpackage|macdefaults|reg|sysrc|portage_config|makeconf|layman|"
    r"pkgng|zpool|zfs|poudriere|smartos|esx\w*)\."
)
#: A name that Jinja completes: "service.{{ state }}".
DYNAMIC = "<dynamic>"
_JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}", re.DOTALL)
_VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
#: What stands for the value of a Jinja expression.
_FILLED = "JINJA"
_DOTTED = re.compile(r"([a-z_]\w*)\.(\w+)\s*(?::\s*(?:\[\s*\]|\{\s*\})?)?")
_SHORT = re.compile(r"[^\s#-][^#]*:\s+([a-z_]\w*\.[a-z_]\w*)")
_MODULE = re.compile(r"([a-z_]\w*):")
_ITEM = re.compile(r"- +([a-z_]\w*)")
_BLOCK = re.compile(r"[|>][0-9+-]*$")
_RENDERER = re.compile(r"#!.*\b(?:py|pydsl|pyobjects|stateconf)\b")


@dataclass
class Count:
    """Uses of state functions by name, over all files."""

    uses: Counter[str] = field(default_factory=Counter)
    files: int = 0
    unread: list[Path] = field(default_factory=list)
    own: frozenset[str] = frozenset()

    def groups(self, registry: Registry) -> dict[str, Counter[str]]:
        """Return the uses as built in, own (custom files), elsewhere, dynamic and missing."""
        found: dict[str, Counter[str]] = {
            name: Counter() for name in ("built in", "own", "elsewhere", "dynamic", "missing")
        }
        for name, number in self.uses.items():
            found[_group(name, registry, self.own)][name] = number
        return found


def _group(name: str, registry: Registry, own: frozenset[str]) -> str:
    if name.endswith(DYNAMIC):
        return "dynamic"
    if name.partition(".")[0] in own:
        return "own"
    if name in registry:
        return "built in"
    return "elsewhere" if ELSEWHERE.match(name) else "missing"


def count(folder: Path) -> Count:
    """Count the uses in all SLS files below *folder*, apart from pillars and tests."""
    own = {path.stem for path in folder.rglob("_states/*.py")}
    total = Count(own=frozenset(own))
    for path in sorted(folder.rglob("*.sls")):
        parts = set(path.relative_to(folder).parts[:-1])
        if parts & {"test", "tests", "pillar", "pillars", ".git"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        total.files += 1
        if _RENDERER.match(text):
            total.unread.append(path)
        else:
            total.uses.update(uses(text))
    return total


def uses(text: str) -> Iterator[str]:
    """Yield the state functions that an SLS file uses, with repetitions."""
    lines = list(_lines(text))
    for number, (indent, line) in enumerate(lines):
        short = _SHORT.fullmatch(line)
        if short and indent == 0:
            yield short[1]
        if indent == 0 or line.startswith("-") or not _below_a_key(lines, number):
            continue
        dotted = _DOTTED.fullmatch(line)
        if dotted:
            yield f"{dotted[1]}.{DYNAMIC if _FILLED in dotted[2] else dotted[2]}"
        module = _MODULE.fullmatch(line)
        if module:
            yield from (f"{module[1]}.{name}" for name in _functions(lines, number))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield indentation and content of each line of YAML; none of comments and block scalars."""
    plain = _VALUE.sub(_FILLED, _JINJA.sub("", text))
    block = -1
    for raw in plain.splitlines():
        line = raw.expandtabs().rstrip()
        indent = len(line) - len(line.lstrip())
        line = line.strip()
        if not line or line.startswith("#") or (block >= 0 and indent > block):
            continue
        block = indent if _BLOCK.search(line) else -1
        yield indent, line


def _below_a_key(lines: Sequence[tuple[int, str]], number: int) -> bool:
    """Whether the line hangs below a key that is no item of a list."""
    indent = lines[number][0]
    for above, line in reversed(lines[:number]):
        if above < indent:
            return line.endswith(":") and not line.startswith("-")
    return False


def _functions(lines: Sequence[tuple[int, str]], number: int) -> Iterator[str]:
    """Yield the items below line *number* that are a plain word: "- installed"."""
    indent = lines[number][0]
    item = -1
    for depth, line in lines[number + 1 :]:
        if depth < indent or (depth == indent and not line.startswith("-")):
            return
        item = depth if item < 0 else item
        word = _ITEM.fullmatch(line)
        if depth == item and word:
            yield word[1]


def report(found: Count, registry: Registry) -> str:
    """Return the coverage and the missing functions, most used first."""
    groups = found.groups(registry)
    sums = {name: group.total() for name, group in groups.items()}
    wanted = sums["built in"] + sums["missing"]
    lines = [
        f"{found.files} SLS files, {len(found.unread)} of them not read (#!py and the like)",
        f"{found.uses.total()} uses of {len(found.uses)} state functions: "
        + ", ".join(f"{number} {name}" for name, number in sums.items()),
        f"built in, of those that are not own, elsewhere or dynamic: "
        f"{100 * sums['built in'] / wanted if wanted else 0:.1f} %",
        "",
        "| missing | uses |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {number} |" for name, number in groups["missing"].most_common()]
    lines += ["", "| of other systems | uses |", "|---|---|"]
    lines += [f"| `{name}` | {number} |" for name, number in groups["elsewhere"].most_common()]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Print the report on the folder that the command line names; return the exit code."""
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        print("usage: python -m tests.trees.count FOLDER", file=sys.stderr)
        return 2
    print(report(count(Path(argv[0])), Registry("state", INDEX, StateMark)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
