from __future__ import annotations

import pytest

from catena.core import events


@pytest.mark.parametrize("tag", ["a", "salt/job/1/new", "ü b", "x" * 1024])
def test_tag_of_up_to_1024_printable_characters_is_valid(tag: str) -> None:
    assert events.is_tag(tag)


@pytest.mark.parametrize("tag", ["", "a\nb", "a\x00", "\x7f", "x" * 1025, "a\n"])
def test_tag_with_control_characters_is_invalid(tag: str) -> None:
    assert not events.is_tag(tag)


def test_tags_equal_those_of_salt() -> None:
    assert events.minion_start("web1") == "salt/minion/web1/start"
    assert events.job_new("1") == "salt/job/1/new"
    assert events.job_ret("1", "web1") == "salt/job/1/ret/web1"
    assert events.job_prog("1", "web1", 3) == "salt/job/1/prog/web1/3"
    assert events.run_ret("1") == "salt/run/1/ret"
    assert events.chain(7, "done") == "catena/chain/7/done"


@pytest.mark.parametrize(
    "tag",
    [
        "salt/minion/other/start",
        "salt/job/20260101000000000000/ret/other",
        "salt/beacon/other/load",
        "salt/minion/web1/start",
        "catena/chain/1/done",
        "minion_start",
        "key",
    ],
)
def test_reserved_tag_of_a_minion_is_moved_under_its_own_name(tag: str) -> None:
    assert events.own_tag("web1", tag) == f"minion/web1/event/{tag}"


@pytest.mark.parametrize(
    "tag", ["my/app/deployed", "salt/beacon/web1/load", "minion/web1/event/x"]
)
def test_own_and_unreserved_tags_of_a_minion_are_kept(tag: str) -> None:
    assert events.own_tag("web1", tag) == tag


def test_tag_of_a_minion_with_a_longer_name_is_not_an_own_tag() -> None:
    tag = "salt/beacon/web10/load"
    assert events.own_tag("web1", tag) != tag


def test_any_tag_matches_whole_tags_against_each_pattern() -> None:
    asked = events.any_tag(("salt/minion/*/start", "app/[ab]"))
    tags = ("salt/minion/a/b/start", "app/b", "app/c", "salt/minion/a/starts", "xapp/a")
    assert [asked(tag) for tag in tags] == [True, True, False, False, False]
    assert not events.any_tag(())("app/a")
