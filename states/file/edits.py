"""file.replace, line, blockreplace, comment, uncomment, keyvalue: parts of an existing file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.arguments import listed, mapped, split, truth
from catena.modules.file import content, edits, lines, source
from catena.modules.file.inspect import text_of
from catena.modules.file.text import rewrite
from catena.states.answers import done, failed, would
from catena.states.file.kept import accumulated, keep
from catena.states.file.managed import ManagedOptions, managed


def _ready(context: Context, name: str) -> str:
    """Return why *name* can't be edited, or ""."""
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        return f"Specified file {name} is not an absolute path"
    if not path.exists():
        return f"{name}: file not found"
    keep(context, path)
    return ""


def _outcome(context: Context, change: str, shown: bool, would_text: str) -> StateResult:
    if not change:
        return done("No changes needed to be made")
    changes: Dict[str, Any] = {"diff": change if shown else "<show_changes=False>"}
    if context.test:
        return would(would_text, changes)
    return done("Changes were made", changes)


@state(name="replace")
def replace_(
    context: Context, /, name: str, pattern: str, repl: str, **options: Any
) -> StateResult:
    """Replace what a regular expression finds in a file.

    Args:
        context: the call's context.
        name: the file, which must be there.
        pattern: Python regular expression, over the whole text.
        repl: what to put there, with references to groups.
        options: count, flags, append_if_not_found, prepend_if_not_found, not_found_content,
            backup (".bak"), show_changes, ignore_if_missing, backslash_literal.
    """
    refused = _ready(context, name)
    if refused:
        if truth(options.get("ignore_if_missing")) and refused.endswith("not found"):
            return done("No changes needed to be made")
        return failed(refused)
    flags = edits.flags_of(options.pop("flags", edits.DEFAULT_FLAGS))
    given = {**options, "pattern": str(pattern), "repl": str(repl), "flags": flags}
    wanted, rest = split(edits.Replacement, given)
    try:
        new = edits.replaced(text_of(name), wanted)
        change = rewrite(context, name, new, rest.get("backup", ".bak"), context.test)
    except CommandExecutionError as problem:
        return failed(str(problem))
    shown = truth(rest.get("show_changes", True))
    return _outcome(context, change, shown, "Changes would have been made")


@state()
def line(context: Context, /, name: str, **options: Any) -> StateResult:
    """Ensure, replace, delete or insert one line of a file.

    Args:
        context: the call's context.
        name: the file, which must be there unless `create`.
        options: content, match, mode (ensure, replace, delete, insert), location, before, after,
            indent, backup, show_changes, quiet, create, user, group, file_mode.
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
        if truth(rest.get("quiet")) and refused.endswith("not found"):
            return done("")
        return failed(refused)
    try:
        new = lines.edited(text_of(name), edit)
        change = rewrite(context, name, new, rest.get("backup"), context.test)
    except CommandExecutionError as problem:
        return failed(str(problem))
    shown = truth(rest.get("show_changes", True))
    return _outcome(context, change, shown, "Changes would be made")


def _block_content(context: Context, name: str, rest: Dict[str, Any], given: Any) -> str:
    """Return the block's content: text, a source, and what file.accumulated gathered."""
    text = "" if given is None else str(given)
    template = rest.get("template")
    location = rest.get("source")
    if location:
        env = context.saltenv
        found = source.fetch(
            context, source.Source(str(location), env, str(rest.get("source_hash") or ""))
        )
        if found is None:
            raise CommandExecutionError(f"Source file {location} not found in saltenv '{env}'")
        text = content.decode(content.read(found))
        template = template or "jinja"
    if template:
        from catena.renderers.templates import render_file

        variables = {
            "source": location or name,
            "name": name,
            "saltenv": context.saltenv,
            **mapped(rest.get("defaults")),
            **mapped(rest.get("context")),
        }
        text = str(render_file(context, text, str(template), variables))
    for texts in accumulated(context, name).values():
        for part in texts:
            text += ("" if not text or text.endswith("\n") else "\n") + str(part)
    return text


@state()
def blockreplace(context: Context, /, name: str, **options: Any) -> StateResult:
    """Replace what stands between two marker lines of a file.

    Args:
        context: the call's context.
        name: the file, which must be there.
        options: marker_start, marker_end, content, source, template, context, defaults,
            append_if_not_found, prepend_if_not_found, insert_before_match, insert_after_match,
            append_newline, backup (".bak"), show_changes.
    """
    refused = _ready(context, name)
    if refused:
        return failed(refused)
    block, rest = split(edits.Block, options)
    try:
        body = _block_content(context, name, rest, options.get("content"))
        block, _ = split(edits.Block, {**options, "content": body})
        new = edits.with_block(text_of(name), block)
        change = rewrite(context, name, new, rest.get("backup", ".bak"), context.test)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Encountered error managing block: {problem}. See the log for details.")
    shown = truth(rest.get("show_changes", True))
    return _outcome(context, change, shown, "Changes would be made")


def _found(text: str, pattern: str) -> bool:
    return edits.compiled(pattern, edits.DEFAULT_FLAGS).search(text) is not None


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
    """Put *char* before the lines that *regex* matches."""
    import re

    refused = _ready(context, name)
    if refused:
        return failed(refused)
    bare = regex.lstrip("^").rstrip("$")
    try:
        text = text_of(name)
        if not _found(text, regex):
            if _found(text, rf"{re.escape(char)}\s*({bare})"):
                return done("Pattern already commented")
            if ignore_missing:
                return done("Pattern not found and ignore_missing set to True")
            return failed(f"{bare}: Pattern not found")
        if context.test:
            return would(f"File {name} is set to be updated", {name: "updated"})
        new = edits.commented(text, regex, char)
        change = rewrite(context, name, new, backup)
    except CommandExecutionError as problem:
        return failed(str(problem))
    if not change:
        return failed("Expected commented lines not found")
    return done("Commented lines successfully", {"diff": change})


@state()
def uncomment(
    context: Context, /, name: str, regex: str, char: str = "#", backup: Any = ".bak"
) -> StateResult:
    """Take *char* away from the lines that *regex* matches after it."""
    import re

    refused = _ready(context, name)
    if refused:
        return failed(refused)
    bare = regex.lstrip("^")
    try:
        text = text_of(name)
        if not _found(text, rf"^[ \t]*{re.escape(char)}[ \t]*({bare})"):
            if _found(text, rf"^[ \t]*({bare})"):
                return done("Pattern already uncommented")
            return failed(f"{bare}: Pattern not found")
        if context.test:
            return would(f"File {name} is set to be updated", {name: "updated"})
        change = rewrite(context, name, edits.uncommented(text, regex, char), backup)
    except CommandExecutionError as problem:
        return failed(str(problem))
    if not change:
        return failed("Expected uncommented lines not found")
    return done("Uncommented lines successfully", {"diff": change})


def _pairs(options: Dict[str, Any]) -> Tuple[Tuple[str, Any], ...]:
    found = mapped(options.pop("key_values", None))
    key, value = options.pop("key", None), options.pop("value", None)
    if key is not None and value is not None:
        found[str(key)] = value
    if not found:
        raise UsageError("file.keyvalue key and value not supplied and key_values is not supplied")
    return tuple(found.items())


@state()
def keyvalue(context: Context, /, name: str, **options: Any) -> StateResult:
    """Set keys in a file of `key<separator>value` lines.

    Args:
        context: the call's context.
        name: the file.
        options: key and value, or key_values; separator ("="), append_if_not_found, search_only,
            uncomment (a character), key_ignore_case, value_ignore_case, ignore_if_missing,
            create_if_missing, show_changes.
    """
    try:
        wanted, rest = split(edits.KeyValues, {**options, "pairs": _pairs(options)})
        refused = _ready(context, name)
        old = "" if refused else text_of(name)
        if refused and truth(rest.get("ignore_if_missing")):
            return done("file not found and ignore_if_missing set to True")
        if refused and not truth(rest.get("create_if_missing")):
            return failed(f"unable to open {name}: {refused}")
        new, missing = edits.with_values(old, wanted)
        if missing and not wanted.append_if_not_found:
            return failed(f"Key {', '.join(missing)} was not found in {name}")
        if new == old:
            return done("No changes needed to be made")
        changes = {"diff": content.diff(old, new)}
        if not truth(rest.get("show_changes", True)):
            changes = {"diff": "<show_changes=False>"}
        changed = sum(1 for left, right in _zip(old, new) if left != right)
        if context.test:
            return would(f"File {name} is set to be changed ({changed} lines)", changes)
        content.write(Path(name), content.encode(new))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"Changed {changed} lines", changes)


def _zip(old: str, new: str) -> list[Tuple[Optional[str], Optional[str]]]:
    from itertools import zip_longest

    return list(zip_longest(old.splitlines(), new.splitlines()))


def append_source_options(location: Any, rest: Dict[str, Any]) -> ManagedOptions:
    """Return the options by which file.append reads a template from the file server."""
    return ManagedOptions(
        source=location,
        source_hash=str(rest.get("source_hash") or ""),
        template=rest.get("template", "jinja"),
        context=rest.get("context"),
        defaults=rest.get("defaults"),
    )


def texts_of(value: Any) -> list[str]:
    """Return the texts to add: one, or several."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [str(part) for part in value]
    return [str(part) for part in listed([value])]
