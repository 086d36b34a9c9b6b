"""file.append and file.prepend add missing lines; file.accumulated collects texts."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Callable, Dict, List

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, RenderError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import content, edits
from catena.modules.file.change import make_folders
from catena.modules.shared.arguments import truth
from catena.modules.shared.attributes import Wanted
from catena.states.answers import done, failed, would
from catena.states.file.kept import accumulate, keep
from catena.states.file.managed import HIDDEN
from catena.states.file.paths import absolute
from catena.states.file.texts import source_texts


def _chunks(context: Context, name: str, options: Dict[str, Any]) -> List[str]:
    """Return the texts to add, from the sources or from `text`."""
    found = [text.rstrip("\n") for text in source_texts(context, name, options)]
    if found or options.get("source") or options.get("sources"):
        return found
    text = options.get("text")
    if text is None:
        return []
    return [str(part) for part in (text if isinstance(text, (list, tuple)) else [text])]


def _lines(chunk: str) -> List[str]:
    return chunk[:-1].split("\n") if chunk.endswith("\n") else chunk.split("\n")


def _lacking(text: str, chunks: List[str], options: Dict[str, Any]) -> List[str]:
    """Return the lines of each chunk that are missing in the text."""
    spaces = truth(options.get("ignore_whitespace", True))
    found: List[str] = []
    for chunk in chunks:
        if not edits.holds(text, chunk.rstrip("\n"), spaces):
            found.extend(_lines(chunk))
    return found


def _prepare(context: Context, path: Path, options: Dict[str, Any]) -> str:
    """Create the folder of the file if `makedirs` is set; return an error, or ""."""
    if path.parent.is_dir() or context.test:
        return ""
    if not truth(options.get("makedirs")):
        return f"{path}: file not found"
    make_folders(path.parent, Wanted())
    return ""


def _joined(old: str, added: List[str]) -> str:
    if old and not old.endswith("\n"):
        old += "\n"
    return old + "".join(f"{line}\n" for line in added)


@dataclass(frozen=True)
class _Addition:
    """The missing lines of a file, and its text after adding them."""

    lines: List[str]
    text: str
    diff: str


#: Plans an addition: (old text, texts to add) -> addition.
_Plan = Callable[[str, List[str]], _Addition]


def _added(
    context: Context, name: str, options: Dict[str, Any], verb: str, plan: _Plan
) -> StateResult:
    """Add the lines that *plan* finds missing; in test mode only report them."""
    try:
        path = absolute(name)
        chunks = _chunks(context, name, options)
        refused = _prepare(context, path, options)
        if refused:
            return failed(refused)
        keep(context, path)
        there = path.exists()
        if context.test and not there:
            return would(f"File {name} is set to be created", {"new": name})
        addition = plan(content.decode(content.read(path)) if there else "", chunks)
        shown = truth(options.get("show_changes", True))
        changes = {"diff": addition.diff if shown else HIDDEN}
        if context.test and addition.lines:
            return would(f"File {name} is set to be updated", changes)
        if addition.lines or not there:
            content.write(path, content.encode(addition.text))
    except (CommandExecutionError, RenderError, UsageError) as problem:
        return failed(str(problem))
    if not addition.lines:
        return done(f"File {name} is in correct state")
    return done(f"{verb} {len(addition.lines)} lines", changes)


@state()
def append(context: Context, /, name: str, **options: Any) -> StateResult:
    """Append texts to a file unless it contains their lines.

    Args:
        context: the call's context.
        name: the file; created if it is missing.
        options: text (one or a list), or source or sources with template ("jinja"), context and
            defaults; makedirs, show_changes, ignore_whitespace (True: lines that differ only in
            whitespace are equal).
    """

    def plan(old: str, chunks: List[str]) -> _Addition:
        added = _lacking(old, chunks, options)
        before = old.splitlines()
        # As in Salt, the diff compares lines without their line ends.
        diff = "\n".join(difflib.unified_diff(before, [*before, *added]))
        return _Addition(added, _joined(old, added) if added else old, diff)

    return _added(context, name, options, "Appended", plan)


@state()
def prepend(context: Context, /, name: str, **options: Any) -> StateResult:
    """Prepend texts to a file unless it contains their lines.

    Args:
        context: the call's context.
        name: the file; created if it is missing.
        options: as for file.append, and header (True: the texts must be the first lines).
    """

    def plan(old: str, chunks: List[str]) -> _Addition:
        added = _lacking(old, chunks, options)
        if truth(options.get("header")):
            head = [line for chunk in chunks for line in _lines(chunk)]
            added = [] if old.splitlines()[: len(head)] == head else head
        new = "".join(f"{line}\n" for line in added) + old
        return _Addition(added, new, content.diff(old, new))

    return _added(context, name, options, "Prepended", plan)


@state(name="accumulated", wants=("require_in", "watch_in"))
def accumulated_(
    context: Context, /, name: str, filename: str, text: Any, **options: Any
) -> StateResult:
    """Collect texts for the template of *filename*, which reads them as accumulator[*name*].

    Args:
        context: the call's context.
        name: of the accumulator.
        filename: the file.
        text: one text, or several.
        options: require_in or watch_in, which must name a state of `file`; otherwise the texts
            might be collected after their use.
    """
    users = [*(options.get("require_in") or ()), *(options.get("watch_in") or ())]
    if not any(isinstance(user, dict) and "file" in user for user in users):
        return failed(f"Orphaned accumulator {name}: it has no require_in or watch_in of a file")
    texts = list(text) if isinstance(text, (list, tuple)) else [text]
    if accumulate(context, filename, name, texts):
        return done(f"Accumulator {name} for file {filename} was charged by text")
    return done(f"Accumulator {name} for file {filename} already has the text")
