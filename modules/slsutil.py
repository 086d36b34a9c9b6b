"""slsutil.*: render, merge and serialize, for templates."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.logs import logger
from catena.core.nested import STRATEGIES, append_new, recurse
from catena.core.nested import merge as joined
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.file import content, source
from catena.modules.shared.locations import split_location
from catena.modules.shared.serializers import DUMP, LOAD

_log = logger(__name__)

_TITLE = "THIS FILE IS MANAGED BY CATENA - DO NOT EDIT"
_TEXT = (
    "The contents of this file are managed by catena. Any changes to this file will be"
    " overwritten automatically and without warning."
)


@function(reads=True)
def renderer(
    context: Context,
    /,
    path: Optional[str] = None,
    string: Optional[str] = None,
    default_renderer: str = "jinja|yaml",
    **kwargs: Any,
) -> Any:
    """Render a file or a text with a pipeline of renderers; return the data, or {}.

    Args:
        context: the call's context.
        path: salt:// address, absolute path or http(s) address.
        string: a text instead of a path.
        default_renderer: renderers of a text without a #! line.
        kwargs: more names for the templates; saltenv chooses the environment.

    Raises:
        UsageError: neither or both of path and string are given.
        RenderError: it can't be rendered.
    """
    # Imported here: the renderers need third-party packages, which hosts over SSH may lack.
    from catena.renderers.pipeline import render
    from catena.renderers.source import Source

    if (path is None) == (string is None):
        raise UsageError("slsutil.renderer needs either a path or a string")
    names = {key: value for key, value in kwargs.items() if not key.startswith("__pub_")}
    saltenv = str(names.get("saltenv") or context.saltenv)
    if path is None:
        made = render(context, Source(str(string), "<string>", saltenv), default_renderer, names)
        return {} if made.data is None else made.data
    found = source.fetch(context, source.FileSource(path, saltenv, skip_verify=True))
    if found is None:
        # As in Salt, a missing file is no error, because trees rely on that.
        _log.warning("slsutil.renderer: %s was not found in saltenv %r", path, saltenv)
        return {}
    text = content.decode(content.read(found))
    inside = split_location(path, saltenv)[0] if path.startswith("salt://") else ""
    made = render(context, Source(text, path, saltenv, path=inside), default_renderer, names)
    return {} if made.data is None else made.data


@function(reads=True)
def update(
    context: Context,
    dest: Dict[str, Any],
    upd: Mapping[str, Any],
    recursive_update: bool = True,
    merge_lists: bool = False,
) -> Dict[str, Any]:
    """Merge *upd* into *dest* in place and return *dest*.

    Args:
        context: the call's context.
        dest: the mapping to change.
        upd: the values that win.
        recursive_update: merge mappings at every depth.
        merge_lists: append lists instead of replacing them.

    Raises:
        UsageError: one of them is no mapping.
    """
    if not isinstance(dest, dict) or not isinstance(upd, Mapping):
        raise UsageError("Cannot update using non-dict types in slsutil.update")
    found = recurse(dest, upd, merge_lists) if recursive_update else {**dest, **upd}
    dest.update(found)
    return dest


@function(name="merge", reads=True)
def merge(
    context: Context,
    obj_a: Any,
    obj_b: Any,
    strategy: str = "smart",
    renderer: str = "yaml",
    merge_lists: bool = False,
) -> Any:
    """Return *obj_b* merged into a copy of *obj_a*.

    Args:
        context: the call's context.
        obj_a: the base.
        obj_b: the values that win.
        strategy: smart, recurse, aggregate, overwrite, list or none.
        renderer: accepted without effect; in Salt it determines the strategy "smart".
        merge_lists: append lists instead of replacing them.
    """
    if not isinstance(obj_a, Mapping) or not isinstance(obj_b, Mapping):
        both_lists = isinstance(obj_a, list) and isinstance(obj_b, list)
        if strategy == "aggregate" and both_lists:
            return append_new(copy.deepcopy(obj_a), copy.deepcopy(obj_b))
        return copy.deepcopy(obj_b)
    if strategy == "smart" and "yamlex" in renderer:
        strategy = "aggregate"
    return copy.deepcopy(_joined(obj_a, obj_b, strategy, merge_lists))


def _joined(
    first: Mapping[str, Any], second: Mapping[str, Any], strategy: str, lists: bool
) -> Mapping[str, Any]:
    if strategy == "aggregate":
        # Salt aggregates only values marked by #!yamlex; plain mappings are replaced.
        return {**first, **second}
    if strategy == "list":
        return {key: [old, second[key]] if key in second else old for key, old in first.items()}
    if strategy not in STRATEGIES:
        _log.warning(
            "slsutil.merge: %s; recurse is used", unknown("strategy", strategy, STRATEGIES)
        )
        return recurse(first, second)
    return joined(first, second, strategy, lists and strategy != "none")


@function(reads=True)
def merge_all(
    context: Context,
    lst: List[Any],
    strategy: str = "smart",
    renderer: str = "yaml",
    merge_lists: bool = False,
) -> Any:
    """Return all mappings of a list merged, later ones over earlier ones; see slsutil.merge."""
    found: Any = {}
    for each in lst:
        found = merge(context, found, each, strategy, renderer, merge_lists)
    return found


@function(reads=True)
def serialize(context: Context, /, serializer: str, obj: Any, **mod_kwargs: Any) -> str:
    """Return *obj* as text.

    Args:
        context: the call's context.
        serializer: json, yaml, python, configparser or toml.
        obj: the data.
        mod_kwargs: options of the serializer.

    Raises:
        UsageError: no such serializer, or data that it can't write.
    """
    if serializer not in DUMP:
        raise UsageError(unknown("serializer", serializer, DUMP))
    options = _options(mod_kwargs)
    if serializer == "json":
        # The text is for programs; only file.serialize indents by default.
        options = {"indent": None, "sort_keys": False, "separators": None, **options}
    if serializer == "yaml":
        options = {"default_flow_style": None, **options}
    try:
        made = DUMP[serializer](obj, options)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"the data can't be written as {serializer}: {problem}") from problem
    return _without_end(made) if serializer == "yaml" else made


def _without_end(text: str) -> str:
    """Return a YAML text without its last line end, and without the dots after a bare scalar."""
    return text[:-5] if text.endswith("\n...\n") else text.rstrip("\n")


@function(reads=True)
def deserialize(
    context: Context, /, serializer: str, stream_or_string: Any, **mod_kwargs: Any
) -> Any:
    """Return the data of a text.

    Args:
        context: the call's context.
        serializer: json, yaml, python, configparser or toml.
        stream_or_string: the text.
        mod_kwargs: options of the deserializer.

    Raises:
        UsageError: no such serializer, or a text that it can't read.
    """
    if serializer not in LOAD:
        raise UsageError(unknown("serializer", serializer, LOAD))
    text = stream_or_string.read() if hasattr(stream_or_string, "read") else stream_or_string
    try:
        return LOAD[serializer](str(text), _options(mod_kwargs))
    except (ValueError, SyntaxError) as problem:
        raise UsageError(f"not {serializer}: {problem}") from problem


def _options(given: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in given.items() if not key.startswith("__pub_")}


@function(reads=True)
def banner(
    context: Context,
    width: int = 72,
    commentchar: str = "#",
    borderchar: str = "#",
    blockstart: Optional[str] = None,
    blockend: Optional[str] = None,
    title: Optional[str] = None,
    text: Optional[str] = None,
    newline: bool = False,
) -> str:
    """Return a framed comment that says that a file is managed.

    Args:
        context: the call's context.
        width: of the frame, in characters.
        commentchar: begins every line.
        borderchar: draws the frame.
        blockstart: line before the frame, for languages with block comments.
        blockend: line after the frame.
        title: first line inside it.
        text: the rest.
        newline: add a newline at the end.

    Raises:
        UsageError: the frame leaves no room for text.
    """
    left, right = commentchar.rstrip(), commentchar.strip()
    room = width - len(left) - len(right) - 2
    if room < 1:
        raise UsageError(f"a banner of width {width} has no room for text")
    border = commentchar + borderchar[:1] * (width - len(left) - len(right)) + right
    blank = commentchar + " " * (width - 2 * len(commentchar)) + commentchar
    heading = [line.center(room) for line in _wrapped(_TITLE if title is None else title, room)]
    rest = [line.ljust(room) for line in _wrapped(_TEXT if text is None else text, room)]
    lines = [border, blank, *(f"{left} {line} {right}" for line in heading)]
    lines += [blank, *(f"{left} {line} {right}" for line in rest), border]
    if blockstart is not None:
        lines.insert(0, blockstart)
    if blockend is not None:
        lines.append(blockend)
    return "\n".join(lines) + ("\n" if newline else "")


def _wrapped(text: str, width: int) -> List[str]:
    import textwrap

    return textwrap.wrap(text, width)


@function(reads=True)
def boolstr(context: Context, value: Any, true: Any = "true", false: Any = "false") -> Any:
    """Return *true* if *value* is neither empty nor false, else *false*.

    Both are words of the file's own language. Any non-empty text counts as true, even "False".
    """
    return true if value else false


@function(reads=True)
def file_exists(context: Context, path: str, saltenv: str = "") -> bool:
    """Return whether the file server has this file."""
    return context.files.entry(_bare(path), saltenv or context.saltenv) is not None


@function(reads=True)
def dir_exists(context: Context, path: str, saltenv: str = "") -> bool:
    """Return whether the file server has this folder."""
    return _bare(path) in context.files.folders(saltenv or context.saltenv)


@function(reads=True)
def path_exists(context: Context, path: str, saltenv: str = "") -> bool:
    """Return whether the file server has this file or folder."""
    return file_exists(context, path, saltenv) or dir_exists(context, path, saltenv)


def _bare(path: str) -> str:
    return (path[len("salt://") :] if path.startswith("salt://") else path).strip("/")


@function(reads=True)
def findup(context: Context, startpath: str, filenames: Any, saltenv: str = "") -> str:
    """Return the path of the nearest of some files in a folder of the roots or above it.

    Args:
        context: the call's context.
        startpath: folder below the roots in which the search starts.
        filenames: names; the first existing one is used.
        saltenv: environment.

    Raises:
        CommandExecutionError: none is there up to the root.
        UsageError: *startpath* is no folder of the roots.
    """
    names = [filenames] if isinstance(filenames, str) else list(filenames)
    folder = _bare(startpath)
    if folder and not path_exists(context, folder, saltenv):
        raise UsageError(f"Starting path not found: {startpath}")
    parts = folder.split("/") if folder else []
    for depth in range(len(parts), -1, -1):
        for name in names:
            candidate = "/".join([*parts[:depth], str(name)])
            if file_exists(context, candidate, saltenv):
                return candidate
    raise CommandExecutionError(f"File pattern(s) not found in path ancestry: {', '.join(names)}")
