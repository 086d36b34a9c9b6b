"""Adapter between Salt's contract for custom modules and the plug-ins of catena.

Every call of a custom file's function gets `__salt__`, `__grains__`, `__pillar__`, `__opts__`,
`__context__`, `__states__`, `__env__` and `__utils__` from its context. `__virtual__`,
`__virtualname__`, `__func_alias__` and `__outputter__` are honoured. `import salt.exceptions`,
`salt.utils` and some more work while it is loaded or runs (`salt_names`). No other module of
catena knows this contract.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

from catena.core.context import Context
from catena.core.custom_faults import error_line, file_name, module_name
from catena.core.dry_run import unguarded
from catena.core.errors import CatenaError, NotFoundError
from catena.core.frozen import dataclass
from catena.core.logs import logger
from catena.core.patterns import lazy_pattern
from catena.core.plugins import LOW, FunctionMark, Plugin, Registry, StateMark, built_in
from catena.core.suggest import nearest
from catena.core.types import SourceLine, StateResult
from catena.runtime.custom_code import CheckedLoader
from catena.runtime.function_maps import FunctionMap, ModuleView, OptionMap, StateMap
from catena.runtime.mentions import mentioned_names

log = logger(__name__)

_VIRTUAL_NAME = lazy_pattern(r"""^__virtualname__\s*=\s*['"]([A-Za-z0-9_]+)['"]""", re.M)
_QUOTED = lazy_pattern(r"""['"]([A-Za-z0-9_]+)['"]""")
_ABSENT = object()


class MalformedStateError(CatenaError):
    """A custom state function did not return a valid state result."""


class EndedError(CatenaError):
    """A custom file tried to end the process."""


@dataclass(frozen=True)
class LoadedModule:
    """One loaded custom file."""

    #: Its name before the dot: __virtualname__, the value of __virtual__, or the file's name.
    name: str
    module: ModuleType
    #: Why it is not available, as a sentence without its subject; "" if it is.
    refused: str = ""
    #: Further names (`__virtual_aliases__`).
    aliases: Tuple[str, ...] = ()


class Loader:
    """Custom files of one host, loaded at their first use.

    Args:
        extmods: folder with a folder per kind ("modules", "states", "grains", …).
    """

    def __init__(self, extmods: Path) -> None:
        self._extmods = extmods
        self._context: Optional[Context] = None
        self._loaded: Dict[Tuple[str, Path], LoadedModule] = {}
        self._touched = False
        #: State modules whose mod_init has run.
        self.initiated: Set[str] = set()

    def bind(self, context: Context) -> None:
        """Set the context for calls of `__virtual__`."""
        self._context = context

    @property
    def untouched(self) -> bool:
        """Return whether no custom file was loaded, so no foreign code has run."""
        return not self._touched

    def forget(self) -> None:
        """Reload everything at its next use."""
        self._loaded.clear()

    def files(self, kind: str) -> List[Path]:
        """Return the custom files and packages of a kind, sorted."""
        folder = f"{self._extmods}/{kind}"
        if not os.path.isdir(folder):  # noqa: PTH112  # asked for each name, and mostly not there
            return []
        return sorted(
            path
            for path in Path(folder).iterdir()
            if path.suffix == ".py" or (path / "__init__.py").is_file()
        )

    def find(self, kind: str, name: str) -> Tuple[Optional[LoadedModule], str]:
        """Return (the file that provides *name*, "") or (None, why there is none, or "").

        Only files that can provide the name are loaded: it is the file's own name, or appears in
        quotes in its text (`__virtualname__`, the value of `__virtual__`).
        """
        reason = ""
        candidates = self.files(kind)
        candidates.sort(key=lambda path: path.stem != name)
        for path in candidates:
            text = _text(path)
            if path.stem != name and name not in _QUOTED.findall(text):
                continue
            loaded = self.load(kind, path)
            if name in (loaded.name, *loaded.aliases) and not loaded.refused:
                return loaded, ""
            if loaded.refused and name in (path.stem, loaded.name):
                reason = loaded.refused
        return None, reason

    def load(self, kind: str, path: Path) -> LoadedModule:
        """Return a custom file, loaded at the first call."""
        key = (kind, path)
        if key not in self._loaded:
            self._touched = True
            self._loaded[key] = self._load_anew(kind, path)
        return self._loaded[key]

    @unguarded()
    def _load_anew(self, kind: str, path: Path) -> LoadedModule:
        full_name = module_name(kind, path.stem)
        code = _code(path)
        loader = CheckedLoader(full_name, str(code))
        spec = importlib.util.spec_from_file_location(full_name, code, loader=loader)
        if spec is None or spec.loader is None:
            return LoadedModule(path.stem, ModuleType(full_name), "not a Python file")
        module = importlib.util.module_from_spec(spec)
        name = path.stem
        context = self._context
        try:
            with _salt_names(context), injected(module, context, self):
                # Do not leave it in sys.modules, where other imports could find it.
                sys.modules[full_name] = module
                spec.loader.exec_module(module)
                name, refused = _virtual(module, path.stem)
                begin = module.__dict__.get("__init__")
                if not refused and begin is not None and context is not None:
                    begin(module.__dict__["__opts__"])
        except (Exception, SystemExit) as error:  # foreign code: any error belongs to the file
            fault = error_line(error, file_name(full_name))
            log.warning("a custom file can't be loaded: %s", fault)
            log.debug("%s", path, exc_info=True)
            return LoadedModule(name, module, f"can't be loaded: {fault}")
        finally:
            for known in [one for one in sys.modules if f"{one}.".startswith(f"{full_name}.")]:
                del sys.modules[known]
        aliases = tuple(str(one) for one in getattr(module, "__virtual_aliases__", ()))
        return LoadedModule(name, module, refused, aliases)

    def module_functions(self, kind: str, name: str) -> Optional[Dict[str, Plugin]]:
        """Return the plug-ins of the custom file that provides *name*, or None."""
        loaded, _ = self.find(kind, name)
        return self._functions(kind, name, loaded) if loaded else None

    def replaces(self, kind: str, name: str) -> bool:
        """Return whether a custom file has the name of a module, and so replaces it.

        A file that only claims the name (`__virtualname__`) extends the module, as in Salt.
        """
        loaded, _ = self.find(kind, name)
        return loaded is not None and loaded.module.__name__.rpartition(".")[2] == name

    def _functions(self, kind: str, name: str, loaded: LoadedModule) -> Dict[str, Plugin]:
        return {
            f"{name}.{label}": self._plugin(kind, f"{name}.{label}", function, loaded)
            for label, function in public_functions(loaded.module).items()
        }

    def _plugin(
        self, kind: str, name: str, function: FunctionType, loaded: LoadedModule
    ) -> Plugin:
        origin = file_name(loaded.module.__name__)
        if kind == "states":
            # mod_aggregate is not a state: it receives low chunks and returns one.
            calls = _call_function if name.endswith(".mod_aggregate") else _call_state
            call: Callable[..., Any] = partial(calls, self, loaded.module, function)
            reads = partial(mentioned_names, loaded.module)
            mark: Any = StateMark(name.partition(".")[2], (LOW,), reads=reads)
        else:
            outputters = getattr(loaded.module, "__outputter__", {})
            label = name.partition(".")[2]
            call = partial(_call_function, self, loaded.module, function)
            mark = FunctionMark(label, out=str(outputters.get(label, "")))
        return Plugin(name, _with_signature(call, function), mark, origin)


class CustomRegistry(Registry):
    """A registry that also finds custom files, and explains why one is unavailable.

    Args:
        kind: name of the kind in messages.
        index: the built-ins.
        mark: FunctionMark or StateMark.
        loader: of the custom files.
        folder: "modules" or "states".
    """

    def __init__(
        self, kind: str, index: Mapping[str, str], mark: type, loader: Loader, folder: str
    ) -> None:
        super().__init__(kind, index, mark, partial(loader.module_functions, folder))
        self._loader = loader
        self._folder = folder
        self._built_in = dict(index)
        self._template_names: Optional[Dict[Tuple[str, str], Callable[..., Any]]] = None

    def utilities(self, context: Context) -> Mapping[str, Callable[..., Any]]:
        """Return `__utils__` of a call: the functions of custom `_utils` files."""
        return UtilityMap(context, self._loader)

    def module(self, prefix: str) -> Mapping[str, Plugin]:
        """Return the plug-ins of module *prefix*: custom ones, built-in ones, or both."""
        if prefix not in self._loaded:
            custom = self._late(prefix) if self._late else None
            path = self._built_in.get(prefix)
            if custom is None:
                found: Mapping[str, Plugin] = built_in(path, prefix, self._mark) if path else {}
            elif path and custom and not self._replaces(prefix):
                found = {**built_in(path, prefix, self._mark), **custom}
            else:
                found = custom
            self._loaded[prefix] = found
        return self._loaded[prefix]

    def _replaces(self, prefix: str) -> bool:
        return self._loader.replaces(self._folder, prefix)

    def missing(self, name: str) -> str:
        """Return why *name* is unavailable, in Salt's words if a custom file refused."""
        prefix = name.partition(".")[0]
        return self.refusal(prefix) or f"'{name}' is not available."

    def refusal(self, prefix: str) -> str:
        """Return why the custom file of module *prefix* provides nothing, or ""."""
        reason = self._loader.find(self._folder, prefix)[1]
        return f"'{prefix}' {reason}" if reason else ""

    def __getitem__(self, name: str) -> Plugin:
        found = self.module(name.partition(".")[0]).get(name)
        if found is not None:
            return found
        text = self.missing(name)
        if text.endswith("available."):
            near = nearest(name, self._nearby(name))
            if near:
                text = f"{text} Did you mean {near!r}?"
            elif self.kind == "function" and name.partition(".")[0] not in self._built_in:
                text = f"{text} Custom modules come with saltutil.sync_modules."
        raise NotFoundError(text)

    def _nearby(self, name: str) -> List[str]:
        """Return names to suggest in a message, importing at most one module."""
        prefix, _, function = name.partition(".")
        known = [other for other in self.prefixes() if self.module_known(other)]
        inside = self.module(prefix)
        if not inside:
            prefix = nearest(prefix, known) or ""
            inside = self.module(prefix) if prefix else {}
        offered = f"{prefix}.{function}"
        return [offered] if offered in inside else list(inside)

    def module_known(self, prefix: str) -> bool:
        """Return whether *prefix* is built in or was loaded with functions."""
        return prefix in self._built_in or bool(self._loaded.get(prefix))

    def names(self) -> List[str]:
        """Return every name, of built-ins and custom files; this imports all of them."""
        for path in self._loader.files(self._folder):
            text = _text(path)
            virtual = _VIRTUAL_NAME.search(text)
            self.module(virtual[1] if virtual else path.stem)
        return super().names()

    def template_names(self) -> Dict[Tuple[str, str], Callable[..., Any]]:
        """Return the Jinja filters and tests of custom files, as `Registry` describes."""
        if self._template_names is None:
            from catena.runtime.salt import jinja_names

            call = partial(_call_function, self._loader)
            self._template_names = jinja_names.of_files(self._loader, call)
        return self._template_names

    def forget(self) -> None:
        """Reload custom files at their next use."""
        super().forget()
        self._template_names = None
        self._loader.forget()


def _code(path: Path) -> Path:
    """Return the Python file of a custom file or package."""
    inside = path / "__init__.py"
    return inside if inside.exists() else path


def _text(path: Path) -> str:
    """Return the text of a custom file or package; "" if it is no regular file."""
    code = _code(path)
    return code.read_text(encoding="utf-8", errors="replace") if code.is_file() else ""


def public_functions(module: ModuleType) -> Dict[str, FunctionType]:
    """Return the public functions of a custom file by their external names."""
    aliases = getattr(module, "__func_alias__", {})
    allowed = getattr(module, "__load__", None)
    found = {}
    for name, member in vars(module).items():
        if name.startswith("_") or not isinstance(member, FunctionType):
            continue
        if member.__module__ != module.__name__ or (allowed is not None and name not in allowed):
            continue
        found[str(aliases.get(name, name))] = member
    return found


def _virtual(module: ModuleType, stem: str) -> Tuple[str, str]:
    """Return (name, "") or (name, why it is not available)."""
    ask = getattr(module, "__virtual__", None)
    if not callable(ask):
        # As in Salt, __virtualname__ alone is ignored.
        return stem, ""
    name = getattr(module, "__virtualname__", stem)
    said: Any = ask()
    reason = ""
    if isinstance(said, tuple):
        said, reason = said[0], str(said[1]) if len(said) > 1 else ""
    if isinstance(said, str):
        return said, ""
    if said:
        return str(name), ""
    return str(name), f"__virtual__ returned False: {reason or 'no reason given'}"


@contextmanager
def injected(
    module: ModuleType,
    context: Optional[Context],
    loader: Loader,
    low: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[None]:
    """Set Salt's names in *module* while its code runs; then restore the previous values."""
    if context is None:
        yield
        return
    names = _names(context, loader, low)
    before = {name: module.__dict__.get(name, _ABSENT) for name in names}
    module.__dict__.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            # Keep the names after the first call: closures and threads of the module may still use
            # them, and an old value is better than a NameError.
            if value is not _ABSENT:
                module.__dict__[name] = value


def _names(context: Context, loader: Loader, low: Mapping[str, Any]) -> Dict[str, Any]:
    opts = OptionMap(context.opts)
    opts.update(test=context.test, saltenv=context.saltenv)
    opts.update(grains=context.grains, pillar=context.pillar)
    return {
        "__salt__": FunctionMap(context, context.functions),
        "__states__": StateMap(context, context.states),
        "__grains__": context.grains,
        "__pillar__": context.pillar,
        "__opts__": opts,
        "__context__": context.scratch,
        "__env__": context.saltenv,
        "__utils__": UtilityMap(context, loader),
        "__low__": low,
        "__instance_id__": context.job.jid if context.job else "",
        "__proxy__": {},
    }


class UtilityMap(Mapping[str, Callable[..., Any]]):
    """`__utils__`: functions of custom `_utils` files, by "file.function"."""

    def __init__(self, context: Context, loader: Loader) -> None:
        self._context = context
        self._loader = loader

    def __getitem__(self, name: str) -> Callable[..., Any]:
        found = self._loader.module_functions("utils", name.partition(".")[0]) or {}
        if name not in found:
            raise KeyError(f"'{name}' is not among the custom _utils")
        return partial(found[name].call, self._context)

    def __getattr__(self, module: str) -> ModuleView:
        """Make `__utils__.mine.f()` equal to `__utils__["mine.f"]()`."""
        if module.startswith("__"):
            raise AttributeError(module)
        return ModuleView(self, module)

    def __iter__(self) -> Iterator[str]:
        for path in self._loader.files("utils"):
            yield from self._loader.module_functions("utils", path.stem) or {}

    def __len__(self) -> int:
        return sum(1 for _ in self)


@unguarded()
def _call_function(
    loader: Loader,
    module: ModuleType,
    function: FunctionType,
    context: Context,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    with _salt_names(context), injected(module, context, loader):
        return _ended(function, *args, **kwargs)


def _ended(function: FunctionType, *args: Any, **kwargs: Any) -> Any:
    """Call *function*; if it tries to end the process, raise an error instead."""
    try:
        return function(*args, **kwargs)
    except SystemExit as error:
        raise EndedError(error_line(error)) from None


@unguarded()
def _call_state(
    loader: Loader,
    module: ModuleType,
    function: FunctionType,
    context: Context,
    /,
    *args: Any,
    **kwargs: Any,
) -> StateResult:
    low = kwargs.pop(LOW, {})
    with _salt_names(context), injected(module, context, loader, low):
        begin = getattr(module, "mod_init", None)
        if begin is not None and low and module.__name__ not in loader.initiated:
            loader.initiated.add(module.__name__)
            _ended(begin, low)
        ret = _ended(function, *args, **kwargs)
    malformed = _malformed(ret)
    if malformed:
        line = SourceLine(file_name(module.__name__), function.__code__.co_firstlineno)
        raise MalformedStateError(f"{malformed} ({function.__name__}, {line})")
    comment = ret["comment"]
    if isinstance(comment, (list, tuple)):
        comment = "\n".join(str(line) for line in comment)
    warnings = tuple(str(text) for text in ret.get("warnings", ()))
    given = ret["result"]
    # As in Salt: None stays; "yes" and any other text that is not empty is True.
    result = None if given is None else bool(given)
    return StateResult(result, ret["changes"], str(comment), warnings)


def _malformed(ret: Any) -> str:
    """Return what is wrong with a custom state's return, in Salt's words; "" if nothing."""
    if not isinstance(ret, dict):
        kind = type(ret).__name__
        return f"Malformed state return. Data must be a dictionary type, not {kind}."
    missing = [key for key in ("name", "result", "changes", "comment") if key not in ret]
    if missing:
        return f"The following keys were not present in the state return: {', '.join(missing)}."
    if not isinstance(ret["changes"], dict):
        return f"'Changes' should be a dictionary, not {type(ret['changes']).__name__}."
    return ""


def _salt_names(context: Optional[Context]) -> ContextManager[None]:
    # Imported here, because only custom files need it and most hosts have none.
    from catena.runtime.salt.names import salt_names

    return salt_names(context)


def _with_signature(call: Callable[..., Any], function: FunctionType) -> Callable[..., Any]:
    """Return *call* with the signature of *function* after a context, for binding and docs."""

    def custom(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        return call(context, *args, **kwargs)

    import inspect

    found = inspect.signature(function)
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_ONLY)
    parameters = list(found.parameters.values())
    clash = [p.name for p in parameters if p.name == "context"]
    if clash:
        first = first.replace(name="catena_context")
    # A positional-only parameter may precede any kind of parameter.
    custom.__signature__ = found.replace(parameters=[first, *parameters])  # type: ignore[attr-defined]
    custom.__doc__ = function.__doc__
    custom.__name__ = function.__name__
    custom.__module__ = function.__module__
    return custom
