"""What the commands of chains print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from catena.cli import chain as commands
from catena.cli.commands import run
from catena.cli.output.chains import chain_text
from catena.client.requests.contract import AnyAsk

ACTION: dict[str, Any] = {
    "action_id": 1, "sort_order": 0, "title": "Run script a.sh", "status": "Completed",
    "state": "DONE", "reason": "", "comment": "", "summary": "", "changes": {}, "started": 0.0,
    "ended": 0.0, "waits": "", "until": 0.0,
}  # fmt: skip
VIEW: dict[str, Any] = {
    "id": 7, "label": "patch", "state": "draft", "reason": "", "user": "anna", "due": 0.0,
    "ended": 0.0, "epoch": 1, "jids": [], "minions": [],
}  # fmt: skip


def shown(changes: Any, full: bool = False, **action: Any) -> list[str]:
    """Return the lines about the output of an action with these changes."""
    one = {**ACTION, "changes": changes, **action}
    minion = {"minion": "web1", "status": "Completed", "note": "1 of 1 done", "actions": [one]}
    text = chain_text({**VIEW, "minions": [minion]}, False, full)
    return [line.strip() for line in text.splitlines()[5:]]


def script(**written: Any) -> dict[str, Any]:
    return {"ret": {"cmd_|-a_|-b_|-script": {"result": True, "changes": written}}}


def test_last_lines_of_a_script_are_shown() -> None:
    lines = "".join(f"line {n}\n" for n in range(8))
    found = shown(script(stdout=lines, stderr="oh\x1b[31m", retcode=0))
    assert found == [
        "stdout: 3 more lines, shown by --full",
        *(f"| line {n}" for n in range(3, 8)),
        "| oh\\x1b[31m",
    ]
    assert shown(script(stdout=lines), full=True) == [f"| line {n}" for n in range(8)]


def test_output_of_a_failed_action_is_in_its_comment_already() -> None:
    failed: dict[str, Any] = {"status": "Failed", "comment": "exit code 3"}
    assert shown(script(stdout="x"), **failed) == ["exit code 3"]
    assert shown(script(stdout="x"), full=True, **failed) == ["exit code 3", "| x"]


@pytest.mark.parametrize(
    "changes", [None, {}, {"ret": "text"}, {"ret": {"a": 1}}, script(stdout=7), {"ret": {"a": {}}}]
)
def test_changes_without_output_add_no_line(changes: Any) -> None:
    assert shown(changes, full=True) == []


class Master:
    """Answers chain.watch with a draft, then with the chain as it ended."""

    def stream(self, ask: AnyAsk, record: Any) -> Iterator[dict[str, Any]]:
        assert ask.name == "chain.watch"
        yield {"type": "chain", **VIEW}
        yield {"type": "chain", **VIEW, "state": "done"}


def test_watch_of_a_draft_says_so_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "connect", lambda ctx: Master())
    assert run(["chain", "watch", "patch"]) == 2
    said = capsys.readouterr().err
    assert "chain 7 patch is a draft" in said and "catena chain schedule 7; --wait" in said
    assert run(["chain", "watch", "patch", "--wait"]) == 0
