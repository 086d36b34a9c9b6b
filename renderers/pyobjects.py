"""The pyobjects renderer: a Python file that declares states as objects.

`File.managed("/etc/motd", mode="644")` declares a state, `File("/etc/motd")` refers to one, and
both serve as requisites in a `with` statement. Salt documents the language in
`salt.renderers.pyobjects`; the recorded case is `renderers/pyobjects`.
"""

from __future__ import annotations

import re
import sys
from types import CodeType
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from catena.core.context import Context
from catena.core.custom_faults import error_line, error_text, in_custom_file
from catena.core.errors import NotFoundError
from catena.core.suggest import nearest
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls
from catena.renderers.pyobjects_map import map_class
from catena.renderers.source import (
    DataPath,
    Source,
    SourceError,
    decoded,
    plain,
    template_options,
)

_SCHEME = "salt://"
#: `import salt://x.sls` and `from salt://x.sls import A, B as C`, alone on a line.
_IMPORT = re.compile(
    r"^[ \t]*(?:import[ \t]+(?P<whole>salt://\S+)"
    r"|from[ \t]+(?P<file>salt://\S+)[ \t]+import[ \t]+(?P<names>[^\n#]+))[ \t]*(?:#.*)?$",
    re.M,
)
#: `pillar()` is pillar.get, and so on.
_GETTERS = ("pillar", "grains", "mine", "config")
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
#: Maximum number of files that one file imports, directly or not.
_IMPORTS = 200
_NAME = re.compile(r"(\w+)(?:\s+as\s+(\w+))?")
_ONE_WAY = ("require", "watch", "prereq", "onchanges", "onfail", "listen", "use")
#: Requisites that a `with` statement may add.
REQUISITES = frozenset(name + end for name in _ONE_WAY for end in ("", "_in", "_any"))


class Declared(NamedTuple):
    """What a file declared."""

    data: Dict[str, Any]
    lines: Mapping[DataPath, int]


class Extended(str):
    """The id of a state of another file that a declaration extends."""


class Requisite:
    """A reference to a state, as an argument or in a `with` statement."""

    def __init__(self, open_: List[Requisite], module: str, ident: str, kind: str) -> None:
        self._open = open_
        self.kind = kind
        self.data = {module: str(ident)}

    def __enter__(self) -> None:
        self._open.append(self)

    def __exit__(self, *_: object) -> None:
        self._open.pop()


def run(context: Context, source: Source, names: Mapping[str, Any]) -> Declared:
    """Return the states that *source* declares, and their lines.

    The file is code of the same trust as custom modules: it runs as this process does.

    Raises:
        SourceError: the file can't be compiled or raises, or declares a state wrongly.
    """
    return _File(context, source, names).run()


class _File:
    """One file and those that it imports."""

    def __init__(self, context: Context, source: Source, names: Mapping[str, Any]) -> None:
        self._context = context
        self._source = source
        self._names = names
        self._open: List[Requisite] = []
        self._data: Dict[str, Any] = {}
        self._lines: Dict[DataPath, int] = {}
        self._modules = {_class_name(name): name for name in context.states.prefixes()}
        #: Address of an imported file -> its names.
        self._imported: Dict[str, Dict[str, Any]] = {}

    def run(self) -> Declared:
        """Run the file."""
        self._execute(self._source)
        return Declared(self._data, self._lines)

    # -- names of the file ---------------------------------------------------------------------

    def _scope(self, source: Source) -> Dict[str, Any]:
        context, calls = self._context, FunctionCalls(self._context, source.name)
        options = template_options(context)
        return {
            "__name__": f"catena_rendered_{source.sls.replace('.', '_')}",
            "__file__": source.name,
            "__salt__": calls,
            "__grains__": plain(context.grains),
            "__pillar__": plain(context.pillar),
            "__opts__": options,
            "__sls__": source.sls,
            "__env__": source.saltenv,
            "salt": calls,
            "opts": options,
            "saltenv": source.saltenv,
            **{name: _Getter(calls, f"{name}.get") for name in _GETTERS},
            "include": self._include,
            "extend": Extended,
            "Map": map_class(context),
            **{key: value for key, value in self._names.items() if key not in _GETTERS},
        }

    def _include(self, *names: Any) -> None:
        self._data.setdefault("include", []).extend(names)

    # -- running -------------------------------------------------------------------------------

    def _execute(self, source: Source) -> Dict[str, Any]:
        """Run one file; return its global names."""
        scope = self._scope(source)
        text = _IMPORT.sub(lambda found: self._import(found, source, scope), source.text)
        try:
            code = compile(text, source.name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            place = SourceLine(source.name, getattr(error, "lineno", 0) or 0)
            raise SourceError(f"Python: {error_text(error)}", place, source.text) from None
        for name in _used(code):
            module = self._module(name) if name not in scope else ""
            if module:
                scope[name] = _StateModule(module, self)
        try:
            exec(code, scope)
        except SourceError:
            raise
        except (Exception, SystemExit) as error:
            # The file may raise anything; the error is raised again with its line.
            reason = error_line(error) if in_custom_file(error) else error_text(error)
            hint = self._hint(error)
            place = SourceLine(source.name, _line(source.name, error))
            raise SourceError(f"Python: {reason}{hint}", place, source.text) from error
        return scope

    def _module(self, name: str) -> str:
        """Return the state module that a class name stands for, or ""."""
        if not name[:1].isupper():
            return ""
        if name not in self._modules:
            module = _CAPITAL.sub("_", name).lower()
            # Custom state modules are known only after they were asked for.
            self._modules[name] = module if self._context.states.module(module) else ""
        return self._modules[name]

    def _hint(self, error: BaseException) -> str:
        name = getattr(error, "name", None) or ""
        if not isinstance(error, NameError) or not str(name)[:1].isupper():
            return ""
        near = nearest(str(name), [known for known, module in self._modules.items() if module])
        return f"; did you mean {near!r}?" if near else ""

    def _import(self, found: re.Match[str], source: Source, scope: Dict[str, Any]) -> str:
        """Give *scope* what an import names; return the text that replaces the line."""
        line = source.text.count("\n", 0, found.start()) + 1
        place = SourceLine(source.name, line)
        have = self._load(found["whole"] or found["file"], source, place)
        indent = found[0][: len(found[0]) - len(found[0].lstrip())]
        if found["whole"]:
            scope.update({key: value for key, value in have.items() if key[:1] != "_"})
            return f"{indent}pass"
        for part in found["names"].strip("() \t").split(","):
            name = _NAME.fullmatch(part.strip())
            if name is None:
                raise SourceError(f"not an import: {found[0].strip()}", place, source.text)
            if name[1] not in have:
                near = nearest(name[1], have)
                hint = f"; did you mean {near!r}?" if near else ""
                reason = f"{found['file']} has no {name[1]!r}{hint}"
                raise SourceError(reason, place, source.text)
            scope[name[2] or name[1]] = have[name[1]]
        return f"{indent}pass"

    def _load(self, address: str, source: Source, place: SourceLine) -> Dict[str, Any]:
        """Return the names of the file at *address*, run once."""
        known = self._imported.get(address)
        if known is not None:
            return known
        if len(self._imported) >= _IMPORTS:
            raise SourceError(f"more than {_IMPORTS} imported files", place, source.text)
        path = address[len(_SCHEME) :]
        local = self._context.files.fetch(path, source.saltenv)
        if local is None:
            raise SourceError(f"no file {address} in {source.saltenv!r}", place, source.text)
        text = decoded(local.read_bytes(), address)
        if text.startswith("#!"):
            text = text[len(text.split("\n", 1)[0]) :]
        # A file that imports itself sees what it has defined so far.
        scope = self._imported[address] = {}
        try:
            made = self._execute(Source(text, address, source.saltenv, source.sls, path))
        except SourceError as error:
            raise error.reached([place]) from error
        scope.update(made)
        return scope

    # -- declarations --------------------------------------------------------------------------

    def refer(self, module: str, ident: str, kind: str = "require") -> Requisite:
        """Return a reference to a state.

        Raises:
            ValueError: there is no such requisite.
        """
        if kind not in REQUISITES:
            near = nearest(kind, REQUISITES)
            raise ValueError(
                f"{kind!r} is no requisite" + (f"; did you mean {near!r}?" if near else "")
            )
        return Requisite(self._open, module, ident, kind)

    def declare(self, module: str, function: str, ident: str, given: Dict[str, Any]) -> Requisite:
        """Add a state, with the requisites of the enclosing `with` statements.

        Raises:
            ValueError: the file has declared this function for this id already.
        """
        full = f"{module}.{function}"
        arguments = {key: _value(key, given[key]) for key in sorted(given)}
        for requisite in self._open:
            arguments[requisite.kind] = [*arguments.get(requisite.kind, []), requisite.data]
        body = [{key: value} for key, value in arguments.items()]
        above: Tuple[str, ...] = ()
        into = self._data
        if isinstance(ident, Extended):
            above, into = ("extend",), self._data.setdefault("extend", {})
        state = into.setdefault(str(ident), {})
        if full in state:
            raise ValueError(f"the file declares {full} of {str(ident)!r} twice")
        state[full] = body
        line = _line(self._source.name)
        for path in ((str(ident),), (str(ident), full)):
            self._lines.setdefault((*above, *path), line)
        return self.refer(module, ident)

    def knows(self, full: str) -> Optional[str]:
        """Return None if *full* is a state function, else the reason why not."""
        if full in self._context.states:
            return None
        try:
            self._context.states[full]
        except NotFoundError as error:
            return str(error)
        return None


class _StateModule:
    """`File`: declares states of one module and refers to them."""

    def __init__(self, module: str, file: _File) -> None:
        self._module = module
        self._file = file

    def __call__(self, id_: str, requisite: str = "require") -> Requisite:
        return self._file.refer(self._module, id_, requisite)

    def __getattr__(self, name: str) -> Callable[..., Requisite]:
        reason = self._file.knows(f"{self._module}.{name}")
        if reason is not None:
            raise AttributeError(reason)

        def declare(id_: str, /, **kwargs: Any) -> Requisite:
            return self._file.declare(self._module, name, id_, kwargs)

        return declare


class _Getter:
    """`pillar("a:b")`: an execution function under a short name."""

    def __init__(self, calls: FunctionCalls, name: str) -> None:
        self._calls = calls
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls[self._name](*args, **kwargs)


def _class_name(module: str) -> str:
    """Return `SshKnownHosts` for ssh_known_hosts."""
    return "".join(part.capitalize() for part in module.split("_"))


def _value(key: str, value: Any) -> Any:
    """Return an argument as data: references become requisites."""
    if key in REQUISITES and not isinstance(value, (list, tuple)):
        value = [value]
    if isinstance(value, Requisite):
        return value.data
    if isinstance(value, (list, tuple)):
        return [_value("", item) for item in value]
    return value


def _used(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses, also within its functions and classes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _used(constant)


def _line(file: str, error: Optional[BaseException] = None) -> int:
    """Return the line of *file* that raised *error*, or that is calling now; 0 if none is."""
    if error is not None:
        found = 0
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                found = trace.tb_lineno
            trace = trace.tb_next
        return found
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return 0
