"""The keys that wait for a decision: their number, their networks, and which one to remove."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping

from catena.transport.networks import Network, network

#: Maximum number of keys that wait for a decision (attack row X40).
PENDING_LIMIT = 1000
#: Seconds since its last request during which a key is not removed for one of its own address.
#: Its minion asks every few seconds, and the two keys would only displace each other.
SILENT_SECONDS = 60.0
#: Seconds without a request after which a key may be removed for any other.
UNSEEN_SECONDS = 3600.0


class WaitingKeys:
    """Fingerprints of the waiting keys, per network in the order of their last requests.

    Changed only in the event loop's thread.

    Args:
        monotonic: seconds since boot.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._of: dict[str, Network] = {}
        self._hosts: defaultdict[str, OrderedDict[str, float]] = defaultdict(OrderedDict)
        #: Prefix -> host -> number of keys.
        self._shares: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __len__(self) -> int:
        return len(self._of)

    def ask(self, fingerprint: str, address: str) -> None:
        """Record a key's request, the first or a repeated one."""
        self.drop(fingerprint)
        place = self._of[fingerprint] = network(address)
        self._hosts[place.host][fingerprint] = self._now()
        self._shares[place.prefix][place.host] += 1

    def drop(self, fingerprint: str) -> None:
        """Remove a key, if it waits."""
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

    def to_displace(self, address: str) -> str:
        """Return the key to remove for a new one of *address*; "" if there is none.

        The result is the longest silent key of the largest host in the prefix with the most keys,
        so a network never displaces a key of a smaller one. If all networks are about equal, the
        result is a key whose minion has stopped asking.
        """
        place = network(address)
        host = self._largest(place)
        if host:
            fingerprint, asked = next(iter(self._hosts[host].items()))
            if host != place.host or self._now() - asked >= SILENT_SECONDS:
                return fingerprint
        return self._unseen()

    def _largest(self, place: Network) -> str:
        """Return the host that exceeds its share compared with *place*; "" if there is none."""
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
        """Return the longest silent key if it was silent for UNSEEN_SECONDS; else ""."""
        heads = (next(iter(keys.items())) for keys in self._hosts.values())
        fingerprint, asked = min(heads, key=lambda head: head[1], default=("", 0.0))
        return fingerprint if self._now() - asked >= UNSEEN_SECONDS else ""


def _above(sizes: Mapping[str, int], own: str) -> str:
    """Return the name with the largest size; *own* if removing from it would only swap the two.

    "" if that would be *own*, which has no keys.
    """
    largest = max(sizes, key=lambda name: (sizes[name], name == own), default="")
    mine = sizes.get(own, 0)
    if largest and largest != own and sizes[largest] <= mine + 1:
        largest = own
    return largest if sizes.get(largest, 0) else ""
