"""file.serialize: data written as YAML, JSON, INI, TOML or Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.suggest import unknown
from catena.core.types import StateResult
from catena.modules.arguments import mapped, split, truth
from catena.modules.file import content
from catena.states.answers import failed
from catena.states.file.managed import ManagedOptions, managed

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
    """Return *value* built of plain dicts, lists and scalars, which every serializer knows."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return value


def _dump_json(data: Any, options: Dict[str, Any]) -> str:
    chosen = {"indent": 2, "sort_keys": True, "separators": (",", ": "), **options}
    return json.dumps(data, **chosen)


def _dump_yaml(data: Any, options: Dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(data, **{"default_flow_style": False, **options}))


def _load_yaml(text: str, options: Dict[str, Any]) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from problem


def _dump_python(data: Any, options: Dict[str, Any]) -> str:
    import pprint

    return pprint.pformat(data, **options)


def _load_python(text: str, options: Dict[str, Any]) -> Any:
    import ast

    return ast.literal_eval(text)


def _dump_ini(data: Any, options: Dict[str, Any]) -> str:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_dict(data)
    stream = StringIO()
    parser.write(stream)
    return stream.getvalue()


def _load_ini(text: str, options: Dict[str, Any]) -> Any:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as problem:
        raise ValueError(str(problem)) from problem
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _dump_toml(data: Any, options: Dict[str, Any]) -> str:
    return "\n".join(_toml_lines(data, ())) + "\n"


def _toml_lines(data: Mapping[str, Any], path: Tuple[str, ...]) -> list[str]:
    lines = [f"[{'.'.join(_toml_key(part) for part in path)}]"] if path else []
    tables = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    for key, value in data.items():
        if key not in tables:
            lines.append(f"{_toml_key(str(key))} = {_toml_value(value)}")
    for key, value in tables.items():
        lines.extend(_toml_lines(value, (*path, str(key))))
    return lines


def _toml_key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isalnum() and bare.isascii() else json.dumps(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_toml_key(str(k))} = {_toml_value(v)}" for k, v in value.items())
        return "{ " + inside + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if value is None:
        raise UsageError("TOML has no null")
    return json.dumps(value) if isinstance(value, (bool, int, float, str)) else str(value)


_DUMP: Dict[str, Callable[[Any, Dict[str, Any]], str]] = {
    "json": _dump_json,
    "yaml": _dump_yaml,
    "python": _dump_python,
    "configparser": _dump_ini,
    "toml": _dump_toml,
}
_LOAD: Dict[str, Callable[[str, Dict[str, Any]], Any]] = {
    "json": lambda text, options: json.loads(text, **options),
    "yaml": _load_yaml,
    "python": _load_python,
    "configparser": _load_ini,
}


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        joined = dict(old)
        for key, value in new.items():
            joined[key] = _merged(joined[key], value) if key in joined else value
        return joined
    return new


def differences(old: Any, new: Any) -> Dict[str, Any]:
    """Return what changed between two mappings: {key: {"old", "new"}}, nested."""
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
    if name not in _DUMP:
        raise UsageError(unknown("serializer", name, _DUMP))
    return name


def _existing(path: Path, kind: str, options: SerializeOptions) -> Any:
    """Return the data of the file that is there, or None where it is empty or missing."""
    if not path.is_file():
        return None
    if kind not in _LOAD:
        raise UsageError(f"merge_if_exists is not supported for the {kind} serializer")
    text = content.decode(content.read(path))
    if not text.strip():
        return None
    try:
        return _LOAD[kind](text, mapped(options.deserializer_opts))
    except (ValueError, SyntaxError) as problem:
        raise CommandExecutionError(f"Failed to deserialize existing data: {problem}") from problem


def _prepared(
    context: Context, name: str, options: SerializeOptions
) -> Tuple[str, Optional[Dict[str, Any]]]:
    """Return the text to write and, when merged with what is there, the difference."""
    kind, data = _format(options), _dataset(context, options)
    diff = None
    if truth(options.merge_if_exists):
        old = _existing(Path(name), kind, options)
        if isinstance(old, Mapping):
            data = _merged(old, data)
            diff = differences(old, data)
    try:
        text = _DUMP[kind](data, mapped(options.serializer_opts))
    except (TypeError, ValueError, AttributeError) as problem:
        raise UsageError(f"the data can't be written as {kind}: {problem}") from problem
    return (text if text.endswith("\n") else text + "\n"), diff


@state(wants=("check_cmd",))
def serialize(context: Context, /, name: str, **options: Any) -> StateResult:
    """Make *name* a file that holds data in a serialized form.

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
    if result.result is None:
        comment = f"Dataset will be serialized and stored into {name}"
    return replace(result, changes=changes, comment=comment)
