"""Keys of minions: pending, accepted, rejected, denied; tokens and rotation."""

from __future__ import annotations

import asyncio
import secrets
from asyncio import FIRST_COMPLETED
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

import sqlalchemy as sa

from catena.client.replies.keys import EnrolToken, KeyLine, KeysChanged
from catena.core import events, failpoints
from catena.core.clock import Clock
from catena.core.digest import hmac_sha256
from catena.core.errors import InvalidStateError, UsageError
from catena.core.ids import minion_id
from catena.core.suggest import unknown
from catena.master.events.bus import EventBus
from catena.master.keys import machines, rows
from catena.master.keys.machines import MachineClaim
from catena.master.keys.ring import KeyRing, KnownKey
from catena.master.keys.waiting import WaitingKeys
from catena.master.minions import rows as minion_rows
from catena.master.requests.once import UNKEYED, Once
from catena.master.store.database import Store, after_commit
from catena.transport.keys import KeyPair, fingerprint, key_bytes, token_digest
from catena.transport.peers import KeyTable

#: Action -> (states that it applies to by default, resulting state, Salt's word in events).
ACTIONS = {
    "accept": (("pending",), "accepted", "accepted"),
    "reject": (("pending",), "rejected", "rejected"),
    "delete": (("pending", "accepted", "rejected", "denied", "announced"), "", "delete"),
    "rotate": (("accepted",), "accepted", ""),
}
#: Further states that an action applies to if the id is given in full, not as a glob.
NAMED = {"accept": ("rejected", "denied"), "reject": ("accepted", "denied")}
STATES = ("accepted", "pending", "rejected", "denied", "announced")
#: Seconds after a key's deletion in which `accept` waits for a new request of the same minion.
DELETED_SECONDS = 60.0
#: Maximum wait for that request. Older agents ask again after about six seconds, newer ones after
#: two.
ASK_AGAIN_SECONDS = 8.0
#: Maximum lifetime of a token, seconds.
TOKEN_VALID_LIMIT = 30 * 24 * 3600


class Keys:
    """The stored keys and, for the gateway, the accepted ones.

    Reads use memory. Every change is committed first and takes effect in the same iteration of the
    event loop.
    """

    def __init__(
        self, store: Store, bus: EventBus, table: KeyTable, clock: Clock, pair: KeyPair
    ) -> None:
        self._store = store
        self._pair = pair
        self._bus = bus
        self._table = table
        self._clock = clock
        self._known = KeyRing()
        self.waiting = WaitingKeys(clock.monotonic)
        self._accepted: dict[str, str] = {}
        #: Minion -> machine id of its last Hello, and below the reverse.
        self._machine_of: dict[str, str] = {}
        self._works_as: defaultdict[str, set[str]] = defaultdict(set)
        #: Called with a key just before the gateway stops serving it.
        self.on_close: list[Callable[[KnownKey], None]] = []
        #: Called in the transaction after which a minion id has no accepted key, with the id and
        #: the reason.
        self.on_delete: list[Callable[[sa.Connection, str, str], None]] = []
        #: Notifies a minion of its key's acceptance; returns whether that could be sent.
        self.on_accept: list[Callable[[KnownKey], bool]] = []
        #: Accepted minions that were notified and may not have sent a Hello yet.
        self._notified: set[str] = set()
        #: Minions whose key was deleted -> monotonic time of that.
        self._deleted: dict[str, float] = {}
        #: Minions whose new request is awaited -> the future of the waiting caller.
        self._expected: dict[str, asyncio.Future[None]] = {}

    async def open(self) -> None:
        """Load every key."""
        for key in await self._store.read(rows.every):
            self.remember(key)
        for minion, machine in (await self._store.read(minion_rows.machines)).items():
            self.works_as(minion, machine)

    def minion_of(self, user_id: str) -> str | None:
        """Return the minion id of an accepted or announced key's fingerprint, or None."""
        key = self._known.get(user_id)
        return key.minion if key and key.state in ("accepted", "announced") else None

    def known(self, user_id: str) -> KnownKey | None:
        """Return a key by its fingerprint, or None."""
        return self._known.get(user_id)

    def ids(self) -> Collection[str]:
        """Return the ids of the accepted minions (a live view)."""
        return self._accepted.keys()

    def of_minion(self, minion: str) -> list[KnownKey]:
        """Return all keys that claim an id."""
        return self._known.of_minion(minion)

    def count(self, state: str) -> int:
        """Return how many keys are in a state."""
        return self._known.count(state)

    def remember(self, key: KnownKey) -> None:
        """Add a committed key to memory and, if it is accepted, to the gateway's table."""
        self._known.put(key)
        if key.state == "pending":
            self.waiting.ask(key.fingerprint, key.address)
            expected = self._expected.pop(key.minion, None)
            if expected is not None and not expected.done():
                expected.set_result(None)
        else:
            self.waiting.drop(key.fingerprint)
        if key.state in ("accepted", "announced"):
            self._table.accept(key.public)
            if key.state == "accepted":
                self._accepted[key.minion] = key.fingerprint
                if any([notify(key) for notify in self.on_accept]):
                    self._notified.add(key.minion)
            return
        self._close(key)

    def forget(self, key: KnownKey) -> None:
        """Remove a deleted key from memory; its connection ends with the next frame."""
        self._known.drop(key.fingerprint)
        self.waiting.drop(key.fingerprint)
        self._close(key)

    def forget_waiting(self, key: KnownKey) -> None:
        """Remove a key that was displaced by another, unless it was decided meanwhile."""
        known = self._known.get(key.fingerprint)
        if known is not None and known.state == "pending":
            self.forget(known)

    def _close(self, key: KnownKey) -> None:
        for callback in self.on_close:
            callback(key)
        self._table.revoke(key.public)
        if self._accepted.get(key.minion) == key.fingerprint:
            del self._accepted[key.minion]

    async def change(
        self,
        action: str,
        match: str,
        include: Iterable[str] = (),
        user: str = "",
        once: Once = UNKEYED,
    ) -> list[str]:
        """Accept, reject or delete the keys whose id matches a glob; return the ids.

        Args:
            action: "accept", "reject" or "delete".
            match: ids or globs, separated by commas. An id in full also selects keys with an
                earlier contrary decision (NAMED).
            include: further states whose keys are selected ("rejected", "denied", "accepted").
            user: who decides.
            once: the request; rotations, which change no row, ignore it.

        Raises:
            UsageError: unknown action or state.
            InvalidStateError: an id would have two accepted keys.
        """
        if action not in ACTIONS:
            raise UsageError(unknown("key action", action, ACTIONS))
        for state in include:
            if state not in STATES:
                raise UsageError(unknown("key state", state, STATES))
        chosen = await self._chosen(action, match, set(include))
        names = sorted({key.minion for key in chosen})
        if action == "rotate" or not (chosen or once.key):
            return names

        left = self._left_without(chosen) if action == "delete" else []

        def decide(conn: sa.Connection) -> KeysChanged:
            self._decide(conn, action, chosen, user)
            self._leave(conn, left, user)
            return KeysChanged(tuple(names))

        answer = await self._store.write(once.wrap(decide))
        failpoints.hit("master.key.decided")
        if action == "delete":
            self._deleted |= dict.fromkeys(answer.changed, self._clock.monotonic())
        return list(answer.changed)

    async def _chosen(self, action: str, match: str, include: set[str]) -> list[KnownKey]:
        """Return the keys that an action is about, after waiting for expected ones."""
        named = [part.strip() for part in match.split(",")]
        chosen = self._choose(action, named, include)
        if action == "accept" and not chosen and await self._ask_again(named):
            chosen = self._choose(action, named, include)
        if action == "accept":
            self._check_single(chosen)
        return chosen

    def _leave(self, conn: sa.Connection, minions: Iterable[str], user: str) -> None:
        for minion in minions:
            for callback in self.on_delete:
                callback(conn, minion, f"its key was deleted by {user}")

    def notified(self, minions: Iterable[str]) -> list[str]:
        """Return those of *minions* that were notified of their acceptance; each once."""
        found = [name for name in minions if name in self._notified]
        self._notified.difference_update(found)
        return found

    async def _ask_again(self, names: Iterable[str]) -> bool:
        """Wait for a minion whose key was just deleted to ask again; return whether one did.

        A connected minion learns of the deletion at once and asks a moment later.
        """
        now = self._clock.monotonic()
        self._deleted = {n: at for n, at in self._deleted.items() if now - at < DELETED_SECONDS}
        loop = asyncio.get_running_loop()
        waits = [
            self._expected.setdefault(name, loop.create_future())
            for name in names
            if name in self._deleted
        ]
        if not waits:
            return False
        done, _ = await asyncio.wait(waits, timeout=ASK_AGAIN_SECONDS, return_when=FIRST_COMPLETED)
        return bool(done)

    def _choose(self, action: str, matches: list[str], include: set[str]) -> list[KnownKey]:
        """Return the keys that an action selects; full names select more states than globs."""
        usual = {*ACTIONS[action][0], *include}
        chosen = []
        for key in sorted(self._known, key=lambda k: (k.minion, k.since)):
            if key.state in usual:
                if any(fnmatchcase(key.minion, match) for match in matches):
                    chosen.append(key)
            elif key.minion in matches and key.state in NAMED.get(action, ()):
                chosen.append(key)
        pending = {key.minion for key in chosen if key.state == "pending"}
        # If a key of an id is pending, select it alone, not older refusals of the same id.
        return [k for k in chosen if k.state in usual or k.minion not in pending]

    def _left_without(self, deleted: Collection[KnownKey]) -> list[str]:
        """Return the ids that have no accepted key after the deletion of *deleted*."""
        gone = {key.fingerprint for key in deleted}
        return sorted(
            {k.minion for k in deleted if self._accepted.get(k.minion, k.fingerprint) in gone}
        )

    def _check_single(self, chosen: Iterable[KnownKey]) -> None:
        taken: dict[str, str] = dict(self._accepted)
        for key in chosen:
            if taken.setdefault(key.minion, key.fingerprint) != key.fingerprint:
                raise InvalidStateError(
                    f"{key.minion} has an accepted key {taken[key.minion][:16]}…; delete the one "
                    f"that is wrong first: catena key delete {key.minion}"
                )

    def _decide(
        self, conn: sa.Connection, action: str, chosen: Iterable[KnownKey], user: str
    ) -> None:
        _, target, act = ACTIONS[action]
        for key in chosen:
            data = {"result": True, "act": act, "id": key.minion, "fingerprint": key.fingerprint}
            if target:
                now = self._clock.now().timestamp()
                moved = replace(key, state=target, since=now, reason="")
                rows.decide(conn, moved, user)
                after_commit(conn, partial(self.remember, moved))
                data["pub"] = key.public
            else:
                rows.delete(conn, key.fingerprint)
                after_commit(conn, partial(self.forget, key))
            self._bus.record(conn, events.KEY, data)

    async def list(self, match: str = "*") -> dict[str, list[KeyLine]]:
        """Return keys by state, with descriptions of conflicts."""
        since = self._clock.now().timestamp() - minion_rows.CONFLICT_SECONDS
        conflicts = await self._store.read(lambda conn: minion_rows.conflicts(conn, since))
        shown: dict[str, list[KeyLine]] = {state: [] for state in STATES}
        for key in sorted(self._known, key=lambda k: (k.minion, k.since)):
            if fnmatchcase(key.minion, match):
                conflict = key.reason or conflicts.get(key.minion, "") or self._twin(key)
                shown[key.state].append(_shown(key, conflict))
        return shown

    def works_as(self, minion: str, machine_id: str) -> None:
        """Record the machine id of a minion's last Hello; "": remove it."""
        before = self._machine_of.pop(minion, "")
        if before:
            self._works_as[before].discard(minion)
            if not self._works_as[before]:
                del self._works_as[before]
        if machine_id:
            self._machine_of[minion] = machine_id
            self._works_as[machine_id].add(minion)

    def owner_of_machine(self, machine_id: str, asking: str = "") -> str:
        """Return the accepted minion to which a machine id belongs (`machines.owner`).

        Args:
            machine_id: as in a Hello.
            asking: the minion that claims it; it is the owner if nobody else is.
        """
        enrolled = {key.minion for key in self._known.of_machine(machine_id)}
        enrolled &= self._accepted.keys()
        found = []
        for minion in {*enrolled, *self._works_as.get(machine_id, ())} & self._accepted.keys():
            key = self._known.get(self._accepted[minion])
            works_as = self._machine_of.get(minion, "")
            # A minion that has since claimed another machine has left this one.
            mine = minion in enrolled and works_as in ("", machine_id)
            if key is not None:
                found.append(MachineClaim(minion, key.since, works_as == machine_id, mine))
        return machines.owner(found) or asking

    def _twin(self, key: KnownKey) -> str:
        if not key.machine_id:
            return ""
        for other in self._known.of_machine(key.machine_id):
            if other.minion != key.minion:
                return f"same machine id as {other.minion}: a clone?"
        return ""

    def fingers(self, match: str = "*") -> dict[str, str]:
        """Return id -> fingerprint of all keys except rejected ones."""
        found: dict[str, str] = {}
        for key in sorted(self._known, key=lambda k: k.since):
            if fnmatchcase(key.minion, match) and key.state != "rejected":
                found.setdefault(key.minion, key.fingerprint)
        return found

    async def make_token(
        self, minion: str, valid_seconds: int, user: str, once: Once = UNKEYED
    ) -> EnrolToken:
        """Make a one-time enrol token; only its hash is stored.

        Args:
            minion: the only id that may use it; "" for any.
            valid_seconds: its lifetime.
            user: who makes it.
            once: the request. With a key, the token is derived from it and the master's secret
                key, so that a repetition returns the same token although it is not stored.

        Raises:
            BadNameError: *minion* is neither "" nor an id.
            UsageError: the lifetime is not between a second and 30 days, or the request's key made
                a token that has since been forgotten.
        """
        if minion:
            minion_id(minion)
        if not 0 < valid_seconds <= TOKEN_VALID_LIMIT:
            raise UsageError(
                f"valid_seconds must be from 1 to {TOKEN_VALID_LIMIT} (30 days), "
                f"not {valid_seconds}"
            )
        token = self._token(once) if once.key else secrets.token_urlsafe(32)
        expires = self._clock.now().timestamp() + valid_seconds
        new = rows.NewToken(token_digest(token).hex(), minion, user, expires)

        def store(conn: sa.Connection) -> float:
            # Request keys are deleted after a day (`retention`), but a token must never be made
            # twice.
            if rows.has_token(conn, new.digest):
                text = f"request key {once.key} has already made a token; use a new request key"
                raise UsageError(text)
            rows.insert_token(conn, new)
            return expires

        return EnrolToken(token, await self._store.write(once.wrap(store, restore=float)))

    def _token(self, once: Once) -> str:
        text = "\0".join(("catena enrol token 1", once.user, once.key, once.digest))
        made = hmac_sha256(key_bytes(self._pair.secret), text.encode("utf-8"))
        return urlsafe_b64encode(made).decode("ascii").rstrip("=")

    async def announce(self, minion: str, public: str) -> None:
        """Store the next key of an accepted minion; both are valid until the new one's first use.

        Raises:
            BadKeyError: it is not a key.
            InvalidStateError: the key is already known.
        """
        user_id = fingerprint(public)
        now = self._clock.now().timestamp()
        known = self._known.get(user_id)
        if known is not None and (known.minion, known.state) == (minion, "announced"):
            return
        if known is not None:
            raise InvalidStateError(f"the key announced by {minion} is in use already")
        if minion not in self._accepted:
            raise InvalidStateError(f"{minion} has announced a key before and not used it yet")
        old = self._known.get(self._accepted[minion])
        assert old is not None
        key = replace(
            old, public=public, fingerprint=user_id, state="announced", since=now, reason=""
        )
        stale = [k for k in self.of_minion(minion) if k.state == "announced"]

        def store(conn: sa.Connection) -> None:
            for one in stale:
                rows.delete(conn, one.fingerprint)
                after_commit(conn, partial(self.forget, one))
            rows.insert(conn, key, "rotation")
            after_commit(conn, lambda: self.remember(key))

        await self._store.write(store)

    def used(self, conn: sa.Connection, user_id: str) -> None:
        """End a rotation when the announced key is used for a Hello: remove the old key.

        Runs in the transaction that stores the Hello.
        """
        key = self._known.get(user_id)
        if key is None or key.state != "announced":
            return
        for old in self.of_minion(key.minion):
            if old.state == "accepted":
                rows.delete(conn, old.fingerprint)
                after_commit(conn, partial(self.forget, old))
        rows.accept(conn, user_id)
        taken = replace(key, state="accepted")
        after_commit(conn, lambda: self.remember(taken))
        data = {"result": True, "act": "rotated", "id": key.minion, "fingerprint": user_id}
        self._bus.record(conn, events.KEY, data)


def _shown(key: KnownKey, conflict: str) -> KeyLine:
    return KeyLine(
        id=key.minion,
        fingerprint=key.fingerprint,
        address=key.address,
        since=key.since,
        machine_id=key.machine_id,
        conflict=conflict,
    )
