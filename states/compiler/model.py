"""What a state run is made of, from the declaration in an SLS file to the row of its result."""

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

#: Place of data that came from no file.
NOWHERE = SourceLine("")

#: Requisites that say when, or after what, a state runs, in the order in which they are looked at.
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
#: Requisites that nothing waits for: `listen` acts at the end, `use` copies arguments.
LOOSE = ("listen", "use")
#: The same, written at the other end.
REVERSE = {
    f"{kind}_in": kind
    for kind in ("require", "watch", "onchanges", "onfail", "prereq", "listen", "use")
}
REQUISITES = frozenset((*FORWARD, *LOOSE, *REVERSE))

#: What the compiler and the run read themselves. A state function sees one of these only when its
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
    """Where a module stands below its id; finds the lines of its arguments when one is wrong.

    It looks for lines when somebody asks, which is seldom: of a sound state nobody does.

    Args:
        written: the list below `module:`, as written.
        find: line of a path below that list; without a path that of the module.
    """

    written: Sequence[Any]
    find: Callable[..., SourceLine]

    def __init__(self, written: Sequence[Any], find: Callable[..., SourceLine]) -> None:
        # The record that it stands for can't be changed.
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
            entry: the entry as written, or a (module, id) pair of it.
        """
        for index, item in enumerate(self.written):
            named = isinstance(item, Mapping) and isinstance(argument, Hashable)
            if item == argument:
                return self.find(index)
            if named and argument in item:
                return self.find(index, argument, *_position(item[argument], entry))
        return self


def _position(entries: Any, wanted: Any) -> Iterator[int]:
    """Yield the position of the first of *entries* that is *wanted*."""
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
    """One module under one id, as written (and as `extend` left it)."""

    id: str
    state: str
    #: The list below `module:`, in Salt's shape: the function's name and one-key mappings.
    items: Tuple[Any, ...]
    sls: str
    env: str
    #: Place among all states of the run, from 10000; None where the data gives none.
    position: Any
    line: SourceLine
    #: The SLS files through which its own was first met, nearest first.
    included_from: Tuple[str, ...] = ()


@dataclass(frozen=True)
class High:
    """Everything that the SLS files of a run say, before it is joined."""

    states: Tuple[Declaration, ...]
    #: `extend` blocks in the order met: (id, declarations of that id).
    extends: Tuple[Declaration, ...] = ()
    excluded_ids: frozenset[str] = frozenset()
    excluded_sls: frozenset[str] = frozenset()
    #: Entries of all `exclude` lists, as written.
    excludes: Tuple[Any, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return Salt's high data, as state.show_sls prints it."""
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
    """Return `extend` blocks as Salt shows them: one mapping per id of a file."""
    bodies: Dict[Tuple[str, str, str], Dict[str, Any]] = {}
    for one in extends:
        body = bodies.setdefault((one.env, one.sls, one.id), {})
        body.update({one.state: list(one.items), "__sls__": one.sls, "__env__": one.env})
    return [{id_: body} for (_, _, id_), body in bodies.items()]


def first_key(item: Any) -> Any:
    """Return the name of an argument; None for the function, which has none.

    People write several arguments as one item (the lines below `- context:` not indented). They
    all count, but by its first key alone Salt tells what an item is.
    """
    return next(iter(item), None) if type(item) is dict or isinstance(item, Mapping) else None


def sets_order(items: Sequence[Any]) -> bool:
    """Return whether a declaration has its own `order`."""
    for item in items:
        if type(item) is not dict:
            found = first_key(item) == "order"
        else:
            # The first question is the quicker one, and nearly always enough.
            found = "order" in item and first_key(item) == "order"
        if found:
            return True
    return False


@dataclass(frozen=True)
class Low:
    """One call of one state function, with what decides when and whether it happens."""

    state: str
    fun: str
    id: str
    name: str
    #: Dotted name of its SLS file; None for data that came from none (state.single).
    sls: Any
    env: str
    #: Smaller runs earlier; requisites come first.
    order: Order
    #: Arguments of the function, without name.
    args: Mapping[str, Any] = field(default_factory=dict)
    #: The compiler's own arguments (KEYWORDS) as written: requisites, conditions, retry, …
    keywords: Mapping[str, Any] = field(default_factory=dict)
    #: Where it was declared.
    line: SourceLine = NOWHERE
    included_from: Tuple[str, ...] = ()
    #: What it counts for in the order of those that it needs: its order as written, before a
    #: negative one was counted from the end and `names` got their fractions. None: `order`.
    written_order: Optional[Order] = None
    #: Its place among all low states as they were declared, whenever they run.
    declared: int = 0
    #: Keys of the states that are tried, each for a `prereq`, when its turn has come.
    tries: Tuple[str, ...] = ()

    def line_of(self, argument: str, entry: Any = None) -> SourceLine:
        """Return where an argument (or an entry of its list) was written, or the state's line."""
        return self.line.of(argument, entry) if isinstance(self.line, StateLine) else self.line

    @property
    def key(self) -> str:
        """Key of its row: `<state>_|-<id>_|-<name>_|-<fun>`."""
        return TAG_SEPARATOR.join((self.state, self.id, self.name, self.fun))

    @property
    def label(self) -> str:
        """Name in the comments of states that need it: `<sls>.<id>`."""
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
#: duration (ms); also warnings, skip_watch, `__state_ran__: False` where they apply.
Row = Dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """A run that is ready to start, or the reasons why it can't."""

    #: In the order in which they run.
    low: Tuple[Low, ...]
    #: One text per fault; nothing may run unless this is empty.
    errors: Tuple[str, ...] = ()
    #: Salt's high data as the SLS files say it.
    high: Mapping[str, Any] = field(default_factory=dict)


class RunHooks(Protocol):
    """What stands beside a run: a journal, a progress line, somebody who may stop it."""

    def before(self, low: Low) -> Union[Row, None]:
        """Be told that *low*'s requisites are met and it begins now.

        Returns:
            A recorded row to use instead of running it (`after` is then not called); else None.
        """

    def perform(self, low: Low, work: Callable[[], Row]) -> Row:
        """Return the row of *work*, which is what *low* does."""

    def after(self, low: Low, row: Row) -> None:
        """Be told of *low*'s row; `__state_ran__` is False in it where `before` was not called."""

    def cancelled(self) -> bool:
        """Return whether nothing more may begin; asked before every state."""
