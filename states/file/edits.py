"""file.replace, line, blockreplace, comment and uncomment: edit parts of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, Mapping

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, RenderError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import blocks, edits, lines
from catena.modules.file.inspect import text_of
from catena.modules.file.text import editable, rewrite
from catena.modules.shared.arguments import split, truth
from catena.states.answers import done, failed, would
from catena.states.file.kept import accumulated, keep
from catena.states.file.managed import managed
from catena.states.file.texts import source_texts


def _ready(context: Context, name: str) -> str:
    """Return why *name* can't be edited, or ""."""
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        return f"Specified file {name} is not an absolute path"
    if not path.exists():
        return f"{name}: file not found"
    keep(context, path)
    return ""


def _edited(
    context: Context, name: str, rest: Mapping[str, Any], new: str, would_text: str
) -> StateResult:
    """Write the text *new* to the file; report the change as the arguments *rest* demand."""
    change = rewrite(context, name, new, rest.get("backup", ".bak"), context.test)
    if not change:
        return done("No changes needed to be made")
    changes: Dict[str, Any] = {"diff": change if truth(rest.get("show_changes", True)) else True}
    return would(would_text, changes) if context.test else done("Changes were made", changes)


@state(name="replace")
def replace_(
    context: Context, /, name: str, pattern: str, repl: str, **options: Any
) -> StateResult:
    """Replace the matches of a regular expression in a file.

    Args:
        context: the call's context.
        name: the file, which must exist.
        pattern: Python regular expression, applied to the whole text.
        repl: the replacement, with references to groups.
        options: count, flags, append_if_not_found, prepend_if_not_found, not_found_content,
            backup (".bak"), show_changes, ignore_if_missing, backslash_literal.
    """
    refused = _ready(context, name)
    if refused:
        if truth(options.get("ignore_if_missing")) and refused.endswith("not found"):
            return done("No changes needed to be made")
        return failed(refused)
    try:
        flags = edits.flags_of(options.pop("flags", edits.DEFAULT_FLAGS))
        given = {**options, "pattern": str(pattern), "repl": str(repl), "flags": flags}
        wanted, rest = split(edits.Replacement, given)
        new = edits.replaced(editable(name), wanted)
        return _edited(context, name, rest, new, "Changes would have been made")
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))


@state()
def line(context: Context, /, name: str, **options: Any) -> StateResult:
    """Ensure, replace, delete or insert one line of a file.

    Args:
        context: the call's context.
        name: the file, which must exist unless `create` is set.
        options: content, match, mode (ensure, replace, delete, insert), location, before, after,
            indent, backup (true: a copy named after the time), show_changes, create, user,
            group, file_mode.
    """
    edit, rest = split(lines.LineEdit, options)
    if truth(rest.get("create")) and not Path(name).exists():
        made = managed(
            context, name, user=rest.get("user"), group=rest.get("group"),
            mode=rest.get("file_mode"), contents="",
        )  # fmt: skip
        if made.result is not True:
            return made
    refused = _ready(context, name)
    if refused:
        return failed(refused)
    backup = time.strftime(".%Y-%m-%d-%H-%M-%S") if rest.get("backup") else False
    try:
        new = lines.edited(text_of(name), edit)
        return _edited(context, name, {**rest, "backup": backup}, new, "Changes would be made")
    except CommandExecutionError as problem:
        return failed(str(problem))


def _block_content(context: Context, name: str, options: Mapping[str, Any]) -> str:
    """Return the block's content: text, sources, and texts of file.accumulated."""
    given = options.get("content")
    text = "" if given is None else str(given)
    text += "".join(source_texts(context, name, options))
    for texts in accumulated(context, name).values():
        for part in texts:
            text += ("" if not text or text.endswith("\n") else "\n") + str(part)
    return text


@state()
def blockreplace(context: Context, /, name: str, **options: Any) -> StateResult:
    """Replace the text between two marker lines of a file.

    Args:
        context: the call's context.
        name: the file, which must exist.
        options: marker_start, marker_end, content, source or sources with template (jinja),
            context and defaults, append_if_not_found, prepend_if_not_found, insert_before_match,
            insert_after_match, append_newline, backup (".bak"), show_changes.
    """
    refused = _ready(context, name)
    if refused:
        return failed(refused)
    try:
        body = _block_content(context, name, options)
    except (CommandExecutionError, RenderError, UsageError) as problem:
        return failed(str(problem))
    block, rest = split(blocks.Block, {**options, "content": body})
    try:
        new = blocks.with_block(text_of(name), block)
        return _edited(context, name, rest, new, "Changes would be made")
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Encountered error managing block: {problem}. See the log for details.")


def _toggled(
    context: Context, name: str, what: str, backup: Any, edit: Callable[[str], str]
) -> StateResult:
    if context.test:
        return would(f"File {name} is set to be updated", {name: "updated"})
    change = rewrite(context, name, edit(text_of(name)), backup)
    if not change:
        return failed(f"Expected {what}ed lines not found")
    return done(f"{what.capitalize()}ed lines successfully", {"diff": change})


@state()
def comment(
    context: Context,
    /,
    name: str,
    regex: str,
    char: str = "#",
    backup: Any = ".bak",
    ignore_missing: bool = False,
) -> StateResult:
    """Comment out the lines that *regex* matches, with *char*."""
    refused = _ready(context, name)
    if refused:
        return failed(refused)
    regex = str(regex)
    try:
        text = text_of(name)
        if edits.has_active(text, regex, char):
            return _toggled(
                context, name, "comment", backup, lambda old: edits.commented(old, regex, char)
            )
        if edits.has_commented(text, regex, char):
            return done("Pattern already commented")
    except CommandExecutionError as problem:
        return failed(str(problem))
    if ignore_missing:
        return done("Pattern not found and ignore_missing set to True")
    return failed(f"{regex.lstrip('^').rstrip('$')}: Pattern not found")


@state()
def uncomment(
    context: Context, /, name: str, regex: str, char: str = "#", backup: Any = ".bak"
) -> StateResult:
    """Remove *char* from commented lines that *regex* matches."""
    refused = _ready(context, name)
    if refused:
        return failed(refused)
    regex = str(regex)
    try:
        text = text_of(name)
        if edits.has_commented(text, regex, char, spaced=True):
            return _toggled(
                context, name, "uncomment", backup, lambda old: edits.uncommented(old, regex, char)
            )
        if edits.has_line(text, regex):
            return done("Pattern already uncommented")
    except CommandExecutionError as problem:
        return failed(str(problem))
    return failed(f"{regex}: Pattern not found")
