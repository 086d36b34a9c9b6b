"""Keys in memory: every way to find one agrees, whatever becomes of it."""

from __future__ import annotations

from dataclasses import replace

from catena.master.keys.ring import KeyRing, KnownKey


def key(fingerprint: str, minion: str = "web1", machine: str = "m1") -> KnownKey:
    return KnownKey("", fingerprint, minion, "pending", machine, "", "", "", 1.0)


def test_key_is_found_by_minion_machine_and_state() -> None:
    ring = KeyRing()
    ring.put(key("a"))
    ring.put(key("b", "web2", "m1"))
    assert [k.fingerprint for k in ring.of_minion("web2")] == ["b"]
    assert [k.fingerprint for k in ring.of_machine("m1")] == ["a", "b"]
    assert ring.count("pending") == 2


def test_replaced_key_is_found_under_its_new_machine_and_state() -> None:
    ring = KeyRing()
    ring.put(key("a"))
    ring.put(replace(key("a"), state="accepted", machine_id="m2"))
    assert ring.of_machine("m1") == []
    assert [k.state for k in ring.of_machine("m2")] == ["accepted"]
    assert (ring.count("pending"), ring.count("accepted")) == (0, 1)
    assert len(list(ring)) == 1


def test_dropped_key_is_not_found() -> None:
    ring = KeyRing()
    ring.put(key("a"))
    ring.drop("a")
    ring.drop("unknown")
    assert (list(ring), ring.of_minion("web1"), ring.of_machine("m1")) == ([], [], [])
    assert ring.get("a") is None
