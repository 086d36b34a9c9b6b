"""What went wrong in a template, with the place in the file that a person wrote."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import jinja2
from jinja2.utils import internal_code

from catena.core.custom_faults import error_line, in_custom_file
from catena.core.errors import LimitError
from catena.core.frozen import dataclass
from catena.core.suggest import nearest
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls
from catena.renderers.source import (
    Source,
    SourceError,
    SourceLimitError,
    TemplateFaultError,
    TemplateSyntaxFaultError,
    UndefinedNameError,
)

_NO_FUNCTION = re.compile(r"FunctionCalls object' has no attribute '([^']+)'")
_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_NO_EXPORT = re.compile(r"the template '([^']+)' .* does not export the requested name '([^']+)'")
_NO_PLUGIN = re.compile(r"No (filter|test) named '([^']+)'")
#: Names that a template gives itself.
_GIVEN = re.compile(r"\b(?:set|as|for|import|macro|,)\s+(\w+)")

#: Name of a template and a line in it.
_Step = Tuple[str, int]


def template_name(source: Source) -> str:
    """Return what Jinja calls the template made of *source*."""
    return source.path or source.name


@dataclass(frozen=True)
class Faults:
    """Explains what goes wrong while one template is compiled or rendered.

    Args:
        environment: of the template; knows the addresses of others.
        source: the template.
        names: what it sees.
    """

    environment: Any
    source: Source
    names: Mapping[str, Any]

    def explained(self, error: Exception) -> SourceError:
        """Return *error* with the place in the template that caused it, and the way to it."""
        steps = list(_template_frames(error.__traceback__))
        if isinstance(error, jinja2.TemplateSyntaxError):
            return self._syntax(error, steps)
        if isinstance(error, SourceError):
            text = error.text or self._text(error.place.file)
            chain = (*error.chain, *self._way(steps))
            return type(error)(error.reason, error.place, text, chain, error.note)
        name, line = steps[-1] if steps else (template_name(self.source), 0)
        kind, reason = self._reason(error, self._text(name))
        place = SourceLine(self._address(name), line)
        return kind(reason, place, self._text(name), self._way(steps[:-1]))

    def _reason(self, error: Exception, text: str) -> Tuple[type[SourceError], str]:
        """Return what is wrong: the class of the error and its sentence."""
        if isinstance(error, jinja2.UndefinedError):
            given = (*self.names, *self.environment.globals, *_GIVEN.findall(text))
            return UndefinedNameError, f"Jinja variable {self._undefined(str(error), given)}"
        if isinstance(error, jinja2.TemplateNotFound):
            return TemplateFaultError, f"Jinja error: no template {self._not_found(error)}"
        what = str(error) or type(error).__name__
        if in_custom_file(error) or isinstance(error, KeyError):
            what = error_line(error)
        kind = SourceLimitError if isinstance(error, LimitError) else TemplateFaultError
        return kind, f"Jinja error: {what}{self._nearest_plugin(what)}"

    def _syntax(self, error: jinja2.TemplateSyntaxError, steps: Sequence[_Step]) -> SourceError:
        name = error.name or template_name(self.source)
        text = self._text(name)
        reason = f"Jinja syntax error: {error.message}{self._nearest_plugin(str(error.message))}"
        place = SourceLine(self._address(name), error.lineno)
        return TemplateSyntaxFaultError(reason, place, text, self._way(steps))

    def _undefined(self, text: str, given: Iterable[str]) -> str:
        """Return Jinja's sentence about an undefined name, with the nearest right one."""
        function = _NO_FUNCTION.search(text)
        if function:
            name = function.group(1)
            near = nearest(name, self._functions("." in name))
            text = f"'salt' has no {'function' if '.' in name else 'module'} {name!r}"
        elif _NO_EXPORT.search(text):
            template, name = _NO_EXPORT.findall(text)[0]
            near = nearest(name, _GIVEN.findall(self._text(template)))
            text = f"{name!r} is not in the template {template!r}"
        else:
            found = _UNDEFINED.match(text)
            near = nearest(found.group(1), given) if found else None
        return text + (f"; did you mean {near!r}?" if near else "")

    def _functions(self, whole: bool) -> Sequence[str]:
        calls = self.names["salt"]
        if not isinstance(calls, FunctionCalls):
            return ()
        try:
            return calls.names() if whole else calls.modules()
        except ImportError:
            # A module that can't be imported here must not hide the error that is reported.
            return ()

    def _not_found(self, error: jinja2.TemplateNotFound) -> str:
        name = str(error.name)
        if str(error) != name:
            return str(error)
        near = nearest(name, self.environment.paths())
        return name + (f"; did you mean {near!r}?" if near else "")

    def _nearest_plugin(self, text: str) -> str:
        found = _NO_PLUGIN.search(text)
        if not found:
            return ""
        known = self.environment.filters if found[1] == "filter" else self.environment.tests
        near = nearest(found[2], known)
        return f" Did you mean {near!r}?" if near else ""

    def _way(self, steps: Sequence[_Step]) -> List[SourceLine]:
        return [SourceLine(self._address(name), line) for name, line in reversed(steps)]

    def _address(self, name: str) -> str:
        return str(self.environment.address(name))

    def _text(self, name: str) -> str:
        """Return the text of a template, by its name or address."""
        if name in (template_name(self.source), self.source.name):
            return self.source.text
        try:
            path = name.partition("://")[2] or name
            return str(self.environment.loader.get_source(self.environment, path)[0])
        except (OSError, SourceError, jinja2.TemplateNotFound):
            return ""


def _template_frames(traceback: Optional[TracebackType]) -> Iterator[_Step]:
    """Yield (template name, line) of every template in *traceback*, outermost first."""
    last: Optional[_Step] = None
    while traceback is not None:
        frame = traceback.tb_frame
        template = frame.f_globals.get("__jinja_template__")
        if isinstance(template, jinja2.Template) and frame.f_code not in internal_code:
            step = (str(template.name), template.get_corresponding_lineno(traceback.tb_lineno))
            # A macro, block or loop is a frame of its own in the same template.
            if last is not None and last[0] != step[0]:
                yield last
            last = step
        traceback = traceback.tb_next
    if last is not None:
        yield last
