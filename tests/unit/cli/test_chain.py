"""What the commands of chains print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from catena.cli import chain as commands
from catena.cli.commands import run
from catena.cli.output.chains import chain_text, event_lines, listing
from catena.client.replies.chains import (
    ActionView,
    ChainEventItem,
    ChainItem,
    ChainLine,
    ChainMade,
    ChainOutputItem,
    ChainViewItem,
    CleanWaitView,
    MinionView,
    PauseView,
)
from catena.client.requests.contract import AnyAsk
from catena.core.frozen import replace
from tests.unit.cli.views import chain_view

ACTION = ActionView(
    1, 0, "cmd", "Run script a.sh", "DONE", "Completed", "", "", "", {}, 0, 0, 0, 1
)
VIEW = chain_view()


def shown(changes: Any, full: bool = False, **action: Any) -> list[str]:
    """Return the lines about the output of an action with these changes."""
    one = replace(ACTION, changes=changes, **action)
    minion = MinionView("web1", "Completed", "1 of 1 done", (one,))
    text = chain_text(replace(VIEW, minions=(minion,)), False, full)
    return [line.strip() for line in text.splitlines()[5:]]


def script(**written: Any) -> dict[str, Any]:
    return {"ret": {"cmd_|-a_|-b_|-script": {"result": True, "changes": written}}}


def test_chain_show_prints_the_last_lines_of_a_script() -> None:
    lines = "".join(f"line {n}\n" for n in range(8))
    found = shown(script(stdout=lines, stderr="oh\x1b[31m", retcode=0))
    assert found == [
        "stdout: 3 more lines; show them with --full",
        *(f"| line {n}" for n in range(3, 8)),
        "| oh\\x1b[31m",
    ]
    assert shown(script(stdout=lines), full=True) == [f"| line {n}" for n in range(8)]


def test_output_of_a_failed_action_is_not_repeated_below_its_comment() -> None:
    failed: dict[str, Any] = {"status": "Failed", "comment": "exit code 3"}
    assert shown(script(stdout="x"), **failed) == ["exit code 3"]
    assert shown(script(stdout="x"), full=True, **failed) == ["exit code 3", "| x"]


@pytest.mark.parametrize(
    "changes", [None, {}, {"ret": "text"}, {"ret": {"a": 1}}, script(stdout=7), {"ret": {"a": {}}}]
)
def test_changes_without_output_add_no_line(changes: Any) -> None:
    assert shown(changes, full=True) == []


PAUSE = PauseView("", "joe", 1.0)


@pytest.mark.parametrize(
    ("pauses", "state"),
    [
        ([], "running"),
        ([PAUSE], "running, paused"),
        ([replace(PAUSE, minion="web1")], "running, paused on web1"),
        (
            [replace(PAUSE, minion=f"web{n}") for n in (1, 2, 3)],
            "running, paused on web1 and 2 more",
        ),
    ],
)
def test_chain_list_names_the_minions_on_which_a_chain_is_paused(
    pauses: list[PauseView], state: str
) -> None:
    line = ChainLine(7, "patch", "anna", "running", "", 0, 0, 1, 1, {}, False, tuple(pauses))
    assert f" {state} " in listing([line])


def test_chain_show_names_who_paused_a_chain() -> None:
    paused = replace(VIEW, state="running", paused=(replace(PAUSE, minion="web1"),))
    text = chain_text(paused, False)
    assert text.startswith("Chain 7 patch: running, paused on web1\n")
    assert "  paused on web1 by joe since " in text


CLEAN = CleanWaitView("web1", 5, "Is a directory", 1000.0)


def test_list_and_show_tell_where_a_chain_waits_for_a_clean_up() -> None:
    more = (CLEAN, replace(CLEAN, minion="web2"))
    line = ChainLine(7, "patch", "anna", "dispatched", "", 0, 0, 1, 1, {}, False, cleans=(CLEAN,))
    assert " dispatched, waits for a clean-up on web1 " in listing([line])
    assert "waits for a clean-up on web1 and 1 more " in listing([replace(line, cleans=more)])
    text = chain_text(replace(VIEW, state="dispatched", cleans=(CLEAN,)), False)
    assert text.startswith("Chain 7 patch: dispatched, waits for a clean-up on web1\n")


@pytest.mark.parametrize(
    ("event", "reason", "text"),
    [
        ("held_back", "on web1: it must wait", "held back on web1: it must wait"),
        ("handed_over", "to web1: it is done", "sent to web1: it is done"),
    ],
)
def test_watch_tells_of_starts_that_wait(event: str, reason: str, text: str) -> None:
    data = {"chain": 7, "label": "patch", "event": event, "reason": reason, "by": ""}
    item = ChainEventItem(f"catena/chain/7/{event}", data, "2026-03-01T12:00:00+00:00")
    (line,) = event_lines(VIEW, item, False)
    assert line.endswith(f"chain 7 patch: {text}")


@pytest.mark.parametrize("event", ["paused", "continued"])
def test_chain_watch_prints_pauses(event: str) -> None:
    data = {"chain": 7, "label": "patch", "event": event, "reason": "on web1", "by": "joe"}
    item = ChainEventItem(f"catena/chain/7/{event}", data, "2026-03-01T12:00:00+00:00")
    (line,) = event_lines(VIEW, item, False)
    assert line.endswith(f"  chain 7 patch: {event} on web1 by joe")


def failed_event(**data: Any) -> list[str]:
    facts = {"chain": 7, "minion": "web1", "action": 1, "status": "Failed", "reason": "", **data}
    item = ChainEventItem("catena/chain/7/action/1/fail", facts, "2026-03-01T12:00:00+00:00")
    return list(event_lines(VIEW, item, False))


def test_watch_prints_why_an_action_failed() -> None:
    nested = "one state failed; what failed in it:\nfile_|-conf_|-/etc/a_|-managed: no\x1b source"
    head, line = failed_event(comment=nested)
    assert head.split()[1:3] == ["web1", "Failed"]
    assert line == "       conf (file.managed): no\\x1b source"
    assert failed_event(comment="exit code 3")[1:] == ["       exit code 3"]
    assert len(failed_event(comment="x\n" * 50)) == 13


def test_watch_prints_the_reason_of_a_failure_once() -> None:
    (line,) = failed_event(reason="Prerequisite failed", comment="Prerequisite failed")
    assert line.endswith("  (Prerequisite failed)")
    assert len(failed_event(status="Completed", comment="done")) == 1


class Master:
    """Answers chain.watch with a draft, then with the chain as it ended."""

    def follow(self, ask: AnyAsk, record: Any) -> Iterator[ChainViewItem]:
        assert ask.name == "chain.watch"
        draft = ChainViewItem(**vars(VIEW))
        yield draft
        yield replace(draft, state="done")


class RunningMaster:
    """Answers chain.watch with a chain whose command prints two lines."""

    def follow(self, ask: AnyAsk, record: Any) -> Iterator[ChainItem]:
        view = ChainViewItem(**vars(VIEW))
        yield replace(view, state="running")
        for text in ("one\ntw", "o"):
            yield ChainOutputItem("web1", "stdout", text, 0)
        data = {"chain": 7, "minion": "web1", "action": 1, "status": "Completed", "event": "x"}
        tag = "catena/chain/7/action/1/succeed"
        yield ChainEventItem(tag, data, "2026-03-01T12:00:00+00:00")
        yield replace(view, state="done")


def test_chain_watch_prints_the_output_of_commands_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "connect", lambda ctx: RunningMaster())
    assert run(["chain", "watch", "patch"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == ["web1: one", "web1: two"]
    assert "web1: one" not in said.out


def test_chain_watch_of_a_draft_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "connect", lambda ctx: Master())
    assert run(["chain", "watch", "patch"]) == 2
    said = capsys.readouterr().err
    assert "chain 7 patch is a draft" in said and "catena chain schedule 7; use --wait" in said
    assert run(["chain", "watch", "patch", "--wait"]) == 0


@pytest.mark.parametrize(
    ("label", "warned"), [("12", True), ("7", False), ("012", False), ("p", False)]
)
def test_chain_create_warns_about_a_label_that_may_mean_another_chain(
    label: str, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Made:
        def ask(self, *_: object) -> ChainMade:
            return ChainMade(7, label)

    monkeypatch.setattr(commands, "connect", lambda _: Made())
    assert run(["chain", "create", label]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"chain 7: {label}\n"
    assert ("name this chain 7" in shown.err) is warned
