"""file.* functions that change the text of a file; each returns what it did."""

from __future__ import annotations

from typing import Any, Dict, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.file import blocks, content, edits, lines
from catena.modules.file.change import lines_of
from catena.modules.file.inspect import existing, expand, text_of
from catena.modules.shared.arguments import split, truth


def _words(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> str:
    given = kwargs.get("args", args)
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        given = args[0]
    return "".join(f"{line}\n" for line in lines_of(given))


@function()
def write(context: Context, /, path: str, *args: Any, **kwargs: Any) -> str:
    """Replace a file by lines; return a sentence with their number."""
    text = _words(args, kwargs)
    content.write(expand(path), content.encode(text))
    return f'Wrote {text.count(chr(10))} lines to "{path}"'


@function()
def append(context: Context, /, path: str, *args: Any, **kwargs: Any) -> str:
    """Append lines to a file; return a sentence with their number."""
    text = _words(args, kwargs)
    found = expand(path)
    old = content.decode(content.read(found)) if found.exists() else ""
    if old and not old.endswith("\n"):
        old += "\n"
    content.write(found, content.encode(old + text))
    return f'Wrote {text.count(chr(10))} lines to "{path}"'


@function()
def prepend(context: Context, /, path: str, *args: Any, **kwargs: Any) -> str:
    """Prepend lines to a file; return a sentence with their number."""
    text = _words(args, kwargs)
    found = expand(path)
    old = content.decode(content.read(found)) if found.exists() else ""
    content.write(found, content.encode(text + old))
    return f'Prepended {text.count(chr(10))} lines to "{path}"'


def editable(path: str) -> str:
    """Return the text of a file for an edit by regular expression.

    Raises:
        CommandExecutionError: the file can't be read, or is binary.
    """
    text = text_of(path)
    if content.is_binary(content.encode(text)):
        raise CommandExecutionError(f"Cannot perform string replacements on a binary file: {path}")
    return text


def rewrite(
    context: Context, path: str, new: str, backup: Any = False, dry_run: bool = False
) -> str:
    """Write the text *new* to a file, with a backup; return the diff, "" if nothing changed."""
    found = existing(path)
    old = content.decode(content.read(found))
    if old == new:
        return ""
    if not dry_run:
        content.backup(context, found, backup)
        content.write(found, content.encode(new))
    return content.diff(old, new)


@function()
def replace(
    context: Context, /, path: str, pattern: str, repl: str, **options: Any
) -> Union[str, bool]:
    """Replace the matches of a regular expression in a file; return the diff.

    Args:
        context: the call's context.
        path: the file.
        pattern: Python regular expression, applied to the whole text.
        repl: the replacement, with references to groups.
        options: count, flags (8: MULTILINE), append_if_not_found, prepend_if_not_found,
            not_found_content, backslash_literal, backup (".bak"), dry_run, search_only,
            show_changes, ignore_if_missing.

    Returns:
        The diff. With show_changes False: whether anything changed. With search_only: whether the
        pattern was found.
    """
    if truth(options.get("ignore_if_missing")) and not expand(path).exists():
        return False
    flags = edits.flags_of(options.pop("flags", edits.DEFAULT_FLAGS))
    text = editable(path)
    if truth(options.get("search_only")):
        return edits.compiled(str(pattern), flags).search(text) is not None
    given = {**options, "pattern": str(pattern), "repl": str(repl), "flags": flags}
    wanted, rest = split(edits.Replacement, given)
    new = edits.replaced(text, wanted)
    dry = context.test or truth(rest.get("dry_run"))
    change = rewrite(context, path, new, rest.get("backup", ".bak"), dry)
    return change if truth(rest.get("show_changes", True)) else bool(change)


@function()
def blockreplace(
    context: Context,
    /,
    path: str,
    marker_start: str = blocks.Block.marker_start,
    marker_end: str = blocks.Block.marker_end,
    content: str = "",
    **options: Any,
) -> Union[str, bool]:
    """Replace the text between two marker lines of a file; return the diff.

    Args:
        context: the call's context.
        path: the file.
        marker_start: text in the line before the block.
        marker_end: text in the line after the block.
        content: text between the two lines.
        options: append_if_not_found, prepend_if_not_found, insert_before_match,
            insert_after_match, append_newline, backup (".bak"), dry_run, show_changes.
    """
    given = {"marker_start": marker_start, "marker_end": marker_end, "content": str(content)}
    block, rest = split(blocks.Block, {"append_newline": False, **options, **given})
    new = blocks.with_block(text_of(path), block)
    dry = context.test or truth(rest.get("dry_run"))
    change = rewrite(context, path, new, rest.get("backup", ".bak"), dry)
    return change if truth(rest.get("show_changes", True)) else bool(change)


@function()
def line(context: Context, /, path: str, **options: Any) -> Union[str, bool]:
    """Ensure, replace, delete or insert one line of a file; return the diff.

    Args:
        context: the call's context.
        path: the file.
        options: content, match, mode (ensure, replace, delete, insert), location (start, end),
            before, after, indent, backup, show_changes, quiet.
    """
    edit, rest = split(lines.LineEdit, options)
    found = expand(path)
    if not found.is_file():
        if truth(rest.get("quiet")):
            return False
        raise CommandExecutionError(f'File "{path}" does not exists or is not a file.')
    new = lines.edited(text_of(path), edit)
    change = rewrite(context, path, new, rest.get("backup"), context.test)
    return change if change and truth(rest.get("show_changes", True)) else bool(change)


@function()
def comment_line(
    context: Context,
    path: str,
    regex: str,
    char: str = "#",
    cmnt: bool = True,
    backup: Any = ".bak",
) -> Union[str, bool]:
    """Add *char* to the lines that *regex* matches, or remove it.

    Returns:
        A diff of only these lines, as in Salt; False if there are none.
    """
    text = text_of(path)
    new = (edits.commented if truth(cmnt) else edits.uncommented)(text, regex, char)
    if not rewrite(context, path, new, backup, context.test):
        return False
    pairs = zip(text.splitlines(True), new.splitlines(True))
    old_lines, new_lines = zip(*(pair for pair in pairs if pair[0] != pair[1]))
    return content.diff("".join(old_lines), "".join(new_lines))


@function()
def comment(
    context: Context, path: str, regex: str, char: str = "#", backup: Any = ".bak"
) -> Union[str, bool]:
    """Comment out the lines that *regex* matches, with *char*; return the diff, or False."""
    return comment_line(context, path, regex, char, True, backup)


@function()
def uncomment(
    context: Context, path: str, regex: str, char: str = "#", backup: Any = ".bak"
) -> Union[str, bool]:
    """Remove *char* from commented lines that *regex* matches; return the diff, or False."""
    return comment_line(context, path, regex, char, False, backup)


@function()
def sed(
    context: Context, /, path: str, before: str, after: str, limit: str = "", **options: Any
) -> Union[str, bool]:
    """Replace a regular expression in lines that *limit* matches; return the diff, or False."""
    expression = edits.compiled(str(before))
    within = edits.compiled(str(limit)) if limit else None
    count = 0 if "g" in str(options.get("flags", "g")) else 1
    done = [
        expression.sub(str(after), text, count=count)
        if within is None or within.search(text)
        else text
        for text in text_of(path).splitlines(True)
    ]
    backup = options.get("backup", ".bak")
    return rewrite(context, path, "".join(done), backup, context.test) or False
