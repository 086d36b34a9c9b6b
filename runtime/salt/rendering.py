"""Stand-ins for `salt.template`, `salt.utils.templates` and `salt.utils.jinja`."""

from __future__ import annotations

import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional

from catena.core.errors import CatenaError
from catena.runtime.salt import current, jinja_names

Names = Dict[str, Any]


def _rendered(text: str, engine: str, names: Mapping[str, Any]) -> Any:
    return current.invoke("slsutil.renderer", string=text, default_renderer=engine, **names)


def _engine(engine: str) -> Callable[..., str]:
    def render(tmplstr: str, context: Mapping[str, Any], tmplpath: Optional[str] = None) -> str:
        shared = ("salt", "grains", "pillar", "opts", "saltenv")
        names = {key: value for key, value in context.items() if key not in shared}
        return str(_rendered(tmplstr, engine, names))

    return render


def _wrapped(engine: str) -> Callable[..., Names]:
    """Return a function of TEMPLATE_REGISTRY: it renders a file or a text."""

    def render(
        tmplsrc: str, from_str: bool = False, to_str: bool = False, **options: Any
    ) -> Names:
        from pathlib import Path

        names = dict(options.get("context") or {})
        try:
            text = str(tmplsrc) if from_str else Path(tmplsrc).read_text(encoding="utf-8")
            found = str(_rendered(text, engine, names))
        except (CatenaError, OSError) as error:
            return {"result": False, "data": str(error)}
        if to_str:
            return {"result": True, "data": found}
        return {"result": True, "data": _stored(found)}

    return render


def _stored(text: str) -> str:
    import os
    import tempfile

    handle, path = tempfile.mkstemp()
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        target.write(text)
    return path


def _templates() -> Names:
    registry = {name: _wrapped(name) for name in ("jinja", "mako", "py")}
    return {
        "TEMPLATE_REGISTRY": registry,
        "JINJA": registry["jinja"],
        "render_jinja_tmpl": _engine("jinja"),
    }


def _compile_template(
    template: str, renderers: Any = None, default: str = "jinja|yaml", *_: Any, **options: Any
) -> Any:
    from pathlib import Path

    names = {key: value for key, value in options.items() if key not in ("saltenv", "sls")}
    return _rendered(Path(template).read_text(encoding="utf-8"), default, names)


def _compile_text(
    template: str, renderers: Any = None, default: str = "jinja|yaml", *_: Any, **__: Any
) -> Any:
    return _rendered(template, default, {})


class _Collected:
    """A decorator that notes functions under a name, as `jinja_filter` does."""

    def __init__(self, found: Dict[str, Any], kind: str, name: Any = None) -> None:
        self._found = found
        self._kind = kind
        self._name = name

    def __call__(self, function: Any) -> Any:
        name = str(self._name or function.__name__)
        self._found[name] = function
        return jinja_names.note(function, self._kind, name)


def _decorator(found: Dict[str, Any], kind: str) -> Callable[..., Any]:
    def decorate(name: Any = None) -> Any:
        return _Collected(found, kind)(name) if callable(name) else _Collected(found, kind, name)

    return decorate


def _jinja_decorators() -> Names:
    filters: Dict[str, Any] = {}
    tests: Dict[str, Any] = {}
    globals_: Dict[str, Any] = {}
    names: Names = {
        "jinja_filter": _decorator(filters, jinja_names.FILTER),
        "jinja_test": _decorator(tests, jinja_names.TEST),
        "jinja_global": _decorator(globals_, "global"),
    }
    names["jinja_filter"].salt_jinja_filters = filters
    names["jinja_test"].salt_jinja_tests = tests
    names["jinja_global"].salt_jinja_globals = globals_
    return {**names, "JinjaFilter": names["jinja_filter"], "JinjaTest": names["jinja_test"]}


def _unique(values: Any) -> List[Any]:
    found: List[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _jinja() -> Names:
    return {
        "ensure_sequence_filter": lambda data: (
            data if isinstance(data, (list, tuple, set, dict)) else [data]
        ),
        "to_bool": lambda value: str(value).lower() in ("1", "true", "yes", "on"),
        "quote": _quoted,
        "regex_escape": _escaped,
        "unique": _unique,
        "uuid_": lambda value: str(uuid.uuid5(uuid.NAMESPACE_DNS, str(value))),
    }


def _quoted(text: Any) -> str:
    import shlex

    return shlex.quote(str(text))


def _escaped(text: Any) -> str:
    import re

    return re.escape(str(text))


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Names]] = {
    "salt.template": lambda: {
        "compile_template": _compile_template,
        "compile_template_str": _compile_text,
    },
    "salt.utils.decorators.jinja": _jinja_decorators,
    "salt.utils.jinja": _jinja,
    "salt.utils.templates": _templates,
}
