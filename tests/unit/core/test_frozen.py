"""Records that are dataclasses in everything but the time that they take."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar, Generic, List, TypeVar

import pytest

from catena.core.frozen import dataclass, field, fields, is_dataclass, prepare, replace

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """A record."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    tags: List[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@dataclass(frozen=True)
class Named(Point):
    """A record with the fields of another before its own."""

    name: str = ""


@dataclass
class Counter:
    """A record that changes."""

    count: int = 0


@dataclass(frozen=True)
class Held(Generic[T]):
    """A record of anything."""

    value: T


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """A record of the standard library's."""

    a: int
    b: str = "b"


def test_omitted_field_has_its_default_and_lists_are_not_shared() -> None:
    one, other = Point(1), Point(1, 2)
    assert (one.y, one.tags, one.note) == (2, [], "")
    assert one.tags is not other.tags
    assert Point.y == 2
    assert not hasattr(Point, "tags")


def test_wrong_arguments_raise_for_the_first_and_later_instances() -> None:
    @dataclass(frozen=True)
    class Fresh:
        a: int

    for _ in range(2):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            Fresh()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
            Fresh(1, c=2)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="x is negative"):
        Point(-1)


def test_later_instances_equal_the_first() -> None:
    @dataclass(frozen=True)
    class Fresh:
        a: int
        b: List[int] = field(default_factory=list)
        c: int = 3

    made = [Fresh(number, c=4) if number % 2 else Fresh(a=number) for number in range(100)]
    assert [one.a for one in made] == list(range(100))
    assert {one.c for one in made} == {3, 4}
    assert len({id(one.b) for one in made}) == 100
    wrong: List[Any] = [((1, [], 3, 4), {}), ((1,), {"a": 2}), ((), {"b": []})]
    for args, kwargs in wrong:
        with pytest.raises(TypeError):
            Fresh(*args, **kwargs)


def test_equality_and_hash_ignore_fields_that_do_not_compare() -> None:
    one: Held[Any] = Held((1, 2))
    assert one == Held((1, 2)) != Held((1, 3))
    assert hash(one) == hash(Held((1, 2)))
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Named(1)
    with pytest.raises(TypeError):
        hash(Counter())
    assert Counter(1) == Counter(1) != Counter(2)


def test_frozen_record_refuses_every_change() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.other = 2  # type: ignore[attr-defined]
    counter = Counter()
    counter.count += 1
    assert counter.count == 1


def test_repr_names_the_fields_and_stops_at_recursion() -> None:
    assert repr(Named(1, name="n")) == "Named(x=1, y=2, tags=[], name='n')"
    holder: List[Any] = []
    holder.append(Held(holder))
    assert repr(holder) == "[Held(value=[...])]"


def test_fields_of_a_subclass_follow_those_of_its_base() -> None:
    assert [one.name for one in fields(Named)] == ["x", "y", "tags", "note", "name"]
    assert Named(1, 3, [], "", "n").name == "n"
    match Point(4):
        case Point(x, y):
            assert (x, y) == (4, 2)


def test_replace_checks_its_result_like_a_new_record() -> None:
    assert replace(Named(1, name="n"), x=5) == Named(5, name="n")
    with pytest.raises(ValueError, match="negative"):
        replace(Point(1), x=-1)
    with pytest.raises(TypeError):
        replace(Point(1), z=1)  # type: ignore[call-arg]


def test_functions_of_dataclasses_accept_a_frozen_record() -> None:
    assert dataclasses.is_dataclass(Point)
    assert dataclasses.asdict(Named(1, name="n")) == {
        "x": 1, "y": 2, "tags": [], "note": "", "name": "n",
    }  # fmt: skip
    assert dataclasses.replace(Point(1), x=3) == Point(3)
    assert [one.name for one in dataclasses.fields(Named)] == ["x", "y", "tags", "note", "name"]


def test_functions_of_this_module_accept_a_standard_dataclass() -> None:
    assert [(one.name, one.default) for one in fields(Standard)][1] == ("b", "b")
    assert replace(Standard(1), a=2) == Standard(2)
    assert is_dataclass(Standard) and is_dataclass(Point) and not is_dataclass(int)


def test_copied_and_pickled_record_equals_the_original() -> None:
    point = Named(1, tags=["a"], name="n")
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point


def test_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass
        class Wrong:
            a: List[int] = []


def test_method_defined_by_the_class_is_kept() -> None:
    @dataclass(frozen=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == hash(Own(1))


def test_prepared_class_makes_equal_records() -> None:
    @dataclass(frozen=True)
    class Ready:
        a: int
        b: List[int] = field(default_factory=list)

    @dataclass
    class Own:
        a: int

        def __init__(self) -> None:
            self.a = 7

    before = Ready(1)
    prepare(Ready, Own)
    prepare(Ready)
    assert Ready(1) == before and Ready(a=1, b=[2]).b == [2]
    assert Own().a == 7
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Ready()  # type: ignore[call-arg]
