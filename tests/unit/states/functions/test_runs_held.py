"""state.pause, state.disable and state.request."""

import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import NotFoundError
from catena.core.ids import BadNameError
from catena.states.compiler.pauses import Gate, Pause, forget_others, keep, read

JID = "20260102030405000006"
SLS = "a: test.succeed_with_changes\nb:\n  test.nop:\n    - require: [{test: a}]\n"


@pytest.fixture
def w(world: Any) -> Any:
    return world(SLS)


def results(rows: Any) -> dict[str, Any]:
    return {row["__id__"]: row["result"] for row in rows.values()}


def test_mocked_run_calls_nothing(w: Any) -> None:
    rows = w.call("state.sls", "t", mock=True)
    assert results(rows) == {"a": True, "b": True}
    assert {row["comment"] for row in rows.values()} == {"Not called, mocked"}
    assert not any(row["changes"] for row in rows.values())


def test_request_waits_for_its_go_ahead_and_is_granted_once(w: Any) -> None:
    assert results(w.call("state.request", "t")) == {"a": None, "b": True}
    waiting = w.call("state.check_request")
    assert waiting["default"]["mods"] == "t" and waiting["default"]["kwargs"] == {"test": True}
    assert w.call("state.check_request", "default") == waiting["default"]
    assert results(w.call("state.run_request")) == {"a": True, "b": True}
    assert w.call("state.run_request") == {} == w.call("state.check_request")


def test_requests_are_forgotten_by_name_or_all(w: Any) -> None:
    w.call("state.request", "t", name="one")
    w.call("state.request", "t", name="two")
    assert w.call("state.clear_request", "one") is True
    assert list(w.call("state.check_request")) == ["two"]
    with pytest.raises(NotFoundError, match="two"):
        w.call("state.check_request", "twp")
    assert w.call("state.clear_request") is True and w.call("state.check_request") == {}


def test_pause_holds_a_state_until_its_time(tmp_path: Path) -> None:
    gate = Gate(tmp_path, JID)
    keep(tmp_path, JID, {"b": Pause(until=0.0)})
    assert read(tmp_path, JID) == {"b": Pause(until=0.0)}
    gate.pass_("a")
    gate.pass_("b")
    assert not gate.killed
    keep(tmp_path, JID, {})
    assert read(tmp_path, JID) == {}


def test_soft_kill_ends_the_run_before_its_state(tmp_path: Path) -> None:
    gate = Gate(tmp_path, JID)
    keep(tmp_path, JID, {"b": Pause(kill=True)})
    gate.pass_("a")
    assert not gate.killed
    gate.pass_("b")
    assert gate.killed


def test_pauses_of_runs_that_are_over_go(tmp_path: Path) -> None:
    forget_others(tmp_path, [])
    other = JID[:-1] + "7"
    keep(tmp_path, JID, {"b": Pause(kill=True)})
    keep(tmp_path, other, {"b": Pause()})
    forget_others(tmp_path, [other])
    assert read(tmp_path, JID) == {} and read(tmp_path, other) == {"b": Pause()}


def test_pause_needs_the_id_of_a_job(tmp_path: Path, w: Any) -> None:
    with pytest.raises(BadNameError):
        read(tmp_path, "../../etc/passwd")
    with pytest.raises(NotFoundError, match="no state run"):
        w.call("state.pause", JID)
    assert w.call("state.get_pauses") == {}


def test_tarball_of_low_chunks_runs_when_its_hash_is_right(w: Any, tmp_path: Path) -> None:
    low = '[{"state": "test", "fun": "nop", "name": "x", "__id__": "x", "order": 1}]'
    (tmp_path / "lowstate.json").write_text(low)
    pack = tmp_path / "pack.tgz"
    with tarfile.open(pack, "w:gz") as tape:
        tape.add(tmp_path / "lowstate.json", "lowstate.json")
    right = sha256(pack.read_bytes()).hexdigest()
    assert results(w.call("state.pkg", str(pack), right, "sha256")) == {"x": True}
    assert w.call("state.pkg", str(pack), "0" * 64, "sha256") == {}


def test_uncallable_chunk_is_reported_before_anything_runs(w: Any) -> None:
    assert "test.nip' was not found" in w.call("state.single", "test.nip", "x")[0]
    assert w.call("state.single", "test.nop", 5) == [
        "ID '5' is not formed as a string, but is a int"
    ]
    assert w.call("state.low", {"name": "x"}) == ['Missing "state" data', 'Missing "fun" data']
    assert "is not a dictionary" in w.call("state.high", ["x"])[0]
    assert w.call("state.running") == []
