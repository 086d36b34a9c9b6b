"""Typed registries, and the marks that make a function callable by name.

Built-ins are listed in a literal index (name -> module path) and imported at first use, because
scanning folders would make a command line too slow. Entry points are for third parties and are
read only for names that are not built in.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    FrozenSet,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

from catena.core.errors import NotFoundError
from catena.core.frozen import dataclass
from catena.core.signatures import Parameter, parameters
from catena.core.suggest import unknown

if TYPE_CHECKING:
    import inspect

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__catena__"
#: Origin of catena's own plug-ins.
BUILT_IN = "built in"


@dataclass(frozen=True)
class FunctionMark:
    """Properties of a callable function."""

    #: Name after the dot, if it is not a valid Python identifier ("list", "apply").
    name: str = ""
    #: Read-only and instant: may run inside the daemon without a job process.
    inline: bool = False
    #: Changes nothing on the host: never queued behind state runs, and needs no systemd scope.
    reads: bool = False
    #: One at a time per minion, in a visible queue (state runs).
    queued: bool = False
    #: Name of the outputter that suits the value.
    out: str = ""
    #: Which values count as failed: "" none, "bool" False, "states" Salt's dict with a failed
    #: state.
    fails: str = ""
    #: Leaves its process unchanged, so the next job may reuse it.
    clean: bool = False
    #: Continues from its journal when it is called again after a crash; others are called once.
    resumable: bool = False


def function(
    *,
    name: str = "",
    inline: bool = False,
    reads: bool = False,
    queued: bool = False,
    out: str = "",
    fails: str = "",
    clean: bool = False,
    resumable: bool = False,
) -> Callable[[F], F]:
    """Mark a module's function `f(context, ...)` as callable by name."""

    def mark(func: F) -> F:
        label = name or func.__name__.rstrip("_")
        quiet = reads or inline
        made = FunctionMark(label, inline, quiet, queued, out, fails, clean, resumable)
        setattr(func, MARK, made)
        return func

    return mark


#: Name for `StateMark.wants` with which a state function receives its low chunk as a dict.
LOW = "__low__"


#: Takes a context, and the name and arguments of each of several states of one function.
LookAhead = Callable[[Any, Sequence[Tuple[str, Mapping[str, Any]]]], ContextManager[None]]


@dataclass(frozen=True)
class StateMark:
    """Properties of a state function."""

    name: str = ""
    #: Compiler keywords that the function receives (Salt passes none by default).
    wants: tuple[str, ...] = ()
    #: Context manager around consecutive states of this function, called with all of them.
    ahead: Optional[LookAhead] = None
    #: Returns the names of arguments that the code of a custom file reads from `**kwargs`.
    reads: Callable[[], FrozenSet[str]] = frozenset


def state(
    *, name: str = "", wants: tuple[str, ...] = (), ahead: Optional[LookAhead] = None
) -> Callable[[F], F]:
    """Mark `f(context, name, **arguments) -> StateResult` as a state."""

    def mark(func: F) -> F:
        setattr(func, MARK, StateMark(name or func.__name__.rstrip("_"), wants, ahead))
        return func

    return mark


class _Unshown:
    """Stands for a default without a readable form."""

    def __repr__(self) -> str:
        return "…"


def _readable(param: inspect.Parameter) -> inspect.Parameter:
    param = param.replace(annotation=param.empty)
    return param.replace(default=_Unshown()) if " at 0x" in repr(param.default) else param


@dataclass(frozen=True)
class Plugin:
    """A callable of some kind, with its origin."""

    name: str
    call: Callable[..., Any]
    mark: Any
    #: "built in", the distribution of an entry point, or the salt:// path of a custom file.
    origin: str = BUILT_IN

    def parameters(self) -> Tuple[Parameter, ...]:
        """Return its parameters without the context."""
        return parameters(self.call)[1:]

    def signature(self) -> inspect.Signature:
        """Return its signature without the context, for display."""
        import inspect

        found = inspect.signature(self.call)
        return found.replace(parameters=list(found.parameters.values())[1:])

    def usage(self) -> str:
        """Return its arguments for display: names and defaults without types."""
        import inspect

        found = [_readable(param) for param in self.signature().parameters.values()]
        return str(inspect.Signature(found))

    def doc(self) -> str:
        """Return its docstring, or ""."""
        import inspect

        return inspect.getdoc(self.call) or ""


def marked(module: ModuleType, prefix: str, kind: type) -> Dict[str, Plugin]:
    """Return the callables of *module* that carry a mark of *kind*, by full name."""
    found = {}
    for member in vars(module).values():
        mark = _mark_of(member)
        if isinstance(mark, kind):
            name = f"{prefix}.{mark.name}"  # type: ignore[attr-defined]  # every mark has a name
            found[name] = Plugin(name, member, mark)
    return found


def _mark_of(member: Any) -> Any:
    return getattr(member, MARK, None)


@cache
def built_in(path: str, prefix: str, kind: type) -> Mapping[str, Plugin]:
    """Return the result of `marked` for module *path*, cached since a module does not change.

    A process that runs many jobs thus scans a module once.
    """
    return marked(import_module(path), prefix, kind)


class Registry:
    """The plug-ins of one kind, loaded by the part of the name before the dot.

    Args:
        kind: name of the kind in messages ("function", "state").
        index: module name -> dotted path of the Python module.
        mark: FunctionMark or StateMark.
        late: returns a whole module (name -> plug-ins) that the index lacks or that overrides it:
            custom files and entry points. Custom files override built-ins, as in Salt.
    """

    def __init__(
        self,
        kind: str,
        index: Mapping[str, str],
        mark: type,
        late: Optional[Callable[[str], Optional[Dict[str, Plugin]]]] = None,
    ) -> None:
        self.kind = kind
        self._index = dict(index)
        self._mark = mark
        self._late = late
        self._loaded: Dict[str, Mapping[str, Plugin]] = {}

    def module(self, prefix: str) -> Mapping[str, Plugin]:
        """Return the plug-ins of module *prefix* by full name; empty if there is none."""
        if prefix not in self._loaded:
            found: Optional[Mapping[str, Plugin]] = self._late(prefix) if self._late else None
            if found is None:
                path = self._index.get(prefix)
                found = built_in(path, prefix, self._mark) if path else {}
            self._loaded[prefix] = found
        return self._loaded[prefix]

    def refusal(self, prefix: str) -> str:
        """Return why the existing module *prefix* provides nothing, or ""."""
        return ""

    def __contains__(self, name: str) -> bool:
        return name in self.module(name.partition(".")[0])

    def __getitem__(self, name: str) -> Plugin:
        try:
            return self.module(name.partition(".")[0])[name]
        except KeyError:
            raise NotFoundError(unknown(self.kind, name, self.names())) from None

    def names(self) -> list[str]:
        """Return every name; only for messages and docs, since it imports all built-in modules."""
        return sorted(name for prefix in self.prefixes() for name in self.module(prefix))

    def prefixes(self) -> list[str]:
        """Return the module names that are known without an import."""
        return sorted({*self._index, *(name for name, found in self._loaded.items() if found)})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def template_names(self) -> Mapping[Tuple[str, str], Callable[..., Any]]:
        """Return Jinja filters and tests of plug-ins: (kind, name) -> f(context, ...).

        The kind is "filter" or "test". Only custom files have any.
        """
        return {}

    def forget(self) -> None:
        """Reload late plug-ins at their next use (after saltutil.sync_*)."""
        self._loaded.clear()
