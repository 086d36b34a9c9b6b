"""All known keys in memory, with indexes for lookups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key as stored."""

    public: str
    fingerprint: str
    minion: str
    state: str
    machine_id: str
    address: str
    version: str
    reason: str
    since: float


class KeyRing:
    """Keys by fingerprint, with the indexes that every Hello needs.

    Changed only in the loop's thread; any thread may read.
    """

    def __init__(self) -> None:
        self._keys: dict[str, KnownKey] = {}
        self._by_minion: defaultdict[str, dict[str, KnownKey]] = defaultdict(dict)
        self._by_machine: defaultdict[str, dict[str, KnownKey]] = defaultdict(dict)
        self._states: Counter[str] = Counter()

    def put(self, key: KnownKey) -> None:
        """Add a key or replace its earlier version."""
        self.drop(key.fingerprint)
        self._keys[key.fingerprint] = key
        self._by_minion[key.minion][key.fingerprint] = key
        self._by_machine[key.machine_id][key.fingerprint] = key
        self._states[key.state] += 1

    def drop(self, fingerprint: str) -> None:
        """Remove a key, if it is known."""
        key = self._keys.pop(fingerprint, None)
        if key is None:
            return
        self._states[key.state] -= 1
        for index, name in ((self._by_minion, key.minion), (self._by_machine, key.machine_id)):
            del index[name][fingerprint]
            if not index[name]:
                del index[name]

    def get(self, fingerprint: str) -> KnownKey | None:
        """Return a key, or None."""
        return self._keys.get(fingerprint)

    def of_minion(self, minion: str) -> list[KnownKey]:
        """Return the keys that claim a minion id."""
        return list(self._by_minion.get(minion, {}).values())

    def of_machine(self, machine_id: str) -> list[KnownKey]:
        """Return the keys that claim a machine id."""
        return list(self._by_machine.get(machine_id, {}).values())

    def count(self, state: str) -> int:
        """Return the number of keys in a state."""
        return self._states[state]

    def __iter__(self) -> Iterator[KnownKey]:
        return iter(list(self._keys.values()))
