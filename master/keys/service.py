"""The keys that ask to come in: pending, accepted, rejected, denied; tokens and rotation."""

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
from typing import Any

import sqlalchemy as sa

from catena.core import events, failpoints
from catena.core.clock import Clock
from catena.core.digest import hmac_sha256
from catena.core.errors import InvalidStateError, UsageError
from catena.core.ids import minion_id
from catena.core.suggest import unknown
from catena.master.events.bus import EventBus
from catena.master.keys import machines
from catena.master.keys.machines import Claim
from catena.master.keys.ring import KeyRing, KnownKey
from catena.master.keys.waiting import WaitingKeys
from catena.master.minions import rows as minion_rows
from catena.master.requests.once import UNKEYED, Once
from catena.master.store.database import Store, after_commit
from catena.master.store.tables import KEYS, MINIONS, TOKENS
from catena.transport.keys import KeyPair, fingerprint, key_bytes, token_digest
from catena.transport.peers import KeyTable

#: Action -> (states that it takes by itself, state that it leads to, Salt's word in events).
ACTIONS = {
    "accept": (("pending",), "accepted", "accepted"),
    "reject": (("pending",), "rejected", "rejected"),
    "delete": (("pending", "accepted", "rejected", "denied", "announced"), "", "delete"),
    "rotate": (("accepted",), "accepted", ""),
}
#: States that an action also takes where the id is named in full, not by a glob.
NAMED = {"accept": ("rejected", "denied"), "reject": ("accepted", "denied")}
STATES = ("accepted", "pending", "rejected", "denied", "announced")
#: A key that is accepted by name so soon after its deletion is waited for, and how long: agents
#: up to this version ask again after about six seconds, newer ones after two.
DELETED_SECONDS = 60.0
ASK_AGAIN_SECONDS = 8.0
TOKEN_VALID_LIMIT = 30 * 24 * 3600


class Keys:
    """The keys of the store and, for the gateway, those of them that are accepted.

    Reads come from memory; every change is committed first and takes effect right after, on the
    same turn of the loop.
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
        #: The machine as which each minion said Hello last, and the other way round.
        self._machine_of: dict[str, str] = {}
        self._works_as: defaultdict[str, set[str]] = defaultdict(set)
        #: Told of a key right before the gateway stops serving it.
        self.on_close: list[Callable[[KnownKey], None]] = []
        #: Called in the transaction that leaves a minion id without an accepted key, with that id
        #: and the reason in words.
        self.on_delete: list[Callable[[sa.Connection, str, str], None]] = []
        #: Tells the minion of a key that it is accepted; returns whether that could be sent.
        self.on_accept: list[Callable[[KnownKey], bool]] = []
        #: Accepted minions that were told so and may not have said Hello yet.
        self._told: set[str] = set()
        #: Minions whose key was deleted, and when, by the monotonic clock.
        self._deleted: dict[str, float] = {}
        #: Who waits for a minion to ask again.
        self._expected: dict[str, asyncio.Future[None]] = {}

    async def open(self) -> None:
        """Load every key."""
        for row in await self._store.read(lambda conn: conn.execute(sa.select(KEYS)).all()):
            self.remember(_known(row))
        query = sa.select(MINIONS.c.id, MINIONS.c.machine_id).where(MINIONS.c.session != "")
        for minion, machine in await self._store.read(lambda conn: conn.execute(query).all()):
            self.works_as(minion, machine)

    def minion_of(self, user_id: str) -> str | None:
        """Return the minion id of an accepted (or announced) key's fingerprint, or None."""
        key = self._known.get(user_id)
        return key.minion if key and key.state in ("accepted", "announced") else None

    def known(self, user_id: str) -> KnownKey | None:
        """Return what is known of a key by its fingerprint."""
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
        """Take a committed key into memory and, when it may come in, into the gateway's table."""
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
                if any([told(key) for told in self.on_accept]):
                    self._told.add(key.minion)
            return
        self._close(key)

    def forget(self, key: KnownKey) -> None:
        """Drop a committed deletion from memory; its connection ends with the next frame."""
        self._known.drop(key.fingerprint)
        self.waiting.drop(key.fingerprint)
        self._close(key)

    def forget_waiting(self, key: KnownKey) -> None:
        """Drop a key that gave way to another, unless it was decided meanwhile."""
        known = self._known.get(key.fingerprint)
        if known is not None and known.state == "pending":
            self.forget(known)

    def _close(self, key: KnownKey) -> None:
        for told in self.on_close:
            told(key)
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
            match: ids or globs, separated by commas. An id in full also reaches keys that were
                decided otherwise before (NAMED).
            include: further states whose keys are taken too ("rejected", "denied", "accepted").
            user: who decides.
            once: the request that asks for it; rotations, which change no row, ignore it.

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

        def decide(conn: sa.Connection) -> dict[str, list[str]]:
            self._decide(conn, action, chosen, user)
            self._leave(conn, left, user)
            return {"changed": names}

        answer = await self._store.write(once.wrap(decide))
        failpoints.hit("master.key.decided")
        if action == "delete":
            self._deleted |= dict.fromkeys(answer["changed"], self._clock.monotonic())
        return answer["changed"]

    async def _chosen(self, action: str, match: str, include: set[str]) -> list[KnownKey]:
        """Return the keys that an action is about, once those that are expected have asked."""
        named = [part.strip() for part in match.split(",")]
        chosen = self._choose(action, named, include)
        if action == "accept" and not chosen and await self._ask_again(named):
            chosen = self._choose(action, named, include)
        if action == "accept":
            self._check_single(chosen)
        return chosen

    def _leave(self, conn: sa.Connection, minions: Iterable[str], user: str) -> None:
        for minion in minions:
            for told in self.on_delete:
                told(conn, minion, f"its key was deleted by {user}")

    def told(self, minions: Iterable[str]) -> list[str]:
        """Return those of *minions* that were told that they are accepted; once for each time."""
        found = [name for name in minions if name in self._told]
        self._told.difference_update(found)
        return found

    async def _ask_again(self, names: Iterable[str]) -> bool:
        """Wait until a minion asks whose key was just deleted; return whether one did.

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
        """Return the keys that an action means: exact names reach further than globs."""
        usual = {*ACTIONS[action][0], *include}
        chosen = []
        for key in sorted(self._known, key=lambda k: (k.minion, k.since)):
            if key.state in usual:
                if any(fnmatchcase(key.minion, match) for match in matches):
                    chosen.append(key)
            elif key.minion in matches and key.state in NAMED.get(action, ()):
                chosen.append(key)
        pending = {key.minion for key in chosen if key.state == "pending"}
        # A key that waits is the one that is meant; older refusals of the same id stay.
        return [k for k in chosen if k.state in usual or k.minion not in pending]

    def _left_without(self, deleted: Collection[KnownKey]) -> list[str]:
        """Return the ids that have no accepted key any more once *deleted* are gone."""
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
            rule = KEYS.c.fingerprint == key.fingerprint
            data = {"result": True, "act": act, "id": key.minion, "fingerprint": key.fingerprint}
            if target:
                now = self._clock.now().timestamp()
                values = {"state": target, "since": now, "decided_by": user, "reason": ""}
                conn.execute(sa.update(KEYS).where(rule).values(values))
                moved = replace(key, state=target, since=now, reason="")
                after_commit(conn, partial(self.remember, moved))
                data["pub"] = key.public
            else:
                conn.execute(sa.delete(KEYS).where(rule))
                after_commit(conn, partial(self.forget, key))
            self._bus.record(conn, events.KEY, data)

    async def list(self, match: str = "*") -> dict[str, list[dict[str, Any]]]:
        """Return keys by state, as KeyList describes, with conflicts in words."""
        since = self._clock.now().timestamp() - minion_rows.CONFLICT_SECONDS
        query = sa.select(MINIONS.c.id, MINIONS.c.conflict).where(MINIONS.c.conflict_at > since)
        rows = await self._store.read(lambda conn: conn.execute(query).all())
        conflicts = {row.id: row.conflict for row in rows}
        shown: dict[str, list[dict[str, Any]]] = {state: [] for state in STATES}
        for key in sorted(self._known, key=lambda k: (k.minion, k.since)):
            if fnmatchcase(key.minion, match):
                conflict = key.reason or conflicts.get(key.minion, "") or self._twin(key)
                shown[key.state].append(_shown(key, conflict))
        return shown

    def works_as(self, minion: str, machine_id: str) -> None:
        """Note the machine as which a minion said Hello last; "": it is forgotten."""
        before = self._machine_of.pop(minion, "")
        if before:
            self._works_as[before].discard(minion)
            if not self._works_as[before]:
                del self._works_as[before]
        if machine_id:
            self._machine_of[minion] = machine_id
            self._works_as[machine_id].add(minion)

    def owner_of_machine(self, machine_id: str, asking: str = "") -> str:
        """Return the accepted minion that a machine id belongs to (`machines.owner`).

        Args:
            machine_id: as a Hello has it.
            asking: the minion that says so; it is the owner where nobody else is.
        """
        enrolled = {key.minion for key in self._known.of_machine(machine_id)}
        enrolled &= self._accepted.keys()
        found = []
        for minion in {*enrolled, *self._works_as.get(machine_id, ())} & self._accepted.keys():
            key = self._known.get(self._accepted[minion])
            works_as = self._machine_of.get(minion, "")
            # Who works as another machine by now has left this one.
            mine = minion in enrolled and works_as in ("", machine_id)
            if key is not None:
                found.append(Claim(minion, key.since, works_as == machine_id, mine))
        return machines.owner(found) or asking

    def _twin(self, key: KnownKey) -> str:
        if not key.machine_id:
            return ""
        for other in self._known.of_machine(key.machine_id):
            if other.minion != key.minion:
                return f"same machine id as {other.minion}: a clone?"
        return ""

    def fingers(self, match: str = "*") -> dict[str, str]:
        """Return id -> fingerprint of every key but the rejected."""
        found: dict[str, str] = {}
        for key in sorted(self._known, key=lambda k: k.since):
            if fnmatchcase(key.minion, match) and key.state != "rejected":
                found.setdefault(key.minion, key.fingerprint)
        return found

    async def make_token(
        self, minion: str, valid_seconds: int, user: str, once: Once = UNKEYED
    ) -> dict[str, Any]:
        """Make a one-time enrol token; only its hash is kept.

        Args:
            minion: only for this id; "" for any.
            valid_seconds: how long it can be used.
            user: who makes it.
            once: the request; with a key the token is made from it and the master's secret key,
                so that a repetition gets the same one although it is stored nowhere.

        Raises:
            BadNameError: *minion* is neither "" nor an id.
            UsageError: the time is not between a second and 30 days, or the key of the request
                made a token so long ago that it is forgotten.
        """
        if minion:
            minion_id(minion)
        if not 0 < valid_seconds <= TOKEN_VALID_LIMIT:
            raise UsageError("valid_seconds: from 1 to 2592000 (30 days)")
        token = self._token(once) if once.key else secrets.token_urlsafe(32)
        expires = self._clock.now().timestamp() + valid_seconds
        row = {
            "digest": token_digest(token).hex(),
            "minion": minion,
            "made_by": user,
            "expires": expires,
        }

        def store(conn: sa.Connection) -> float:
            # The key is forgotten after a day (`retention`), and a token is never made twice.
            made = sa.select(TOKENS.c.id).where(TOKENS.c.digest == row["digest"])
            if conn.execute(made).first() is not None:
                text = f"request key {once.key} made a token long ago; use a new key for a new one"
                raise UsageError(text)
            conn.execute(sa.insert(TOKENS).values(row))
            return expires

        return {"token": token, "expires": await self._store.write(once.wrap(store))}

    def _token(self, once: Once) -> str:
        text = "\0".join(("catena enrol token 1", once.user, once.key, once.digest))
        made = hmac_sha256(key_bytes(self._pair.secret), text.encode("utf-8"))
        return urlsafe_b64encode(made).decode("ascii").rstrip("=")

    async def announce(self, minion: str, public: str) -> None:
        """Keep the next key of an accepted minion; both are valid until the new one's first use.

        Raises:
            BadKeyError: it is not a key.
            InvalidStateError: the key is known already.
        """
        user_id = fingerprint(public)
        now = self._clock.now().timestamp()
        known = self._known.get(user_id)
        if known is not None and (known.minion, known.state) == (minion, "announced"):
            return
        if known is not None:
            raise InvalidStateError("this key is in use already")
        if minion not in self._accepted:
            raise InvalidStateError(f"{minion} has announced a key and not used it yet")
        old = self._known.get(self._accepted[minion])
        assert old is not None
        key = replace(
            old, public=public, fingerprint=user_id, state="announced", since=now, reason=""
        )
        stale = [k for k in self.of_minion(minion) if k.state == "announced"]

        def store(conn: sa.Connection) -> None:
            for one in stale:
                conn.execute(sa.delete(KEYS).where(KEYS.c.fingerprint == one.fingerprint))
                after_commit(conn, partial(self.forget, one))
            insert_key(conn, key, "rotation")
            after_commit(conn, lambda: self.remember(key))

        await self._store.write(store)

    def used(self, conn: sa.Connection, user_id: str) -> None:
        """End a rotation when the announced key says Hello: the old key is dropped.

        Runs in the transaction that stores the Hello.
        """
        key = self._known.get(user_id)
        if key is None or key.state != "announced":
            return
        for old in self.of_minion(key.minion):
            if old.state == "accepted":
                conn.execute(sa.delete(KEYS).where(KEYS.c.fingerprint == old.fingerprint))
                after_commit(conn, partial(self.forget, old))
        change = sa.update(KEYS).where(KEYS.c.fingerprint == user_id)
        conn.execute(change.values(state="accepted"))
        taken = replace(key, state="accepted")
        after_commit(conn, lambda: self.remember(taken))
        data = {"result": True, "act": "rotated", "id": key.minion, "fingerprint": user_id}
        self._bus.record(conn, events.KEY, data)


def insert_key(conn: sa.Connection, key: KnownKey, decided_by: str = "") -> None:
    """Store a key in the running transaction."""
    row = {
        "minion": key.minion,
        "public_key": key.public,
        "fingerprint": key.fingerprint,
        "state": key.state,
        "machine_id": key.machine_id,
        "address": key.address,
        "version": key.version,
        "reason": key.reason,
        "since": key.since,
        "seen": key.since,
        "decided_by": decided_by,
    }
    conn.execute(sa.insert(KEYS).values(row))


def _known(row: sa.Row[Any]) -> KnownKey:
    return KnownKey(
        row.public_key,
        row.fingerprint,
        row.minion,
        row.state,
        row.machine_id,
        row.address,
        row.version,
        row.reason,
        row.since,
    )


def _shown(key: KnownKey, conflict: str) -> dict[str, Any]:
    return {
        "id": key.minion,
        "fingerprint": key.fingerprint,
        "address": key.address,
        "since": key.since,
        "machine_id": key.machine_id,
        "conflict": conflict,
    }
