from __future__ import annotations

import pytest

from catena.client.requests import contract, contracts
from catena.core.lazy import LazyRecords
from catena.transport import messages


def test_every_name_of_a_package_of_records_leads_to_its_record() -> None:
    for name in messages.TYPES.values():
        assert getattr(messages, name).__name__ == name


def test_every_contract_is_found_by_its_verb_and_in_no_second_module() -> None:
    found = contracts()
    assert found and all(contract(name) is ask and ask.name == name for name, ask in found.items())


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        LazyRecords("catena.transport.messages", {})("Nothing")
    assert not hasattr(messages, "Nothing")


def test_what_may_arrive_somewhere_is_a_message() -> None:
    for names in messages.ALLOWED.values():
        assert names <= set(messages.TYPES.values())
