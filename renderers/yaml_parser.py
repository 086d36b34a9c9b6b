"""Any YAML, by PyYAML's C parser; what it says of a fault names the line that a person wrote.

What most files are made of does not come here: `yaml_lines` reads it, and tests compare the two.
"""

from __future__ import annotations

from typing import Any, Type

import yaml

from catena.renderers.source import LineMap, Rendered, SourceLimitError
from catena.renderers.yaml_builder import Builder
from catena.renderers.yaml_faults import YamlErrors
from catena.renderers.yaml_lines import YamlLines

MAX_CHARACTERS = 64 * 1024 * 1024
_Base: Any = getattr(yaml, "CSafeLoader", None) or yaml.SafeLoader


class _Loader(_Base):  # type: ignore[misc]  # one of two classes, chosen by what PyYAML was built with
    """PyYAML's parser and scalar rules; the data is built by `Builder`."""


def parse(
    text: str,
    name: str,
    original: str,
    line_map: LineMap,
    keep_lines: bool = True,
    builder: Type[Builder] = Builder,
) -> Rendered:
    """Return the data of *text*, a rendered form of *original*, with lines of *original*.

    Raises:
        YamlFaultError: not YAML, or a key twice; the message names *name* and the line.
        LimitError: more than 1 M nodes, or nested deeper than 200; with the line.
    """
    report = YamlErrors(text, name, original, line_map)
    if len(text) > MAX_CHARACTERS:
        report.fail(f"longer than {MAX_CHARACTERS} characters when rendered", 0, SourceLimitError)
    try:
        loader = _Loader(text)
        try:
            data, notes = builder(loader, report).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        report.marked(error)
    except yaml.YAMLError as error:
        report.other(error)
    return Rendered(data, YamlLines(notes, line_map.lines) if keep_lines else {}, name)
