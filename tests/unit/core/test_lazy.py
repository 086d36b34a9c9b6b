from __future__ import annotations

import pytest

from catena.client import requests
from catena.core.lazy import LazyRecords
from catena.transport import messages


def test_every_name_of_a_package_of_records_leads_to_its_record() -> None:
    for name in messages.TYPES.values():
        assert getattr(messages, name).__name__ == name
    for name in requests.VERBS.values():
        assert requests.record(name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        LazyRecords("catena.transport.messages", {})("Nothing")
    assert not hasattr(messages, "Nothing")


def test_what_may_arrive_somewhere_is_a_message() -> None:
    for names in messages.ALLOWED.values():
        assert names <= set(messages.TYPES.values())
