"""Salt's Jinja tags: load_yaml, load_json, load_text, import_yaml, import_json, import_text.

`{% load_yaml as x %}…{% endload %}` parses the rendered body; `{% import_yaml "path" as x %}`
renders a file of the file roots and parses it.
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable, List, Mapping, Sequence, Union

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from catena.core.logs import logger
from catena.core.types import SourceLine
from catena.renderers import yaml
from catena.renderers.plain import said_of
from catena.renderers.source import SourceError, TemplateFaultError

_log = logger(__name__)

LOAD_TAGS = ("load_yaml", "load_json", "load_text")
IMPORT_TAGS = ("import_yaml", "import_json", "import_text")


def parse_json(text: str, name: str = "<text>") -> Any:
    """Return the data of JSON *text*.

    Raises:
        TemplateFaultError: not JSON; the message shows the line.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        reason = f"Jinja error: not JSON: {said_of(error)}"
        raise TemplateFaultError(reason, SourceLine(name, line), text) from None
    except RecursionError:
        raise TemplateFaultError("JSON is nested too deep", SourceLine(name)) from None


def parse_text(text: str, name: str = "<text>") -> str:
    """Return *text* itself."""
    return text


PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "yaml": yaml.load,
    "json": parse_json,
    "text": parse_text,
}


class DataTags(Extension):
    """The six tags."""

    tags = {*LOAD_TAGS, *IMPORT_TAGS}

    def parse(self, parser: Parser) -> Union[nodes.Node, List[nodes.Node]]:
        """Return the nodes of one tag."""
        token = next(parser.stream)
        if token.value in LOAD_TAGS:
            return self._load(parser, token.value, token.lineno)
        return self._import(parser, token.value, token.lineno)

    def _load(self, parser: Parser, tag: str, line: int) -> List[nodes.Node]:
        parser.stream.expect("name:as")
        target = parser.parse_assign_target(with_namespace=True)
        body = parser.parse_statements(("name:endload",), drop_needle=True)
        text = parser.free_identifier(lineno=line)
        block = nodes.AssignBlock(text, None, body).set_lineno(line)
        where = [nodes.Const(parser.name), nodes.Const(line)]
        return [block, self._assign(target, text, tag, line, where)]

    def _import(self, parser: Parser, tag: str, line: int) -> List[nodes.Node]:
        imported = nodes.Import(lineno=line)
        imported.template = parser.parse_expression()
        parser.stream.expect("name:as")
        target = parser.parse_assign_target()
        if not isinstance(target, nodes.Name):
            parser.fail(f"{tag} takes one name after 'as'", line)
        imported.target = target.name
        parser.parse_import_context(imported, False)
        text = nodes.Name(target.name, "load", lineno=line)
        where = [nodes.Const(parser.name), nodes.Const(0), imported.template]
        return [imported, self._assign(target, text, tag, line, where)]

    def _assign(
        self,
        target: nodes.Expr,
        text: nodes.Expr,
        tag: str,
        line: int,
        where: Sequence[nodes.Expr],
    ) -> nodes.Node:
        """Return the node that gives *target* the data of *text*, which came from *where*."""
        kind = nodes.Const(tag.partition("_")[2])
        call = self.call_method("_parsed", [kind, text, *where], lineno=line)
        return nodes.Assign(target, call, lineno=line)

    def _parsed(self, kind: str, value: Any, parent: str, line: int, path: str = "") -> Any:
        """Return the data of a block that begins in *line* of *parent*, or of the file *path*."""
        environment: Any = self.environment
        file = environment.join_path(str(path), parent) if path else parent
        try:
            return PARSERS[kind](str(value), environment.address(file))
        except SourceError as error:
            place = error.place
            if path or not place.line:
                raise
            place = SourceLine(place.file, line + place.line - 1)
            raise type(error)(error.reason, place, "", error.chain) from None


class Profile(Extension):
    """`{% profile as "name" %}…{% endprofile %}`: the log tells how long that part took."""

    tags = {"profile"}

    def parse(self, parser: Parser) -> Union[nodes.Node, List[nodes.Node]]:
        """Return the nodes of the tag: its body, between two looks at the clock."""
        line = next(parser.stream).lineno
        parser.stream.expect("name:as")
        label = parser.parse_expression()
        # No scope of its own: what is set inside is seen after it.
        body = parser.parse_statements(("name:endprofile",), drop_needle=True)
        began = parser.free_identifier(lineno=line)
        start = nodes.Assign(began, self.call_method("_began", [], lineno=line), lineno=line)
        end = nodes.ExprStmt(self.call_method("_ended", [label, began], lineno=line), lineno=line)
        return [start, *body, end]

    def _began(self) -> float:
        return time.monotonic()

    def _ended(self, label: Any, began: float) -> None:
        _log.info("%s: rendered in %.3f s", label, time.monotonic() - began)
