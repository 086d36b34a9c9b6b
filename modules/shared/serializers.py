"""Serialize and parse JSON, YAML, INI, TOML and Python data in Salt's forms."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any, Callable, Dict, Mapping, Tuple

from catena.core.errors import UsageError


def _dump_json(data: Any, options: Dict[str, Any]) -> str:
    chosen = {"indent": 2, "sort_keys": True, "separators": (",", ": "), "ensure_ascii": False}
    return json.dumps(data, **{**chosen, **options})


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


#: By serializer: function (data, options) -> text.
DUMP: Dict[str, Callable[[Any, Dict[str, Any]], str]] = {
    "json": _dump_json,
    "yaml": _dump_yaml,
    "python": _dump_python,
    "configparser": _dump_ini,
    "toml": _dump_toml,
}
#: By serializer: function (text, options) -> data; raises ValueError or SyntaxError.
LOAD: Dict[str, Callable[[str, Dict[str, Any]], Any]] = {
    "json": lambda text, options: json.loads(text, **options),
    "yaml": _load_yaml,
    "python": _load_python,
    "configparser": _load_ini,
}
