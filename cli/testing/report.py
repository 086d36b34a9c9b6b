"""Text and JUnit reports of tests."""

from __future__ import annotations

from typing import Iterator, List, Sequence
from xml.sax.saxutils import escape, quoteattr

from catena.cli.output.text import paint, printable
from catena.cli.testing.model import KitOutcome


def lines_of(outcome: KitOutcome, colour: bool) -> Iterator[str]:
    """Yield the lines that show one outcome."""
    failed = bool(outcome.failures)
    word = paint("FAIL", "light_red", colour) if failed else paint("ok", "green", colour) + "  "
    yield f"  {word}  {printable(outcome.test.name)}"
    for failure in outcome.failures:
        for number, line in enumerate(printable(failure.text).splitlines() or [""]):
            yield f"        {f'{failure.place}: ' if not number else '  '}{line}"


def summary(outcomes: Sequence[KitOutcome], colour: bool) -> str:
    """Return the last line: how many tests there were and how many failed."""
    failed = sum(bool(one.failures) for one in outcomes)
    tests = f"{len(outcomes)} test{'s' * (len(outcomes) != 1)}"
    return paint(f"{tests}, {failed} failed", "light_red" if failed else "green", colour)


def junit(outcomes: Sequence[KitOutcome]) -> str:
    """Return the outcomes as a JUnit XML document: a suite per file."""
    files = list(dict.fromkeys(one.file for one in outcomes))
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites {_counts(outcomes)}>"]
    for file in files:
        suite = [one for one in outcomes if one.file == file]
        lines.append(f"  <testsuite name={_attribute(file)} {_counts(suite)}>")
        for one in suite:
            lines += _case(one)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _counts(outcomes: Sequence[KitOutcome]) -> str:
    failed = sum(bool(one.failures) for one in outcomes)
    seconds = sum(one.seconds for one in outcomes)
    return f'tests="{len(outcomes)}" failures="{failed}" errors="0" time="{seconds:.3f}"'


def _case(outcome: KitOutcome) -> List[str]:
    test = outcome.test
    head = (
        f"    <testcase classname={_attribute(outcome.file)} name={_attribute(test.name)} "
        f'file={_attribute(outcome.file)} line="{test.place.line}" time="{outcome.seconds:.3f}"'
    )
    if not outcome.failures:
        return [f"{head}/>"]
    texts = [f"{failure.place}: {failure.text}" for failure in outcome.failures]
    body = escape(printable("\n".join(texts)))
    message = _attribute(texts[0].splitlines()[0])
    return [f"{head}>", f"      <failure message={message}>{body}</failure>", "    </testcase>"]


def _attribute(text: str) -> str:
    return quoteattr(printable(text).replace("\n", " "))
