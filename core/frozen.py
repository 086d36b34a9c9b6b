"""Dataclasses that cost nothing until they are used.

The standard library generates and compiles six methods for each dataclass at import. With the
hundred records of a short command that took a quarter of its time, although it uses half of them,
mostly once. Here all methods are shared, and a constructor is compiled only for a class with many
instances. Types, rules and errors are those of `dataclasses`, whose functions (`asdict`,
`is_dataclass`, …) accept these records.
"""

from __future__ import annotations

from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, NoReturn, Optional, Tuple

if TYPE_CHECKING:
    from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass, replace

__all__ = [
    "MISSING", "Field", "asdict", "dataclass", "field", "fields", "is_dataclass", "prepare",
    "replace",
]  # fmt: skip

#: Class attribute with the fields of a record.
_FIELDS = "__catena_fields__"
#: Class attribute with the function that returns the values to compare.
_COMPARED = "__catena_compared__"
#: Class attribute that `dataclasses` reads.
_STANDARD = "__dataclass_fields__"
#: Number of instances without a compiled constructor, which together cost as much as compiling.
_FEW = 30
_OPTIONS = ("default", "default_factory", "repr", "compare", "metadata")

if not TYPE_CHECKING:

    class MISSING:
        """Stands for a missing default."""

    class Field:
        """One field of a record, as declared."""

        __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr", "type")

        def __init__(
            self,
            default: Any = MISSING,
            default_factory: Any = MISSING,
            repr: bool = True,
            compare: bool = True,
            metadata: Optional[Mapping[Any, Any]] = None,
        ) -> None:
            if default.__class__.__hash__ is None:
                raise ValueError(
                    f"mutable default {default!r} is not allowed: use default_factory"
                )
            self.name = ""
            self.type: Any = None
            self.default = default
            self.default_factory = default_factory
            self.repr = repr
            self.compare = compare
            self.metadata = metadata or {}

    def field(**options: Any) -> Field:
        """Return a field's options; see `dataclasses.field`."""
        return Field(**options)

    def fields(record: Any) -> Tuple[Field, ...]:
        """Return the fields of a record or its class, in order; also for a standard dataclass."""
        found = getattr(record, _FIELDS, None)
        return tuple(found.values()) if found is not None else _of_standard(record)

    def is_dataclass(record: Any) -> bool:
        """Return whether *record* is a record or its class; also for a standard dataclass."""
        return hasattr(record, _FIELDS) or hasattr(record, _STANDARD)

    def asdict(record: Any) -> Dict[str, Any]:
        """Return a record as a dict, nested records included; see `dataclasses.asdict`."""
        import dataclasses

        return dataclasses.asdict(record)

    def replace(record: Any, /, **changes: Any) -> Any:
        """Return a copy of *record* with some fields changed."""
        given = {one.name: getattr(record, one.name) for one in fields(record)}
        return record.__class__(**{**given, **changes})

    def dataclass(cls: Optional[type] = None, *, frozen: bool = False) -> Any:
        """Make a class a record; see `dataclasses.dataclass`."""

        def make(cls: type) -> type:
            return _made(cls, frozen)

        return make if cls is None else make(cls)


def _made(cls: type, frozen: bool) -> type:
    found = _collected(cls)
    setattr(cls, _FIELDS, found)
    setattr(cls, _STANDARD, _Standard())
    setattr(cls, "__match_args__", tuple(found))  # noqa: B010 - mypy knows it as final
    own = vars(cls)
    shared: Dict[str, Any] = {"__repr__": _shown, "__eq__": _equal, "__init__": _first_use(cls)}
    if frozen:
        # Python sets __hash__ to None in a class that defines __eq__.
        if own.get("__hash__") is None:
            setattr(cls, "__hash__", _hashed)  # noqa: B010 - mypy takes it for a method
        shared.update(__setattr__=_no_change, __delattr__=_no_change)
    elif "__hash__" not in own:
        shared["__hash__"] = None
    for name, method in shared.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _collected(cls: type) -> Dict[str, Field[Any]]:
    """Return the fields of a class by name, inherited ones first; make its defaults attributes."""
    found: Dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        found.update(vars(base).get(_FIELDS, {}))
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if str(kind).startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = vars(cls).get(name, MISSING)
        one: Any = default if isinstance(default, Field) else field(default=default)
        one.name, one.type = name, kind
        if one.default is not MISSING:
            setattr(cls, name, one.default)
        elif name in vars(cls):
            delattr(cls, name)
        found[name] = one
    return found


def _of_standard(record: Any) -> Tuple[Field[Any], ...]:
    import dataclasses

    found = []
    for one in dataclasses.fields(record):
        known = {name: getattr(one, name) for name in _OPTIONS}
        found.append(field(**{k: v for k, v in known.items() if v is not dataclasses.MISSING}))
        found[-1].name, found[-1].type = one.name, one.type
    return tuple(found)


def _first_use(cls: type) -> Callable[..., None]:
    """Return a slow constructor that replaces itself by a compiled one after `_FEW` calls.

    It also does so for wrong arguments, because the compiled one raises the precise error.
    """
    left = _FEW

    def construct(self: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal left
        left -= 1
        if left >= 0 and _filled(self, cls, args, kwargs):
            return
        made = _constructor(cls)
        setattr(cls, "__init__", made)  # noqa: B010 - mypy takes it for a method
        made(self, *args, **kwargs)

    return construct


def prepare(*kinds: type) -> None:
    """Compile the constructors of records now, before this process forks users of them."""
    for cls in kinds:
        if vars(cls)["__init__"].__module__ == __name__:
            setattr(cls, "__init__", _constructor(cls))  # noqa: B010 - mypy takes it for a method


def _filled(self: Any, cls: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Set an instance's fields; return False if the arguments do not fit."""
    declared = getattr(cls, _FIELDS)
    if len(args) > len(declared):
        return False
    values = dict(zip(declared, args))
    used = len(kwargs)
    for name, one in declared.items():
        if name in kwargs:
            if name in values:
                return False
            values[name] = kwargs[name]
            used -= 1
        elif name not in values:
            value = one.default if one.default_factory is MISSING else one.default_factory()
            if value is MISSING:
                return False
            values[name] = value
    if used:
        return False
    put = object.__setattr__ if cls.__setattr__ is _no_change else setattr
    for name, value in values.items():
        put(self, name, value)
    if hasattr(cls, "__post_init__"):
        self.__post_init__()
    return True


def _constructor(cls: Any) -> Callable[..., None]:
    names: Dict[str, Any] = {"_MISSING": MISSING}
    frozen = cls.__setattr__ is _no_change
    # Write to __dict__ past the method that refuses changes; `object.__setattr__` is twice as
    # slow.
    head, body = ["self"], ["_kept = self.__dict__"] if frozen else []
    for name, one in getattr(cls, _FIELDS).items():
        value = name
        if one.default_factory is not MISSING:
            names[f"_made_{name}"] = one.default_factory
            head.append(f"{name}=_MISSING")
            value = f"_made_{name}() if {name} is _MISSING else {name}"
        elif one.default is not MISSING:
            names[f"_default_{name}"] = one.default
            head.append(f"{name}=_default_{name}")
        else:
            head.append(name)
        body.append(f"_kept[{name!r}] = {value}" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(head)}):\n    " + "\n    ".join(body or ["pass"])
    exec(text, names)  # the names are those of a class body: identifiers of our own code
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


class _Standard:
    """Returns a record's fields in the form that `dataclasses` expects, made at first use."""

    def __get__(self, record: Any, cls: type) -> Any:
        import dataclasses

        spec = []
        for one in fields(cls):
            known = {name: getattr(one, name) for name in _OPTIONS}
            known = {name: value for name, value in known.items() if value is not MISSING}
            spec.append((one.name, one.type, dataclasses.field(**known)))
        found = vars(dataclasses.make_dataclass(cls.__name__, spec))[_STANDARD]
        # Cache it: making it takes milliseconds, and `dataclasses.replace` reads it every time.
        setattr(cls, _STANDARD, found)
        return found


@recursive_repr()
def _shown(self: Any) -> str:
    shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _values(record: Any) -> Tuple[Any, ...]:
    """Return the values by which a record is compared."""
    cls = record.__class__
    found = vars(cls).get(_COMPARED)
    if found is None:
        names = [one.name for one in fields(cls) if one.compare]
        # attrgetter needs a name, and with only one it would not return a tuple.
        found = attrgetter(*names, "__class__", "__class__")
        setattr(cls, _COMPARED, found)
    values: Tuple[Any, ...] = found(record)
    return values


def _equal(self: Any, other: Any) -> Any:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_values(self))


def _no_change(self: Any, name: str, *value: Any) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"field {name!r} of a {self.__class__.__name__} can't be changed")
