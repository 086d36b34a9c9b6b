"""The key that is evicted when too many wait."""

from __future__ import annotations

from catena.master.keys.waiting import (
    SILENT_SECONDS,
    UNSEEN_SECONDS,
    WaitingKeys,
)


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def waiting(*asked: tuple[str, str]) -> tuple[WaitingKeys, Clock]:
    clock = Clock()
    keys = WaitingKeys(clock)
    for fingerprint, address in asked:
        clock.time += 1.0
        keys.ask(fingerprint, address)
    return keys, clock


def test_waiting_key_of_the_largest_prefix_is_evicted_for_any_other() -> None:
    keys, _ = waiting(("honest", "10.9.9.9"), *[(f"evil{n}", f"10.0.0.{n % 2}") for n in range(7)])
    assert keys.to_displace("10.5.5.5") == "evil0"
    keys.drop("evil0")
    keys.drop("unknown")
    assert (len(keys), keys.to_displace("2001:db8::1")) == (7, "evil2")


def test_waiting_key_of_the_busiest_host_is_evicted_within_its_prefix() -> None:
    keys, _ = waiting(("a", "10.0.0.7"), *[(f"evil{n}", "10.0.0.1") for n in range(5)])
    assert keys.to_displace("10.0.0.8") == "evil0"


def test_largest_network_evicts_no_key_of_another_network() -> None:
    keys, clock = waiting(("a", "10.1.0.1"), *[(f"evil{n}", "10.0.0.1") for n in range(5)])
    assert keys.to_displace("10.0.0.1") == ""
    clock.time += SILENT_SECONDS
    keys.ask("evil0", "10.0.0.1")
    assert keys.to_displace("10.0.0.1") == "evil1"


def test_networks_of_equal_size_do_not_evict_each_other() -> None:
    keys, clock = waiting(("a1", "10.1.0.1"), ("b1", "10.2.0.1"), ("b2", "10.2.0.2"))
    # A second key of the first would make it as large as the other was.
    assert keys.to_displace("10.1.0.1") == ""
    clock.time += SILENT_SECONDS
    assert keys.to_displace("10.1.0.1") == "a1"
    assert keys.to_displace("10.3.0.1") == "b1"


def test_hosts_with_a_key_each_stay_until_they_stop_asking() -> None:
    keys, clock = waiting(*[(f"k{n}", f"10.{n % 3}.0.{n}") for n in range(9)])
    assert [keys.to_displace(f"10.{n}.0.99") for n in range(3)] == ["", "", ""]
    clock.time = UNSEEN_SECONDS
    keys.ask("k0", "10.0.0.0")
    clock.time += 3.0
    assert keys.to_displace("10.1.0.99") == "k1"


def test_nothing_is_evicted_when_no_key_waits() -> None:
    keys, _ = waiting()
    assert keys.to_displace("10.1.0.1") == ""
