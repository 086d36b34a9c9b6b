from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Dict, Mapping, NewType, Optional, Union

import pytest

from catena.core.errors import RecordError
from catena.core.records import LATER, decode, encode, formerly, plain

Name = NewType("Name", str)


class Colour(StrEnum):
    red = "red"
    green = "green"


@dataclass(frozen=True)
class Wheel:
    size: int
    label: str = ""


@dataclass(frozen=True)
class Cart:
    name: Name
    wheels: tuple[Wheel, ...]
    colour: Colour = Colour.red
    load: Optional[float] = None
    tags: list[str] = field(default_factory=list)
    extra: Mapping[str, Any] = field(default_factory=dict)
    limits: Dict[str, int] = field(default_factory=dict)
    price: Union[int, str] = 0
    raw: bytes = b""
    sold: bool = False


FULL = Cart(
    Name("c"),
    (Wheel(3), Wheel(4, "big")),
    Colour.green,
    1.5,
    ["a"],
    {"k": [1, {"x": None}]},
    {"max": 7},
    "cheap",
    b"\x00",
    True,
)


def test_decoded_record_equals_the_encoded_one() -> None:
    assert decode(Cart, encode(FULL)) == FULL


def test_encoded_data_contains_no_records_enums_or_tuples() -> None:
    assert encode(FULL)["wheels"] == [{"size": 3, "label": ""}, {"size": 4, "label": "big"}]
    assert type(encode(FULL)["colour"]) is str


def test_fields_with_defaults_may_be_omitted() -> None:
    assert decode(Cart, {"name": "c", "wheels": []}) == Cart(Name("c"), ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nmae": 1}, "$: unknown field 'nmae'; did you mean 'name'?"),
        ({"wheels": [{"size": "3"}]}, "$.wheels[0].size: expected int, got str"),
        ({"wheels": [{"size": True}]}, "$.wheels[0].size: expected int, got bool"),
        ({"wheels": [{}]}, "$.wheels[0]: missing field 'size'"),
        ({"wheels": "no"}, "$.wheels: expected a list, got str"),
        ({"sold": 1}, "$.sold: expected bool, got int"),
        ({"colour": "gren"}, "$.colour: unknown value 'gren'; did you mean 'green'?"),
        ({"extra": {1: 2}}, "$.extra: keys must be strings, got int"),
        ({"limits": {"max": None}}, "$.limits.max: expected int, got NoneType"),
        ({"price": None}, "$.price: expected str, got NoneType"),
        ({"price": 1.5}, "$.price: expected str, got float"),
        ({"raw": "text"}, "$.raw: expected bytes, got str"),
    ],
)
def test_invalid_data_is_refused_with_its_path(change: dict[Any, Any], message: str) -> None:
    with pytest.raises(RecordError) as caught:
        decode(Cart, {"name": "c", "wheels": [], **change})
    assert str(caught.value) == message


def test_int_is_accepted_for_a_float_and_not_vice_versa() -> None:
    assert decode(Cart, {"name": "c", "wheels": [], "load": 2}).load == 2.0
    with pytest.raises(RecordError):
        decode(Wheel, {"size": 2.0})


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_data_that_is_not_a_mapping_is_refused(data: Any) -> None:
    with pytest.raises(RecordError, match="expected a mapping for Wheel"):
        decode(Wheel, data)


def test_plain_converts_one_level_only() -> None:
    assert plain(FULL)["wheels"] is FULL.wheels
    assert plain(Colour.red) == "red"
    assert plain(MappingProxyType({"a": FULL})) == {"a": FULL}


def test_plain_refuses_an_unknown_type() -> None:
    with pytest.raises(TypeError):
        plain(object())


@dataclass(frozen=True)
class NewerWheel(Wheel):
    spokes: Optional[int] = field(default=None, metadata=LATER)


def test_newer_field_is_encoded_only_when_it_is_not_the_default() -> None:
    for data in (encode(NewerWheel(3)), plain(NewerWheel(3))):
        assert data == {"size": 3, "label": ""} and decode(Wheel, data) == Wheel(3)
        assert decode(NewerWheel, data) == NewerWheel(3)
    for data in (encode(NewerWheel(3, spokes=0)), plain(NewerWheel(3, spokes=0))):
        assert decode(NewerWheel, data) == NewerWheel(3, spokes=0)
        with pytest.raises(RecordError, match="spokes"):
            decode(Wheel, data)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 20261122144001123456])
def test_integer_above_64_bits_is_encoded_as_decimal_text(number: int) -> None:
    assert encode({"args": (number, [number]), "n": 2**64 - 1}) == {
        "args": [str(number), [str(number)]],
        "n": 2**64 - 1,
    }
    assert plain(number) == str(number)
    assert type(encode(True)) is bool


@dataclass(frozen=True)
class Van(Wheel):
    engine: Optional[Wheel] = field(
        default=None, metadata=formerly("motor", lambda size: {"size": size})
    )


def test_former_field_is_decoded_under_its_present_name() -> None:
    assert decode(Van, {"size": 1, "motor": 7}) == Van(1, engine=Wheel(7))
    assert decode(Van, {"size": 1, "label": "a", "motor": None}) == Van(1, "a")
    assert encode(Van(1, engine=Wheel(7)))["engine"] == {"size": 7, "label": ""}
    assert "motor" not in encode(Van(1)) and "engine" not in encode(Van(1))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"motor": 7}, r"\$: missing field 'size'"),
        ({"label": "a", "motor": None}, r"\$: missing field 'size'"),
        ({"size": 1, "motor": "x"}, r"\$\.engine\.size: expected int, got str"),
        ({"size": 1, "motor": 7, "engine": None}, r"\$: 'engine' is there also as 'motor'"),
        ({"size": 1, "motor": 7, "spoiler": 1}, r"\$: .*spoiler"),
    ],
)
def test_former_field_is_validated_as_the_present_one(data: dict[str, Any], why: str) -> None:
    with pytest.raises(RecordError, match=why):
        decode(Van, data)
