"""publish.*, saltutil.runner, saltutil.wheel, cp.push: what a minion asks of its master."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UnreachableError, UsageError
from catena.core.peer import PeerCall, PeerKind
from catena.runtime.functions import cp_push, publish, saltutil
from catena.runtime.session import JobSession


@dataclass
class Master:
    """A host whose master answers with *answer*."""

    answer: Any = None
    calls: list[PeerCall] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def ask_master(self, call: PeerCall) -> Any:
        self.calls.append(call)
        return self.answer

    def push(self, path: str, source: Path) -> None:
        self.files[path] = source.read_bytes()


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def context(session: JobSession, master: Master) -> Context:
    host: Any = master
    return replace(session.context, host=host)


@pytest.mark.parametrize(
    ("arg", "expected"),
    [
        (None, ((), {})),
        ("text", (("text",), {})),
        ("[1, two]", ((1, "two"), {})),
        (["a", "b=2", {"__kwarg__": True, "c": 3}], (("a",), {"b": 2, "c": 3})),
        ("b=two words", ((), {"b": "two words"})),
        (5, ((5,), {})),
        ("{broken", (("{broken",), {})),
    ],
)
def test_arguments_are_read_as_in_salt(arg: Any, expected: Any) -> None:
    assert publish.parted(arg) == expected


def test_publish_returns_values_and_full_data_everything(context: Context, master: Master) -> None:
    master.answer = {"b": {"ret": 2, "jid": "1"}, "a": {"ret": 1, "jid": "1"}}
    assert publish.publish(context, ["a", "b"], "test.arg", ["x", "k=1"]) == {"a": 1, "b": 2}
    assert publish.full_data(context, "*", "test.ping", tgt_type="glob") == master.answer
    first = master.calls[0]
    assert (first.tgt, first.args, first.kwargs) == ("a,b", ("x",), {"k": 1})
    assert first.kind is PeerKind.publish


@pytest.mark.parametrize("timeout", [0, -1, 61, "soon", float("nan"), float("inf")])
def test_publish_refuses_a_senseless_timeout(context: Context, timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout"):
        publish.publish(context, "*", "test.ping", timeout=timeout)


def test_runner_and_wheel_pass_their_arguments(context: Context, master: Master) -> None:
    saltutil.runner(context, "manage.up", arg=["x"], kwarg={"a": 1}, b=2, asynchronous=True)
    saltutil.wheel(context, "key.accept", "web1")
    publish.runner(context, "manage.down", ["removekeys=True"])
    assert [(one.kind.value, one.fun, one.args, one.kwargs) for one in master.calls] == [
        ("runner", "manage.up", ("x",), {"a": 1, "b": 2}),
        ("wheel", "key.accept", ("web1",), {}),
        ("runner", "manage.down", (), {"removekeys": True}),
    ]


def test_host_without_master_says_so(session: JobSession) -> None:
    with pytest.raises(UnreachableError, match=r"runner manage\.up needs a connection"):
        saltutil.runner(session.context, "manage.up")


def test_files_are_pushed_below_their_path(
    context: Context, master: Master, tmp_path: Path
) -> None:
    (tmp_path / "d/in").mkdir(parents=True)
    (tmp_path / "d/a.txt").write_bytes(b"a")
    (tmp_path / "d/in/b.log").write_bytes(b"b")
    folder = str(tmp_path / "d")
    assert cp_push.push(context, f"{folder}/a.txt") is True
    assert cp_push.push_dir(context, folder, glob="*.log", upload_path="/up") is True
    below = folder.lstrip("/")
    assert master.files == {f"{below}/a.txt": b"a", "up/in/b.log": b"b"}
    cp_push.push(context, f"{folder}/a.txt", upload_path="x", remove_source=True)
    assert master.files["x"] == b"a" and not (tmp_path / "d/a.txt").exists()


@pytest.mark.parametrize(
    ("path", "upload", "error"),
    [
        ("relative", None, UsageError),
        ("/a/../etc/shadow", None, UsageError),
        ("/proc/self/status", "../x", UsageError),
        ("/no/such/file", None, CommandExecutionError),
    ],
)
def test_odd_path_is_not_pushed(
    context: Context, master: Master, path: str, upload: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        cp_push.push(context, path, upload_path=upload)
    assert master.files == {}
