from __future__ import annotations

import pytest

from catena.client.replies.chains import ChainEventItem
from catena.client.replies.jobs import JobReturnItem, JobRun
from catena.client.replies.keys import KeyLine
from catena.client.requests import chains, events, jobs, keys, runners
from catena.client.typed import item_of, reply_of
from catena.core.errors import RecordError
from catena.core.events import Event

LINE = {
    "id": "web1", "fingerprint": "f", "address": "a", "since": 1.0, "machine_id": "m",
    "conflict": "",
}  # fmt: skip


def test_reply_is_decoded_as_the_record_of_its_contract() -> None:
    found = reply_of(keys.LIST, {"accepted": [LINE], "pending": []})
    assert found == {"accepted": [KeyLine("web1", "f", "a", 1.0, "m", "")], "pending": []}
    assert reply_of(jobs.RUN, {"jid": "1", "minions": ["a"]}) == JobRun("1", ("a",))
    assert reply_of(runners.CALL, {"any": [1]}) == {"any": [1]}
    assert reply_of(events.WATCH, None) is None


def test_unknown_fields_of_a_newer_master_are_ignored_at_any_depth() -> None:
    found = reply_of(keys.LIST, {"accepted": [{**LINE, "newer": 1}]})
    assert found["accepted"][0].id == "web1"
    ret = {
        "jid": "1", "fun": "f", "fun_args": [], "success": True, "retcode": 0, "value": {"x": 1},
        "started": 1.0, "duration_seconds": 1.0, "newer": 2,
    }  # fmt: skip
    item = item_of(jobs.WATCH, {"type": "return", "minion": "web1", "ret": ret, "newer": 3})
    assert isinstance(item, JobReturnItem) and item.ret.value == {"x": 1}


def test_reply_without_a_required_field_is_an_error_that_names_it() -> None:
    with pytest.raises(RecordError, match=r"key\.finger.*'minions'"):
        reply_of(keys.FINGER, {"master": "m"})


def test_stream_item_is_decoded_by_its_type() -> None:
    item = item_of(chains.WATCH, {"type": "event", "tag": "t", "data": {}, "stamp": "s"})
    assert item == ChainEventItem("t", {}, "s")
    with pytest.raises(RecordError, match="none of the types chain, event"):
        item_of(chains.WATCH, {"type": "other"})
    stored = {"seq": 1, "tag": "t", "data": {}, "stamp": "s", "source": ""}
    assert item_of(events.WATCH, stored) == Event(1, "t", {}, "s")
