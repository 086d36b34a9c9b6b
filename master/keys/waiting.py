"""The keys that wait for a decision: how many, from which networks, and which one gives way."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping

from catena.transport.networks import Network, network

#: Keys that may wait for a decision (attack row X40).
PENDING_LIMIT = 1000
#: A key whose minion asked within this time does not give way to one of its own address: it asks
#: every few seconds, and both would only take turns.
SILENT_SECONDS = 60.0
#: A key whose minion has not asked for this long gives way to any other.
UNSEEN_SECONDS = 3600.0


class WaitingKeys:
    """Fingerprints of the keys that wait, each network's in the order in which they last asked.

    Changed in the event loop's thread alone.

    Args:
        monotonic: seconds since boot.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._of: dict[str, Network] = {}
        self._hosts: defaultdict[str, OrderedDict[str, float]] = defaultdict(OrderedDict)
        #: Keys by prefix and host.
        self._shares: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __len__(self) -> int:
        return len(self._of)

    def ask(self, fingerprint: str, address: str) -> None:
        """Note that a key asks, for the first time or again."""
        self.drop(fingerprint)
        place = self._of[fingerprint] = network(address)
        self._hosts[place.host][fingerprint] = self._now()
        self._shares[place.prefix][place.host] += 1

    def drop(self, fingerprint: str) -> None:
        """Forget a key; fine if it does not wait."""
        place = self._of.pop(fingerprint, None)
        if place is None:
            return
        del self._hosts[place.host][fingerprint]
        share = self._shares[place.prefix]
        share[place.host] -= 1
        if not share[place.host]:
            del share[place.host], self._hosts[place.host]
        if not share:
            del self._shares[place.prefix]

    def giving_way(self, address: str) -> str:
        """Return the key that makes room for one of *address*; "": there is none.

        It comes from the prefix with the most keys, there from the host with the most, and is the
        one that has been silent for the longest. A network so takes no place of a smaller one.
        Where all are about as large, a key gives way whose minion has stopped asking.
        """
        place = network(address)
        host = self._largest(place)
        if host:
            fingerprint, asked = next(iter(self._hosts[host].items()))
            if host != place.host or self._now() - asked >= SILENT_SECONDS:
                return fingerprint
        return self._unseen()

    def _largest(self, place: Network) -> str:
        """Return the host that has more than its share beside *place*; "": there is none."""
        sizes = {prefix: share.total() for prefix, share in self._shares.items()}
        prefix = _above(sizes, place.prefix)
        if not prefix:
            return ""
        share = self._shares[prefix]
        return (
            _above(share, place.host)
            if prefix == place.prefix
            else max(share, key=share.__getitem__)
        )

    def _unseen(self) -> str:
        """Return the key that was silent for the longest, if that is long; else ""."""
        heads = (next(iter(keys.items())) for keys in self._hosts.values())
        fingerprint, asked = min(heads, key=lambda head: head[1], default=("", 0.0))
        return fingerprint if self._now() - asked >= UNSEEN_SECONDS else ""


def _above(sizes: Mapping[str, int], own: str) -> str:
    """Return the name with the largest size; *own* where taking from it would only swap the two.

    "": it would be *own*, which has nothing.
    """
    largest = max(sizes, key=lambda name: (sizes[name], name == own), default="")
    mine = sizes.get(own, 0)
    if largest and largest != own and sizes[largest] <= mine + 1:
        largest = own
    return largest if sizes.get(largest, 0) else ""
