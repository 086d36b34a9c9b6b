"""Data as YAML that people read."""

from __future__ import annotations

from typing import Any, Mapping

import yaml

_Dumper: Any = getattr(yaml, "CSafeDumper", None) or yaml.SafeDumper


class TextDumper(_Dumper):  # type: ignore[misc]  # same
    """Writes dicts in their order and never anchors; other objects as their text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: the reader of a file should see a value where it is used."""
        return True


def _text_of_mapping(dumper: Any, data: Mapping[Any, Any]) -> Any:
    return dumper.represent_dict(data.items())


def _text_of_other(dumper: Any, data: Any) -> Any:
    if isinstance(data, Mapping):
        return _text_of_mapping(dumper, data)
    if isinstance(data, (list, tuple, set, frozenset)):
        return dumper.represent_list(list(data))
    return dumper.represent_str(str(data))


TextDumper.add_representer(dict, _text_of_mapping)
TextDumper.add_multi_representer(object, _text_of_other)


def dump(data: Any, *, flow: bool = False, indent: int = 2, width: int = 1 << 20) -> str:
    """Return *data* as YAML; dicts keep their order, other objects become their text."""
    return str(
        yaml.dump(
            data,
            Dumper=TextDumper,
            default_flow_style=flow,
            sort_keys=False,
            allow_unicode=True,
            indent=indent,
            width=width,
        )
    )
