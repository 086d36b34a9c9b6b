"""Broken state trees, run through catena's own command: the error message of each.

A file of tests/cases/broken/ maps the name of a case to what it is:

    files:   path -> text, below `states/`, `pillar/` or `conf/`; bytes as `!!binary`; parts in a
             list are joined, and `{repeat: TEXT, times: N}` is one of them
    call:    words behind `catena call --local …` ("state.apply broken" when absent), or
    command: words behind `catena`
    exit:    exit status (1)
    row:     id of the state whose comment is judged; absent: the error of the whole call
    at:      file:line, as the person knows the file
    shows:   what stands on the marked line of the excerpt
    through: how the place was reached, nearest first
    near:    the right name that is offered
    says:    phrases, all of them
    ran:     ids of states that ran and are well
    warns:   id of a state -> phrases of the warnings beside its result
    limits:  dotted name of a constant -> its value for this case

Custom files are synced before the call. No case may show a traceback, whatever it is about.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.renderers.yaml import load
from tests.support.salt_cases import forked

FOLDER = Path(__file__).parents[1] / "cases" / "broken"
_KEYS = {"files", "call", "command", "exit", "row", "at", "shows", "through", "near", "says"}
_KEYS |= {"ran", "warns", "limits"}
_CALL = (
    *("call", "--local", "--config-dir", "conf", "--out", "json"),
    *("--file-root", "states", "--pillar-root", "pillar"),
)
_TRACEBACK = re.compile(r'Traceback \(most recent|^\s*File "[^"]+", line \d+', re.MULTILINE)
#: One line of a message is no longer than a person reads.
_LONGEST_LINE = 500


@dataclass(frozen=True)
class BrokenCase:
    """One broken tree and what has to be said about it."""

    name: str
    files: Mapping[str, Any]
    command: tuple[str, ...]
    expected: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """What a person saw."""

    code: int
    out: str
    err: str

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the rows of a state run by their ids; empty when nothing ran."""
        value = self._value()
        if not isinstance(value, dict) or not all(isinstance(r, dict) for r in value.values()):
            return {}
        return {
            str(row.get("__id__") or key.split("_|-")[1]): row
            for key, row in value.items()
            if "__run_num__" in row
        }

    def error(self) -> str:
        """Return the error of the whole call."""
        value = self._value()
        if isinstance(value, dict) and "_errors" in value:
            value = value["_errors"]
        if isinstance(value, list):
            return "\n".join(map(str, value))
        if value is None:
            return self.out + self.err
        return value if isinstance(value, str) else self.err

    def _value(self) -> Any:
        try:
            return json.loads(self.out)["local"]
        except (ValueError, TypeError, KeyError):
            return None


def cases() -> dict[str, BrokenCase]:
    """Return all cases by name."""
    found: dict[str, BrokenCase] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for name, spec in load(path.read_text(), path.name).items():
            unknown = spec.keys() - _KEYS
            if unknown:
                raise ValueError(f"{path.name}, {name}: unknown {unknown}")
            full = f"{path.stem}: {name}"
            found[full] = BrokenCase(full, spec.get("files", {}), _words(spec), spec)
    return found


def _words(spec: Mapping[str, Any]) -> tuple[str, ...]:
    if "command" in spec:
        return tuple(shlex.split(spec["command"]))
    return (*_CALL, *shlex.split(spec.get("call", "state.apply broken")))


def tell(case: BrokenCase) -> Told:
    """Run *case* in a folder of its own; return what a person sees of it."""
    work = Path(tempfile.mkdtemp(prefix="broken-")).resolve()
    try:
        for name in ("conf", "states", "pillar"):
            (work / name).mkdir()
        root = f"id: web1\nroot_dir: {work}/root\nfile_client: local\n"
        (work / "conf" / "minion").write_text(root)
        for name, content in case.files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = _bytes(content).replace(b"@WORK@", str(work).encode())
            with path.open("ab" if name == "conf/minion" else "wb") as file:
                file.write(data)
        env = {"HOME": str(work), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        words = [word.replace("@WORK@", str(work)) for word in case.command]
        if any(name.startswith("states/_") for name in case.files):
            forked([*_CALL, "saltutil.sync_all"], env, work)
        code, out, err = forked(words, env, work, case.expected.get("limits", {}))
        return Told(code, out.replace(str(work), "@WORK@"), err.replace(str(work), "@WORK@"))
    finally:
        shutil.rmtree(work)


def _bytes(content: Any) -> bytes:
    if isinstance(content, bytes):
        return content
    if isinstance(content, list):
        return b"".join(map(_bytes, content))
    if isinstance(content, dict):
        return _bytes(content["repeat"]) * int(content["times"])
    return str(content).encode()


def faults(case: BrokenCase, told: Told) -> Iterator[str]:
    """Yield what is wrong with what a person was told."""
    wanted = case.expected
    if told.code != wanted.get("exit", 1):
        yield f"exit status {told.code}"
    shown = told.out.replace("\\n", "\n").replace('\\"', '"') + told.err
    if _TRACEBACK.search(shown):
        yield "a traceback"
    text = told.error()
    if "row" in wanted:
        row = told.rows().get(wanted["row"], {})
        text = str(row.get("comment", ""))
        if row.get("result") is not False:
            yield f"row {wanted['row']}: {row}"
    yield from _phrase_faults(wanted, text)
    for name, phrases in wanted.get("warns", {}).items():
        warned = "\n".join(told.rows().get(name, {}).get("warnings", []))
        yield from (f"does not warn: {each}" for each in phrases if each not in warned)
    for name in wanted.get("ran", []):
        if told.rows().get(name, {}).get("result") is not True:
            yield f"{name} did not run well: {told.rows().get(name)}"


def _phrase_faults(wanted: Mapping[str, Any], text: str) -> Iterator[str]:
    phrases = list(wanted.get("says", []))
    phrases += [f"reached from {step}" for step in wanted.get("through", [])]
    if "near" in wanted:
        phrases.append(f"did you mean '{wanted['near']}'?")
    for phrase in phrases:
        if phrase.lower() not in text.lower():
            yield f"does not say: {phrase}"
    if "at" in wanted and not re.search(re.escape(wanted["at"]) + r"(?!\d)", text):
        yield f"does not name {wanted['at']}"
    marked = [line for line in text.splitlines() if re.match(r"> +\d+ \|", line)]
    if "shows" in wanted and not any(wanted["shows"] in line for line in marked):
        yield f"does not show: {wanted['shows']}"
    if not (text.strip() or "warns" in wanted):
        yield "says nothing"
    if any(len(line) > _LONGEST_LINE for line in text.splitlines()):
        yield "a line too long to read"
