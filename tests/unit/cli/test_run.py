from __future__ import annotations

import time
from typing import Any, Iterator

import pytest

from catena.cli.commands import run
from catena.client.replies.keys import KeyLine
from catena.client.requests.contract import AnyAsk
from catena.core.errors import NotFoundError, UnreachableError


class Refusing:
    """A master that accepts nobody and knows some keys."""

    def __init__(self, **keys: list[str]) -> None:
        self._keys = {
            state: [KeyLine(name, "", "", 0.0, "", "") for name in names]
            for state, names in keys.items()
        }

    def ask(self, ask: AnyAsk, record: Any = None) -> Any:
        assert ask.name == "key.list"
        return self._keys

    def stream(self, *_: object) -> Iterator[Any]:
        raise NotFoundError("unknown minion 'web1'")
        yield


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"pending": ["web1"]}, "unknown minion 'web1'; pending at `catena key list`: web1"),
        ({"rejected": ["web1"]}, "unknown minion 'web1'; rejected at `catena key list`: web1"),
        ({}, "unknown minion 'web1'"),
    ],
)
def test_unmatched_target_names_a_pending_key_or_none(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    keys: dict[str, list[str]],
    said: str,
) -> None:
    monkeypatch.setattr("catena.cli.run.connect", lambda ctx: Refusing(**keys))
    assert run(["run", "web1", "test.ping"]) == 2
    assert capsys.readouterr().err == f"catena: {said}\n"


def test_comma_separated_target_is_refused_with_a_hint_to_the_list_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.cli.run.connect", lambda ctx: Refusing())
    assert run(["run", "web1,web2", "test.ping"]) == 2
    assert capsys.readouterr().err.endswith("; a list of ids takes -L\n")


class Slow:
    """A master that confirms a job only after the command's --timeout, and whose minions wait.

    Args:
        seconds: until the confirmation.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def stream(
        self, _: AnyAsk, __: Any, silence: float | None = None, first: float | None = None
    ) -> Iterator[Any]:
        if first is not None and self._seconds > first:
            raise UnreachableError("no answer in time")
        yield {"type": "new", "jid": "7", "minions": ["a", "b"], "missing": []}
        yield {"type": "return", "minion": "a", "ret": RET}
        time.sleep(silence or 0.0)  # as the connection waits for another item
        raise UnreachableError("no answer in time")


RET = {"success": True, "retcode": 0, "value": "yes", "out": ""}


@pytest.mark.parametrize("words", [["run", "*", "test.ping"], ["job", "watch", "7"]])
@pytest.mark.parametrize("timeout", ["0", "0.01"])
def test_timeout_shorter_than_the_confirmation_still_names_the_job(
    words: list[str],
    timeout: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"catena.cli.{words[0]}.connect", lambda _: Slow(5.0))
    assert run([*words, "-t", timeout]) == 75
    shown = capsys.readouterr()
    assert "yes" in shown.out
    assert shown.err == "b: no answer yet, new\nlook again with: catena job watch 7\n"


def test_job_that_the_master_does_not_confirm_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.cli.run.connect", lambda _: Slow(500.0))
    assert run(["run", "*", "test.ping", "-t", "0"]) == 3
    assert "no answer in time" in capsys.readouterr().err
