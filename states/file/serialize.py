"""file.serialize: write data as YAML, JSON, INI, TOML or Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.nested import recurse
from catena.core.plugins import state
from catena.core.suggest import unknown
from catena.core.types import StateResult
from catena.modules.file import content
from catena.modules.shared.arguments import mapped, split, truth
from catena.modules.shared.serializers import DUMP, LOAD
from catena.states.answers import failed
from catena.states.file.managed import managed
from catena.states.file.options import ManagedOptions

_NULL = "<_null_>"


@dataclass(frozen=True)
class SerializeOptions:
    """Arguments of file.serialize, with Salt's names and defaults."""

    dataset: Any = None
    dataset_pillar: Optional[str] = None
    user: Any = None
    group: Any = None
    mode: Any = None
    backup: Any = ""
    makedirs: bool = False
    dir_mode: Any = None
    show_changes: bool = True
    show_diff: Optional[bool] = None
    create: bool = True
    merge_if_exists: bool = False
    encoding: Optional[str] = None
    encoding_errors: str = "strict"
    serializer: Optional[str] = None
    formatter: Optional[str] = None
    serializer_opts: Any = None
    deserializer_opts: Any = None
    check_cmd: Any = None


def _plain(value: Any) -> Any:
    """Return *value* as plain dicts, lists and scalars, which every serializer supports."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return value


def differences(old: Any, new: Any) -> Dict[str, Any]:
    """Return the nested differences between two mappings: {key: {"old": …, "new": …}}."""
    found: Dict[str, Any] = {}
    for key in sorted({*old, *new}, key=str):
        left, right = old.get(key, _NULL), new.get(key, _NULL)
        if left == right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            found[key] = differences(left, right)
        else:
            found[key] = {"old": left, "new": right}
    return found


def _dataset(context: Context, options: SerializeOptions) -> Any:
    if options.dataset is not None and options.dataset_pillar:
        raise UsageError("Only one of 'dataset' and 'dataset_pillar' is permitted")
    if options.dataset_pillar:
        found: Any = context.pillar
        for part in options.dataset_pillar.split(":"):
            if not isinstance(found, Mapping) or part not in found:
                raise UsageError(f"Pillar {options.dataset_pillar} does not exist")
            found = found[part]
        return _plain(found)
    if options.dataset is None:
        raise UsageError("Neither 'dataset' nor 'dataset_pillar' was defined")
    return _plain(options.dataset)


def _format(options: SerializeOptions) -> str:
    if options.serializer and options.formatter:
        raise UsageError("Only one of serializer and formatter are allowed")
    name = str(options.serializer or options.formatter or "yaml").lower()
    if name not in DUMP:
        raise UsageError(
            f"The {name} serializer could not be found; {unknown('serializer', name, DUMP)}"
        )
    return name


def _existing(path: Path, kind: str, options: SerializeOptions) -> Any:
    """Return the data of the existing file; None if it is empty or missing."""
    if not path.is_file():
        return None
    if kind not in LOAD:
        raise UsageError(f"merge_if_exists is not supported for the {kind} serializer")
    text = content.decode(content.read(path))
    if not text.strip():
        return None
    try:
        return LOAD[kind](text, mapped(options.deserializer_opts))
    except (ValueError, SyntaxError) as problem:
        raise CommandExecutionError(f"Failed to deserialize existing data: {problem}") from problem


def _prepared(
    context: Context, name: str, options: SerializeOptions
) -> Tuple[str, Optional[Dict[str, Any]]]:
    """Return the text to write and, after a merge with existing data, the difference."""
    kind, data = _format(options), _dataset(context, options)
    diff = None
    if truth(options.merge_if_exists):
        old = _existing(Path(name), kind, options)
        if isinstance(old, Mapping):
            data = recurse(old, data) if isinstance(data, Mapping) else data
            diff = differences(old, data)
    try:
        text = DUMP[kind](data, mapped(options.serializer_opts))
    except (TypeError, ValueError, AttributeError) as problem:
        raise UsageError(f"the data can't be written as {kind}: {problem}") from problem
    # PyYAML appends this to a single scalar; Salt's output does not have it.
    text = text[: -len("...\n")] if text.endswith("\n...\n") else text
    return (text if text.endswith("\n") and kind != "configparser" else text + "\n"), diff


@state(wants=("check_cmd",))
def serialize(context: Context, /, name: str, **options: Any) -> StateResult:
    """Write serialized data to the file *name*.

    Args:
        context: the call's context.
        name: absolute path.
        options: dataset or dataset_pillar, serializer or formatter (yaml, json, configparser,
            toml, python), serializer_opts, merge_if_exists, and user, group, mode, makedirs,
            dir_mode, backup, create, show_changes, encoding as for file.managed.
    """
    chosen, _ = split(SerializeOptions, options)
    try:
        text, diff = _prepared(context, name, chosen)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    shared, _ = split(ManagedOptions, {k: v for k, v in options.items() if v is not None})
    given = {key: getattr(shared, key) for key in options if hasattr(shared, key)}
    result = managed(context, name, **{**given, "contents": text, "contents_newline": False})
    changes = dict(result.changes)
    if diff is not None and "diff" in changes and truth(chosen.show_changes):
        changes["diff"] = diff
    comment = result.comment
    if diff is not None and comment == f"File {name} is in the correct state":
        comment = f"The file {name} is in the correct state"
    if result.result is None:
        comment = f"Dataset will be serialized and stored into {name}"
    return replace(result, changes=changes, comment=comment)
