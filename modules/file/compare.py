"""file.* functions about sources: select an existing one, compare two, render a template."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.file import content, source


@function(reads=True)
def source_list(context: Context, source: Any, source_hash: Any, saltenv: str) -> Tuple[str, Any]:
    """Return (address, hash) of the first existing source of a list.

    Raises:
        CommandExecutionError: no source exists.
    """
    if not isinstance(source, list):
        return source, source_hash
    from catena.modules.file.source import FileSource, first_of

    found = first_of(context, source, FileSource("", saltenv, str(source_hash or "")))
    return found.location, found.source_hash


def _fetched(context: Context, name: str, saltenv: str) -> Path:
    wanted = source.FileSource(name, saltenv, skip_verify=True)
    found = source.fetch(context, wanted)
    if found is None:
        raise source.missing(context, wanted)
    return found


@function(reads=True)
def get_diff(
    context: Context,
    file1: str,
    file2: str,
    saltenv: str = "base",
    show_filenames: bool = True,
    show_changes: bool = True,
) -> str:
    """Return a unified diff of two files, of this host or of the file server.

    Args:
        context: the call's context.
        file1: the old one: a path or an address.
        file2: the new one.
        saltenv: environment of salt:// addresses.
        show_filenames: put both names above the diff.
        show_changes: if False, return only a sentence that there are changes.

    Raises:
        CommandExecutionError: one of the files does not exist.
    """
    paths = [_fetched(context, name, saltenv) for name in (file1, file2)]
    old, new = (content.read(path) for path in paths)
    if old == new:
        return ""
    if not show_changes:
        return "<show_changes=False>"
    if content.is_binary(old) or content.is_binary(new):
        return content.diff(old, new)
    before, after = (content.decode(data).splitlines(keepends=True) for data in (old, new))
    names = [str(path) for path in paths] if show_filenames else ["", ""]
    return "".join(difflib.unified_diff(before, after, names[0], names[1]))


@function(reads=True)
def extract_hash(
    context: Context,
    hash_fn: str,
    hash_type: str = "sha256",
    file_name: str = "",
    source: str = "",
    source_hash_name: Optional[str] = None,
) -> Any:
    """Return {"hsum", "hash_type"} of a file in a list of hashes, or None.

    Args:
        context: the call's context.
        hash_fn: the list (sha256sum's format).
        hash_type: accepted without effect; the length of a hash determines its type.
        file_name: path of the file.
        source: its address.
        source_hash_name: its name in the list.
    """
    from catena.modules.file.source import FileSource, expected_hash

    wanted = FileSource(source or file_name, "base", str(hash_fn), source_hash_name)
    try:
        found = expected_hash(context, wanted)
    except CommandExecutionError:
        return None
    return None if found is None else {"hsum": found[1], "hash_type": found[0]}


@function(reads=True)
def apply_template_on_contents(
    context: Context,
    /,
    contents: str,
    template: str,
    context_: Optional[Mapping[str, Any]] = None,
    defaults: Optional[Mapping[str, Any]] = None,
    saltenv: str = "base",
    **kwargs: Any,
) -> str:
    """Render a text with a template engine and return it.

    Args:
        context: the call's context.
        contents: the text.
        template: jinja, mako or py.
        context_: names for the template.
        defaults: names that `context` may override.
        saltenv: environment of imports.
        kwargs: `context`, by its own name.

    Raises:
        RenderError: the template fails.
    """
    from catena.renderers.templates import render_file

    given = dict(kwargs.get("context") or context_ or {})
    names = {**dict(defaults or {}), **given, "saltenv": saltenv}
    return render_file(context, str(contents), str(template), names)


@function(reads=True)
def sed_contains(
    context: Context, path: str, text: str, limit: str = "", flags: str = "g"
) -> bool:
    """Return whether a line of a file matches the regular expression *text*.

    Args:
        context: the call's context.
        path: the file.
        text: the expression.
        limit: only search lines that match this expression.
        flags: sed's; "I" ignores case.
    """
    from catena.modules.file.edits import compiled, flags_of
    from catena.modules.file.inspect import text_of

    options = flags_of("IGNORECASE") if "I" in flags else 0
    wanted, where = compiled(str(text), options), compiled(str(limit))
    lines: List[str] = text_of(path).splitlines()
    return any(wanted.search(line) and where.search(line) for line in lines)
