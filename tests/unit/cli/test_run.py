from __future__ import annotations

from typing import Any, Iterator

import pytest

from catena.cli.commands import run
from catena.client.replies.keys import KeyLine
from catena.client.requests.contract import AnyAsk
from catena.core.errors import NotFoundError


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

    def stream(self, ask: AnyAsk, record: Any, silence: float | None = None) -> Iterator[Any]:
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
