"""Records of a state run, from the declaration in an SLS file to the row of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import (
    Any,
    Callable,
    Dict,
    Hashable,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Union,
)

from catena.core.frozen import dataclass, field
from catena.core.types import SourceLine

Order = Union[int, float]

#: Parts of a result's key: module, id, name, function.
TAG_SEPARATOR = "_|-"

#: Source line of data without a file.
NOWHERE = SourceLine("")

#: Requisites that decide whether and after which states a state runs, in order of evaluation.
FORWARD = (
    "require",
    "require_any",
    "watch",
    "watch_any",
    "prereq",
    "onfail",
    "onfail_any",
    "onfail_all",
    "onchanges",
    "onchanges_any",
)
#: Requisites without effect on the order: `listen` acts at the end, `use` copies arguments.
LOOSE = ("listen", "use")
#: Reverse requisites, written in the required state.
REVERSE = {
    f"{kind}_in": kind
    for kind in ("require", "watch", "onchanges", "onfail", "prereq", "listen", "use")
}
REQUISITES = frozenset((*FORWARD, *LOOSE, *REVERSE))

#: Keywords that the compiler and the run evaluate. A state function receives one only if its
#: signature or its mark (`wants`) names it.
KEYWORDS = REQUISITES | frozenset(
    (
        "aggregate",
        "check_cmd",
        "creates",
        "failhard",
        "fire_event",
        "onlyif",
        "order",
        "parallel",
        "reload_grains",
        "reload_modules",
        "reload_pillar",
        "retry",
        "runas",
        "runas_password",
        "saltenv",
        "test",
        "umask",
        "unless",
    )
)


class StateLine(SourceLine):
    """Source line of a module below its id; also finds the lines of its arguments.

    Lines are looked up only on request, because a correct state needs none.

    Args:
        written: the list below `module:`, as written.
        find: returns the line of a path below that list; without a path, the module's line.
    """

    written: Sequence[Any]
    find: Callable[..., SourceLine]

    def __init__(self, written: Sequence[Any], find: Callable[..., SourceLine]) -> None:
        # The base class is frozen.
        self.__dict__.update(written=written, find=find)

    @property
    def file(self) -> str:
        """Path or address of the file."""
        return self.find().file

    @property
    def line(self) -> int:
        """Line of the module."""
        return self.find().line

    def of(self, argument: Any, entry: Any = None) -> SourceLine:
        """Return the line of an argument (or function), or of one entry of its list.

        Args:
            argument: its name, or the whole item.
            entry: the entry as written, or its (module, id) pair.
        """
        for index, item in enumerate(self.written):
            named = isinstance(item, Mapping) and isinstance(argument, Hashable)
            if item == argument:
                return self.find(index)
            if named and argument in item:
                return self.find(index, argument, *_position(item[argument], entry))
        return self


def _position(entries: Any, wanted: Any) -> Iterator[int]:
    """Yield the position of the first of *entries* that equals *wanted*, if any."""
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        pair = isinstance(entry, Mapping) and isinstance(wanted, tuple) and len(wanted) == 2
        if entry == wanted or (pair and entry.get(wanted[0]) == wanted[1]):
            yield index
            return
        if isinstance(wanted, tuple) and entry == wanted[-1]:
            yield index
            return


@dataclass(frozen=True)
class Declaration:
    """One module under one id, as written and after `extend`."""

    id: str
    state: str
    #: The list below `module:` in Salt's shape: the function's name and one-key mappings.
    items: Tuple[Any, ...]
    sls: str
    env: str
    #: Position among all states of the run, from 10000; None if the data has none.
    position: Any
    line: SourceLine
    #: The SLS files whose `include` first led to its own file, nearest first.
    included_from: Tuple[str, ...] = ()


@dataclass(frozen=True)
class High:
    """Everything that the SLS files of a run declare, before extend and requisites."""

    states: Tuple[Declaration, ...]
    #: `extend` blocks in reading order: (id, declarations of that id).
    extends: Tuple[Declaration, ...] = ()
    excluded_ids: frozenset[str] = frozenset()
    excluded_sls: frozenset[str] = frozenset()
    #: Entries of all `exclude` lists, as written.
    excludes: Tuple[Any, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return the high data in Salt's form, as state.show_sls prints it."""
        shown: Dict[str, Any] = {}
        for one in self.states:
            body = shown.setdefault(one.id, {})
            items: List[Any] = list(one.items)
            if one.position is not None:
                items.append({"order": one.position})
            body[one.state] = items
            body["__sls__"] = one.sls
            body["__env__"] = one.env
            if one.included_from:
                body["__sls_included_from__"] = list(one.included_from)
        if self.extends:
            shown["__extend__"] = _shown_extends(self.extends)
        if self.excludes:
            shown["__exclude__"] = list(self.excludes)
        return shown


def _shown_extends(extends: Sequence[Declaration]) -> List[Dict[str, Any]]:
    """Return `extend` blocks in Salt's form: one mapping per id of a file."""
    bodies: Dict[Tuple[str, str, str], Dict[str, Any]] = {}
    for one in extends:
        body = bodies.setdefault((one.env, one.sls, one.id), {})
        body.update({one.state: list(one.items), "__sls__": one.sls, "__env__": one.env})
    return [{id_: body} for (_, _, id_), body in bodies.items()]


def first_key(item: Any) -> Any:
    """Return the name of an argument; None for the name of the function.

    An item may hold several arguments by mistake (the lines below `- context:` not indented).
    All of them take effect, but Salt classifies an item by its first key.
    """
    return next(iter(item), None) if type(item) is dict or isinstance(item, Mapping) else None


def sets_order(items: Sequence[Any]) -> bool:
    """Return whether a declaration has its own `order`."""
    for item in items:
        if type(item) is not dict:
            found = first_key(item) == "order"
        else:
            # The first check is the faster one and usually sufficient.
            found = "order" in item and first_key(item) == "order"
        if found:
            return True
    return False


@dataclass(frozen=True)
class Low:
    """One call of one state function, with everything that decides when and whether it runs."""

    state: str
    fun: str
    id: str
    name: str
    #: Dotted name of its SLS file; None for data without a file (state.single).
    sls: Any
    env: str
    #: States with a lower order run earlier, after their requisites.
    order: Order
    #: Arguments of the function, without name.
    args: Mapping[str, Any] = field(default_factory=dict)
    #: The compiler's own arguments (KEYWORDS) as written: requisites, conditions, retry, …
    keywords: Mapping[str, Any] = field(default_factory=dict)
    #: Source line of the declaration.
    line: SourceLine = NOWHERE
    included_from: Tuple[str, ...] = ()
    #: The order that the states it needs inherit: the order as written, before negative orders are
    #: counted from the end and `names` get fractions. None: same as `order`.
    written_order: Optional[Order] = None
    #: Position among all low states in declaration order.
    declared: int = 0
    #: Keys of the states that are tried for a `prereq` just before this state runs.
    tries: Tuple[str, ...] = ()

    def line_of(self, argument: str, entry: Any = None) -> SourceLine:
        """Return the source line of an argument or of an entry of its list, or the state's."""
        return self.line.of(argument, entry) if isinstance(self.line, StateLine) else self.line

    @property
    def key(self) -> str:
        """The key of its row: `<state>_|-<id>_|-<name>_|-<fun>`."""
        return TAG_SEPARATOR.join((self.state, self.id, self.name, self.fun))

    @property
    def label(self) -> str:
        """Its name in comments of states that need it: `<sls>.<id>`."""
        return f"{self.sls}.{self.id}"

    def as_dict(self) -> Dict[str, Any]:
        """Return Salt's low chunk, as state.show_low_sls prints it."""
        shown: Dict[str, Any] = {"state": self.state, "name": self.name}
        if self.sls is not None:
            shown["__sls__"] = self.sls
        shown["__env__"] = self.env
        if self.included_from:
            shown["__sls_included_from__"] = list(self.included_from)
        shown["__id__"] = self.id
        shown.update(self.args)
        shown.update(self.keywords)
        shown["order"] = self.order
        shown["fun"] = self.fun
        return shown


#: One row of a run: name, changes, result, comment, __id__, __sls__, __run_num__, start_time,
#: duration (ms); if they apply, also warnings, skip_watch, `__state_ran__: False`.
Row = Dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """A run that is ready to start, or the errors that prevent it."""

    #: Low states in run order.
    low: Tuple[Low, ...]
    #: One text per error; unless this is empty, nothing may run.
    errors: Tuple[str, ...] = ()
    #: Salt's high data as declared in the SLS files.
    high: Mapping[str, Any] = field(default_factory=dict)


class RunHooks(Protocol):
    """Observes and controls a run: a journal, a progress display, a cancellation."""

    def before(self, low: Low) -> Union[Row, None]:
        """Handle the start of *low*, whose requisites are met.

        Returns:
            A recorded row that replaces the run of *low* (`after` is then not called), or None.
        """

    def perform(self, low: Low, work: Callable[[], Row]) -> Row:
        """Run *work*, the call of *low*, and return its row."""

    def after(self, low: Low, row: Row) -> None:
        """Handle *low*'s row; its `__state_ran__` is False if `before` was not called."""

    def cancelled(self) -> bool:
        """Return whether no further state may start; called before every state."""
