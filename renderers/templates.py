"""Templates of managed files: text in, text out."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Union

from catena.core.context import Context
from catena.core.dry_run import unguarded
from catena.core.suggest import unknown
from catena.core.types import SourceLine
from catena.renderers.jinja_options import untouched
from catena.renderers.source import Source, SourceError

_SCHEME = "salt://"

Engine = Callable[[Context, Source, Mapping[str, Any]], str]


def render_file(
    context: Context, source: Union[Source, str], engine: str, variables: Mapping[str, Any]
) -> str:
    """Return *source* rendered by *engine* ("jinja", "mako" or "py"), as file.managed does.

    Args:
        context: what the template may use.
        source: the template; `path` below the roots makes relative imports work. A plain text
            is called by the variable `source`.
        engine: `template:` of the state.
        variables: `defaults` and `context` of the state with source, name, user, mode, …; the
            template does not see the names of an SLS file.

    Raises:
        RenderError: with file, line and excerpt.
    """
    if isinstance(source, str):
        name = str(variables.get("source") or "<text>")
        path = name[len(_SCHEME) :].partition("?")[0] if name.startswith(_SCHEME) else ""
        saltenv = str(variables.get("saltenv") or context.saltenv)
        source = Source(source, name, saltenv, path=path)
    if engine not in ENGINES:
        raise SourceError(unknown("template engine", engine, ENGINES), SourceLine(source.name))
    # What a template calls is the site's own: it acts in test mode too, as in Salt.
    with unguarded():
        if context.rendering is not None:
            return context.rendering.text(context, source, engine, variables)
        return ENGINES[engine](context, source, variables)


def _jinja(context: Context, source: Source, variables: Mapping[str, Any]) -> str:
    text = untouched(context.opts, bool(source.sls), source.text)
    if text is not None:
        return text
    from catena.renderers import jinja

    return jinja.render(context, source, variables, sls_names=False).text


def _py(context: Context, source: Source, variables: Mapping[str, Any]) -> str:
    from catena.renderers import py

    return str(py.run(context, source, {**variables, "context": dict(variables)}))


def _mako(context: Context, source: Source, variables: Mapping[str, Any]) -> str:
    from catena.renderers import mako

    return mako.render(context, source, variables)


ENGINES: Dict[str, Engine] = {"jinja": _jinja, "mako": _mako, "py": _py}
