"""YAML as Salt reads it: version 1.1, duplicate keys refused, limits kept.

Deviations of Salt from YAML 1.1 that trees rely on (recorded cases `renderers/*`): a leading zero
does not make an octal number (0644 is 644, 010 is 10), and dates stay strings. Every mapping key
and list item keeps its line, so that a later error can name it.
"""

from __future__ import annotations

from typing import Any

from catena.renderers import yaml_lines
from catena.renderers.source import LineMap, Rendered


def load(text: str, name: str = "<text>") -> Any:
    """Return the data of the only document of *text*; None when it is empty.

    Raises:
        YamlFaultError: not YAML, or a key twice; the message names *name* and the line.
        LimitError: more than 1 M nodes, or nested deeper than 200; with the line.
    """
    return load_rendered(text, name, text, LineMap(), keep_lines=False).data


def load_rendered(
    text: str, name: str, original: str, line_map: LineMap, keep_lines: bool = True
) -> Rendered:
    """Return the data of *text*, a rendered form of *original*, with lines of *original*."""
    found = yaml_lines.read(text)
    if found is not None:
        data, notes = found
        return Rendered(data, yaml_lines.YamlLines(notes, line_map.lines), name)
    # Imported here: PyYAML takes as long as all else that a small file needs.
    from catena.renderers import yaml_parser

    return yaml_parser.parse(text, name, original, line_map, keep_lines)


def dump(data: Any, *, flow: bool = False, indent: int = 2, width: int = 1 << 20) -> str:
    """Return *data* as YAML; dicts keep their order, other objects become their text."""
    from catena.renderers import yaml_writer

    return yaml_writer.dump(data, flow=flow, indent=indent, width=width)
