"""What three runs of one formula came to: parse, judge, and write the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

#: Characters of a comment that a report keeps.
COMMENT = 400


@dataclass(frozen=True)
class Note:
    """A state that failed, or changed something where nothing was expected."""

    state: str
    comment: str


@dataclass(frozen=True)
class Run:
    """One run of state.apply.

    Args:
        error: why there are no states: a rendering error or a deadline; "" if there are.
        states: how many ran.
        failed: those with the result False.
        changed: those with changes, or in test mode those that would change something.
        seconds: wall-clock time.
    """

    error: str = ""
    states: int = 0
    failed: tuple[Note, ...] = ()
    changed: tuple[Note, ...] = ()
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        """Return the run in a few words."""
        if self.error:
            return "error"
        parts = [f"{self.states} states", f"{len(self.changed)} changed"]
        return ", ".join([*parts, *([f"{len(self.failed)} failed"] if self.failed else [])])


@dataclass(frozen=True)
class Verdict:
    """The three runs of a formula, and what of them was expected."""

    formula: str
    runs: tuple[Run, ...] = ()
    needs: str = ""
    repeats: Mapping[str, str] = field(default_factory=dict)

    @property
    def trouble(self) -> tuple[str, ...]:
        """Return what speaks against the formula; nothing if it was applied as it should be."""
        found = [f"run {n}: {run.error}" for n, run in enumerate(self.runs, 1) if run.error]
        for number, run in enumerate(self.runs, 1):
            found += [f"run {number} failed: {n.state}: {n.comment}" for n in run.failed]
            if number > 1:
                found += [
                    f"run {number} changed: {note.state}: {note.comment}"
                    for note in run.changed
                    if note.state not in self.repeats
                ]
        if self.runs and not self.runs[0].changed and not found:
            found.append("run 1 changed nothing")
        return tuple(found)

    @property
    def applied(self) -> bool:
        """Whether all three runs came to what was expected."""
        return len(self.runs) == 3 and not self.trouble


def parse(text: str, seconds: float) -> Run:
    """Read the JSON that `catena call --out json state.apply` prints."""
    try:
        answer = json.loads(text)["local"]
    except (ValueError, KeyError, TypeError):
        return Run(error=_short(text) or "no answer", seconds=seconds)
    if not isinstance(answer, dict):
        lines = answer if isinstance(answer, list) else [answer]
        return Run(error=_short("; ".join(map(str, lines))), seconds=seconds)
    states = [(_readable(tag), row) for tag, row in answer.items() if isinstance(row, dict)]
    return Run(
        states=len(states),
        failed=tuple(
            Note(n, _short(row["comment"])) for n, row in states if row["result"] is False
        ),
        changed=tuple(
            Note(name, _short(f"{row['comment']} {json.dumps(row['changes'], default=str)}"))
            for name, row in states
            if row["changes"] or row["result"] is None
        ),
        seconds=seconds,
    )


def _readable(tag: str) -> str:
    """Return "file.managed ID" for a tag of a state's result."""
    parts = tag.split("_|-")
    return f"{parts[0]}.{parts[-1]} {parts[1]}" if len(parts) == 4 else tag


def _short(text: Any) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= COMMENT else f"{words[:COMMENT]} …"


def as_json(verdict: Verdict) -> str:
    """Return the verdict with all its notes."""
    return json.dumps({**asdict(verdict), "applied": verdict.applied}, indent=1)


def from_json(text: str) -> Verdict:
    """Read a verdict that `as_json` wrote."""
    data = json.loads(text)
    runs = tuple(
        Run(
            **{
                **run,
                "failed": tuple(Note(**note) for note in run["failed"]),
                "changed": tuple(Note(**note) for note in run["changed"]),
            }
        )
        for run in data["runs"]
    )
    return Verdict(data["formula"], runs, data["needs"], data["repeats"])


def table(verdicts: Sequence[Verdict]) -> str:
    """Return a table in Markdown, and below it what went wrong."""
    good = sum(verdict.applied for verdict in verdicts)
    lines = [
        f"{good} of {len(verdicts)} formulas are applied.",
        "",
        "| formula | applied | first run | second run | test mode | needs |",
        "|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        cells = [run.summary for run in verdict.runs] + ["-"] * (3 - len(verdict.runs))
        mark = "yes" if verdict.applied else "no"
        lines.append(f"| {verdict.formula} | {mark} | {' | '.join(cells)} | {verdict.needs} |")
    for verdict in verdicts:
        if verdict.trouble:
            lines += ["", f"## {verdict.formula}", ""]
            lines += [f"- {line}" for line in verdict.trouble]
    return "\n".join(lines) + "\n"
