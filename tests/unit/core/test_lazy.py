from __future__ import annotations

import pytest

from catena.client.requests import contract, contracts
from catena.core.lazy import LazyRecords
from catena.transport import messages


def test_lazy_package_returns_the_record_of_each_name() -> None:
    for name in messages.TYPES.values():
        assert getattr(messages, name).__name__ == name


def test_contract_is_found_by_its_verb_in_one_module_only() -> None:
    found = contracts()
    assert found and all(contract(name) is ask and ask.name == name for name, ask in found.items())


def test_unknown_name_in_a_lazy_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        LazyRecords("catena.transport.messages", {})("Nothing")
    assert not hasattr(messages, "Nothing")


def test_every_allowed_message_name_is_a_message() -> None:
    for names in messages.ALLOWED.values():
        assert names <= set(messages.TYPES.values())
