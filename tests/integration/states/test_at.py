"""at.* with the real queue of at in a Debian root; no daemon runs there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from tests.support.debian_roots import Root, overlay
from tests.support.mount_spaces import inside, needs_mounts

pytestmark = [
    needs_mounts,
    pytest.mark.container,
    pytest.mark.roots("bookworm", "bookworm-disks"),
]
WHEN = "9:09 2099-11-13"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with overlay(tmp_path / "root", packages="disks") as made:
        yield made


class Caller:
    """Applies states of at and keeps what people see of them."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def __call__(self, fun: str, *args: Any, test: bool = False, **more: Any) -> tuple[Any, ...]:
        state = self.context.states[f"at.{fun}"]
        found: StateResult = state.call(self.context.with_(test=test), *args, **more)
        return found.result, dict(found.changes), found.comment


@pytest.fixture
def call(context: Context) -> Caller:
    return Caller(context)


def test_tagged_job_is_added_and_removed_once(call: Caller, root: Root) -> None:
    def work() -> list[Any]:
        wanted: dict[str, Any] = {"tag": "love", "unique_tag": True, "user": "root"}
        found = [
            call("present", "echo 'a  b'", WHEN, test=test, **wanted)
            for test in (True, False, False)
        ]
        script = call.context.call("at.atc", found[1][1]["job"])
        found += [call("mod_watch", "true", sfun="watch", timespec=WHEN)]
        found += [call("absent", "x", **{"tag": "love", "year": 99}, test=test)
                  for test in (True, False, False)]  # fmt: skip
        return [script, call.context.call("at.atq")["jobs"], *found]

    script, left, tried, added, again, watched, *gone = inside(root.path, work)
    told = f"job echo 'a  b' added and will run as root on {WHEN}"
    assert tried == (None, {}, told)
    job = {"date": "2099-11-13", "time": "09:09:00", "queue": "a", "user": "root", "tag": "love"}
    number = added[1]["job"]
    assert added == (True, {**job, "job": number}, told)
    assert again == (True, {}, "atleast one job with tag love exists.")
    assert "### SALT: love\necho 'a  b'" in script
    assert watched[1]["tag"] == ""
    assert gone == [
        (None, {}, "1 job(s) are set to be removed"),
        (True, {"removed": [str(number)]}, "removed 1 job(s)"),
        (True, {}, "removed 0 job(s)"),
    ]
    assert [one["user"] for one in left] == ["root"]


def test_wrong_times_users_and_conditions_fail(call: Caller, root: Root) -> None:
    def work() -> list[Any]:
        return [
            call("present", "true", "when pigs fly"),
            call("present", "true", "-f /etc/passwd"),
            call("present", "true", WHEN, user="nobody-here"),
            call("present", "true", WHEN, user="daemon"),
            call("present", "true", WHEN, unique_tag=True),
            call("present", "true", WHEN, tag="two words"),
            call("absent", "x", day="monday"),
            call("absent", "x", jobid=99),
        ]

    time, option, user, denied, untagged, words, day, job = inside(root.path, work)
    assert time[2] == "at 'when pigs fly': invalid timespec"
    assert option[2] == "timespec: '-f /etc/passwd' is no time"
    assert user[2] == "user nobody-here does not exists"
    assert denied[2].endswith("You do not have permission to use at.")
    assert untagged[2] == "no tag provided and unique_tag is set to True"
    assert words[2] == "tag: 'two words' must be one word"
    assert [row[:2] for row in (time, denied, words)] == [(False, {})] * 3
    assert job == (True, {}, "job with id 99 not present")
    assert day == (True, {}, "removed 0 job(s)")
