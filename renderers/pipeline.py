"""The #! pipeline: which renderers a text goes through, and the run through them."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from catena.core.context import Context
from catena.core.custom_faults import error_line
from catena.core.errors import NotFoundError, UsageError
from catena.core.frozen import replace
from catena.core.logs import logger
from catena.core.plugins import Plugin
from catena.core.suggest import unknown
from catena.core.template_calls import calling
from catena.core.types import SourceLine
from catena.renderers import INDEX
from catena.renderers.jinja_options import untouched
from catena.renderers.source import LineMap, Rendered, Source, SourceError, sls_variables

log = logger(__name__)

DEFAULT = "jinja|yaml"
_NO_VARIABLES: Mapping[str, Any] = MappingProxyType({})
#: `#!/bin/sh` is a script's line, not a pipeline (as in Salt).
_SHEBANG = re.compile(r"#!(?!/)([^\r\n]*)")


#: Salt's older names of two renderers in a row.
_OLD_PAIRS = {
    f"{data}_{template}": f"{template}|{data}"
    for data in ("yaml", "json")
    for template in ("jinja", "mako")
}


class RenderStage(NamedTuple):
    """One renderer of a pipeline."""

    name: str
    #: What stands behind its name.
    options: str = ""


def pipeline_of(text: str, default: str = DEFAULT) -> Tuple[RenderStage, ...]:
    """Return the renderers of *text*: those of its #! line, or *default*."""
    found = _SHEBANG.match(text)
    return (_stages(found.group(1)) if found else ()) or _stages(default)


def _stages(line: str) -> Tuple[RenderStage, ...]:
    line = _OLD_PAIRS.get(line.strip(), line)
    parts = (part.strip().partition(" ") for part in line.split("|"))
    return tuple(RenderStage(name, options.strip()) for name, _, options in parts if name)


def render(
    context: Context,
    source: Source,
    default: str = DEFAULT,
    variables: Mapping[str, Any] = _NO_VARIABLES,
) -> Rendered:
    """Return the data that *source* renders to.

    Args:
        context: grains, pillar, opts, functions and files that renderers may use.
        source: the text; its first line may name its renderers (`#!jinja|yaml`).
        default: renderers of a text without such a line.
        variables: more names for templates; they win over the built-in ones.

    Returns:
        The data (None for an empty text; a string where the last renderer gives text) and the
        source line of every key.

    Raises:
        RenderError: with file, line and excerpt of the source (`renderers.source.SourceError`).
        LimitError: a limit of the parsers is passed.
    """
    if context.rendering is not None:
        made: Rendered = context.rendering.data(context, source, default, variables)
        return made
    stages = pipeline_of(source.text, default)
    for stage in stages:
        _check(context, stage.name, source)
    found = _SHEBANG.match(source.text)
    # Keep the line, but empty, so that every other line keeps its number.
    body = source.text[found.end() :] if found else source.text
    run = _Run(context, replace(source, text=body), variables)
    log.debug("rendering %s by %s", source.name, "|".join(stage.name for stage in stages))
    for stage in stages:
        run.stage(stage)
    if isinstance(run.data, str) and found:
        return replace(run.rendered(), data=run.data[1:] if run.data[:1] == "\n" else run.data)
    return run.rendered()


def _check(context: Context, name: str, source: Source) -> None:
    """Refuse a renderer that is unknown, or that the configuration forbids.

    Salt skips a forbidden one, so that another one reads what was not meant for it.
    """
    place = SourceLine(source.name, 1)
    if name not in INDEX and _custom(context, name) is None:
        refused = context.renderers.refusal(name) if context.renderers else ""
        raise SourceError(refused or unknown("renderer", name, INDEX), place, source.text)
    allowed = context.opts.get("renderer_whitelist")
    if (allowed and name not in allowed) or name in (context.opts.get("renderer_blacklist") or ()):
        raise SourceError(f"the configuration forbids the renderer {name!r}", place, source.text)


def _custom(context: Context, name: str) -> Optional[Plugin]:
    """Return the renderer of a `_renderers` file, or None."""
    full = f"{name}.render"
    if context.renderers is None or full not in context.renderers:
        return None
    return context.renderers[full]


class _Run:
    """Passes one text through its renderers."""

    def __init__(self, context: Context, source: Source, variables: Mapping[str, Any]) -> None:
        self._context = context
        self._source = source
        self._variables = variables
        self._map = LineMap()
        self._lines: Mapping[Tuple[Any, ...], int] = {}
        self.data: Any = source.text

    def rendered(self) -> Rendered:
        """Return the data after the last renderer."""
        return Rendered(self.data, self._lines, self._source.name)

    def stage(self, stage: RenderStage) -> None:
        """Send the data through one renderer."""
        name = stage.name
        if name == "py":
            from catena.renderers import py

            names = {**sls_variables(self._source), **self._variables}
            self.data = py.run(self._context, self._current(name), names)
        elif name == "jinja":
            self._jinja(self._current(name))
        elif name == "mako":
            from catena.renderers import mako

            names = {**sls_variables(self._source), "sls": self._source.sls, **self._variables}
            self.data = mako.render(self._context, self._current(name), names)
        elif name == "stateconf":
            self._stateconf(stage.options)
        elif name == "pyobjects":
            from catena.renderers import pyobjects

            names = {**sls_variables(self._source), **self._variables}
            self.data, self._lines = pyobjects.run(self._context, self._current(name), names)
        elif name == "gpg":
            from catena.renderers import gpg

            self.data = gpg.decrypt(self._context, self.rendered())
        elif name == "nacl":
            from catena.renderers import nacl

            self.data = nacl.decrypt(self._context, self.rendered())
        elif name in INDEX:
            if name != "text":
                self._parse(name)
        else:
            self._custom(name)

    def _jinja(self, source: Source) -> None:
        text = untouched(self._context.opts, bool(source.sls), source.text)
        if text is not None:
            self.data, self._map = text, LineMap()
            return
        from catena.renderers import jinja

        made = jinja.render(self._context, source, self._variables)
        self.data, self._map = made.text, made.lines

    def _stateconf(self, line: str) -> None:
        from catena.renderers import stateconf

        sls, saltenv = self._source.sls, self._source.saltenv
        try:
            options = stateconf.options_of(line)
            if options.takes_data:
                self.data = stateconf.process(self.data, sls, saltenv, options)
                return
            text = self._current("stateconf").text
            self.data = stateconf.render(text, sls, saltenv, options, self._through)
        except UsageError as error:
            place = SourceLine(self._source.name, 1)
            raise SourceError(str(error), place, self._source.text) from None

    def _through(self, text: str, renderers: Tuple[str, ...], names: Mapping[str, Any]) -> Any:
        """Return what *text* gives after other renderers, whose templates see *names* too."""
        run = _Run(self._context, replace(self._source, text=text), {**self._variables, **names})
        for name in renderers:
            _check(self._context, name.partition(" ")[0], self._source)
            run.stage(RenderStage(*name.split(maxsplit=1)))
        self._lines = run._lines
        return run.data

    def _custom(self, name: str) -> None:
        """Send the data through somebody's own renderer, by Salt's contract."""
        plugin = _custom(self._context, name)
        if plugin is None:
            raise NotFoundError(unknown("renderer", name, INDEX))
        source = self._source
        given = {"saltenv": source.saltenv, "sls": source.sls}
        try:
            # A custom renderer is the site's own code, as a custom function that a template calls.
            with calling(plugin.name, source.name):
                made = plugin.call(self._context, self.data, **given)
        except Exception as error:
            # The file may raise anything; the error is raised again with its line.
            reason = f"renderer {name!r}: {error_line(error)}"
            raise SourceError(reason, SourceLine(source.name), source.text) from error
        self.data = made.read() if hasattr(made, "read") else made
        if isinstance(self.data, bytes):
            self.data = self.data.decode("utf-8")

    def _current(self, name: str) -> Source:
        if not isinstance(self.data, str):
            reason = f"the renderer {name!r} needs text, the one before it gave data"
            raise SourceError(reason, SourceLine(self._source.name, 1))
        return replace(self._source, text=self.data)

    def _parse(self, name: str) -> None:
        text = self._current(name).text
        where, written = self._source.name, self._source.text
        if name == "yaml":
            from catena.renderers import yaml

            made = yaml.load_rendered(text, where, written, self._map)
            self.data, self._lines = made.data, made.lines
            return
        if name == "yamlex":
            from catena.renderers import yamlex

            made = yamlex.load_rendered(text, where, written, self._map)
            self.data, self._lines = made.data, made.lines
            return
        from catena.renderers import plain

        parse: Any = getattr(plain, f"load_{name}")
        self.data = parse(text, where, written, self._map)
