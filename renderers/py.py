"""The py renderer: a Python file whose `run()` returns the data."""

from __future__ import annotations

import traceback
from typing import Any, Dict, Mapping

from catena.core.context import Context
from catena.core.custom_faults import error_line, error_text, in_custom_file
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls
from catena.renderers.source import Source, SourceError, plain, template_options


def run(context: Context, source: Source, names: Mapping[str, Any]) -> Any:
    """Return what `run()` of *source* returns.

    The file is code of the same trust as custom modules: it runs as this process does. It sees
    Salt's names for such files (recorded case `renderers/py`).

    Raises:
        SourceError: it can't be compiled, has no run(), or raises.
    """
    scope: Dict[str, Any] = {
        "__name__": f"catena_rendered_{source.sls.replace('.', '_')}",
        "__file__": source.name,
        "__salt__": FunctionCalls(context, source.name),
        "__grains__": plain(context.grains),
        "__pillar__": plain(context.pillar),
        "__opts__": template_options(context),
        "__sls__": source.sls,
        "__env__": source.saltenv,
        "salt": FunctionCalls(context, source.name),
        "grains": plain(context.grains),
        "pillar": plain(context.pillar),
        "opts": template_options(context),
        "saltenv": source.saltenv,
        **names,
    }
    try:
        code = compile(source.text, source.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0) or 0
        place = SourceLine(source.name, line)
        raise SourceError(f"Python: {error_text(error)}", place, source.text) from None
    try:
        exec(code, scope)
        function = scope.get("run")
        if not callable(function):
            raise SourceError("the file defines no run()", SourceLine(source.name), source.text)
        return function()
    except SourceError:
        raise
    except (Exception, SystemExit) as error:
        # The file may raise anything; the error is raised again with its line.
        reason = f"Python: {error_line(error) if in_custom_file(error) else error_text(error)}"
        raise SourceError(reason, _place(error, source), source.text) from error


def _place(error: BaseException, source: Source) -> SourceLine:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == source.name]
    return SourceLine(source.name, lines[-1] if lines else 0)
