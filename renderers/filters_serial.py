"""Salt's filters that write data as text (YAML, JSON, XML, Python) and read it back."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple

from jinja2.exceptions import TemplateRuntimeError

from catena.renderers import yaml
from catena.renderers.jinja_tags import parse_json

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

#: Characters that Jinja's own tojson escapes, so that the text is safe inside HTML.
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})


def to_yaml(value: Any, flow_style: bool = True) -> str:
    """Return *value* as YAML without a final line end; in one line's style by default."""
    return _dumped(
        _sorted(value), default_flow_style=flow_style, allow_unicode=True, sort_keys=False
    ).strip()


def _dumped(value: Any, **options: Any) -> str:
    """Return *value* as PyYAML writes it, without the mark that ends a document."""
    # Imported here: few templates write YAML, and PyYAML takes as long as all of Jinja.
    import yaml as pyyaml

    from catena.renderers.yaml_writer import TextDumper

    text = str(pyyaml.dump(value, Dumper=TextDumper, **options))
    return text.removesuffix("\n").removesuffix("\n...")


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        try:
            keys = list(value) if isinstance(value, OrderedDict) else sorted(value)
        except TypeError:
            keys = list(value)
        return {key: _sorted(value[key]) for key in keys}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def to_json(value: Any, sort_keys: bool = True, indent: Optional[int] = None) -> str:
    """Return *value* as JSON: keys in order, letters as they are, other objects as their text."""
    return json.dumps(
        value, sort_keys=sort_keys, indent=indent, ensure_ascii=False, default=str
    ).strip()


def to_html_json(value: Any, indent: Optional[int] = None, **options: Any) -> str:
    """Return *value* as JSON in ASCII, keys as they come (the filter `tojson`).

    Args:
        value: the data.
        indent: blanks per level; None: one line.
        options: of Python's json.dumps (sort_keys, separators, …).
    """
    given: Dict[str, Any] = {"ensure_ascii": True, "indent": indent, "default": str, **options}
    return json.dumps(value, **given).translate(_HTML)


def to_python(value: Any) -> str:
    """Return *value* as a Python literal."""
    import pprint

    return pprint.pformat(value).strip()


def to_xml(value: Any) -> str:
    """Return a mapping (or pairs) as an XML document, indented by one blank per level.

    A mapping's scalars become attributes, its lists repeat an element, its mappings nest.

    Raises:
        TemplateRuntimeError: it is no mapping and no list of pairs, or is empty.
    """
    from xml.etree.ElementTree import indent, tostring

    top: Optional[Element] = None
    for tag, content in _pairs(value):
        top = _element(None, tag, content)
    if top is None:
        raise TemplateRuntimeError("there is nothing to write as XML")
    indent(top, " ")
    text = tostring(top, encoding="unicode").replace(" />", "/>")
    return f'<?xml version="1.0" ?>\n{text}\n'


def _pairs(value: Any) -> List[Tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        pairs = [item for item in value if isinstance(item, (list, tuple)) and len(item) == 2]
        return [(tag, content) for tag, content in pairs]
    raise TemplateRuntimeError("Value is not a dict or list. Cannot render as XML")


def _element(above: Optional[Element], tag: Any, content: Any) -> Optional[Element]:
    from xml.etree.ElementTree import Element, SubElement

    if isinstance(content, list):
        for item in content:
            _element(above, tag, item)
        return None
    made = Element(str(tag)) if above is None else SubElement(above, str(tag))
    if isinstance(content, Mapping):
        nested = {key: item for key, item in content.items() if isinstance(item, (dict, list))}
        attributes = {key: item for key, item in content.items() if key not in nested}
        made.attrib.update({str(key): str(item) for key, item in attributes.items()})
        for key, item in nested.items():
            _element(made, key, item)
    elif not isinstance(content, (tuple, type(None))):
        made.text = str(content)
    return made


def load_yaml(value: Any) -> Any:
    """Return the data of a YAML text."""
    return yaml.load(str(value), "load_yaml filter")


def load_json(value: Any) -> Any:
    """Return the data of a JSON text."""
    return parse_json(str(value), "load_json filter")


def load_text(value: Any) -> Any:
    """Return the value itself."""
    return value


def _scalar(value: Any, style: str, unicode: bool = True) -> str:
    return _dumped(value, default_style=style, width=1 << 30, allow_unicode=unicode).rstrip("\n")


def yaml_dquote(text: Any) -> str:
    """Return *text* as a YAML scalar in double quotes, in ASCII."""
    return _scalar(str(text), '"', unicode=False)


def yaml_squote(text: Any) -> str:
    """Return *text* as a YAML scalar in single quotes; its lines are not indented."""
    return "'" + str(text).replace("'", "''").replace("\n", "\n\n") + "'"


def yaml_encode(value: Any) -> str:
    """Return a scalar as YAML; a text always in double quotes.

    Raises:
        TemplateRuntimeError: it is no scalar.
    """
    if isinstance(value, str):
        return yaml_dquote(value)
    if not isinstance(value, (int, float, bool, type(None))):
        raise TemplateRuntimeError(f"yaml_encode takes a scalar, not a {type(value).__name__}")
    return _dumped(value).strip()


def sls_arguments(value: Mapping[str, Any], flow_style: bool = False) -> str:
    """Return a mapping as the argument list of a state: one `- key: value` each."""
    return to_yaml([{key: value[key]} for key in value], flow_style)


def printable(value: Any) -> Any:
    """Return what is printed for *value*: mappings so that YAML reads them back.

    Python's form does; only a text of several lines needs YAML's double quotes there (recorded
    case `jinja/dict_printing`).
    """
    if isinstance(value, (dict, list, tuple)) and _has_mapping(value):
        return _flow(value, str)
    return value


def _has_mapping(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_mapping, value))
    return isinstance(value, dict)


def _flow(value: Any, form: Callable[[Any], str]) -> str:
    """Return *value* in one line; what is no collection is written by *form*."""
    if isinstance(value, dict):
        items = (f"{key!r}: {_quoted(item, form)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_flow(item, repr) for item in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return form(value)


def _quoted(value: Any, form: Callable[[Any], str]) -> str:
    if not isinstance(value, str):
        return _flow(value, form)
    if any(character in value for character in "\n\r\t"):
        return _scalar(value, '"')
    return repr(value)


FILTERS: Dict[str, Callable[..., Any]] = {
    "yaml": to_yaml,
    "json": to_json,
    "tojson": to_html_json,
    "python": to_python,
    "xml": to_xml,
    "load_yaml": load_yaml,
    "load_json": load_json,
    "load_text": load_text,
    "yaml_dquote": yaml_dquote,
    "yaml_squote": yaml_squote,
    "yaml_encode": yaml_encode,
    "dict_to_sls_yaml_params": sls_arguments,
}
