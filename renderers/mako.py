"""The mako renderer, where the package Mako is installed."""

from __future__ import annotations

from typing import Any, Mapping

from catena.core.context import Context
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls
from catena.renderers.source import Source, SourceError, plain, template_options


def render(context: Context, source: Source, names: Mapping[str, Any]) -> str:
    """Return *source* rendered with Mako; undefined names are errors.

    Such a template is code: it runs as this process does.

    Raises:
        SourceError: Mako is not installed, or the template fails.
    """
    try:
        from mako import exceptions  # type: ignore[import-untyped]
    except ImportError:
        reason = "the mako renderer needs the Python package Mako on this host"
        raise SourceError(reason, SourceLine(source.name, 1), source.text) from None
    given = {
        "salt": FunctionCalls(context, source.name),
        "grains": plain(context.grains),
        "pillar": plain(context.pillar),
        "opts": template_options(context),
        "saltenv": source.saltenv,
        **names,
    }
    try:
        return str(_template(context, source).render(**given))
    except Exception as error:
        # Whatever the template does; it goes on with its place.
        trace = exceptions.RichTraceback()
        reason = f"Mako: {type(error).__name__}: {error}"
        place = SourceLine(source.name, trace.lineno or 0)
        raise SourceError(reason, place, source.text) from error


def _template(context: Context, source: Source) -> Any:
    """Return *source* compiled; what it inherits or includes comes from the file roots."""
    from mako.exceptions import TopLevelLookupException  # type: ignore[import-untyped]
    from mako.lookup import TemplateLookup  # type: ignore[import-untyped]
    from mako.template import Template  # type: ignore[import-untyped]

    class Files(TemplateLookup):  # type: ignore[misc]  # Mako has no types
        """Templates from the file roots."""

        def get_template(self, uri: str) -> Any:
            path = uri[len("salt://") :] if uri.startswith("salt://") else uri
            found = context.files.fetch(path, source.saltenv)
            if found is None:
                raise TopLevelLookupException(f"no template {uri}")
            text = found.read_text(encoding="utf-8")
            return Template(text, uri=uri, lookup=self, strict_undefined=True)

        def adjust_uri(self, uri: str, relativeto: str) -> str:
            return uri

    return Template(source.text, lookup=Files(), strict_undefined=True)
