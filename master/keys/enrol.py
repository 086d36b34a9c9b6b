"""Answers the enrol socket, which anybody may use, with the state of a key."""

from __future__ import annotations

import asyncio
import hmac
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from catena import __version__
from catena.core import events
from catena.core.clock import Clock
from catena.core.ids import machine_id, minion_id
from catena.master.events.bus import EventBus
from catena.master.keys import rows
from catena.master.keys.ring import KnownKey
from catena.master.keys.service import Keys
from catena.master.keys.waiting import PENDING_LIMIT
from catena.master.minions.limits import RateLimit
from catena.master.minions.sessions import MessageSender
from catena.master.store.database import Store, after_commit
from catena.transport.keys import proof_by_digest
from catena.transport.messages import EnrolOffer, EnrolProbe, EnrolReply, EnrolRequest, Envelope
from catena.transport.networks import network
from catena.transport.peers import Peer

log = logging.getLogger(__name__)

#: Maximum number of denied keys stored for `catena key list`; further ones are not stored.
DENIED_LIMIT = 1000
REQUESTS_PER_SECOND = 5.0
REQUEST_BURST = 50.0
_SEEN_EVERY_SECONDS = 60.0
#: Maximum log lines per second about too many waiting keys.
FULL_LOG_RATE = 1 / 60


@dataclass(frozen=True, slots=True)
class EnrolParts:
    """The objects that the enrol service works with."""

    store: Store
    bus: EventBus
    keys: Keys
    link: MessageSender
    clock: Clock
    #: The master's own public key.
    master_key: str
    auto_accept: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """A place among the waiting keys, reserved for a new one."""

    #: The key that is removed for it.
    leaving: KnownKey | None = None
    is_free: bool = True


class Enrol:
    """Decides about keys that ask to be accepted."""

    def __init__(self, parts: EnrolParts) -> None:
        self._parts = parts
        # Limits the log lines about refused keys during a flood.
        self._log_rate = RateLimit(FULL_LOG_RATE, 1.0, parts.clock.monotonic)
        self._rate = RateLimit(REQUESTS_PER_SECOND, REQUEST_BURST, parts.clock.monotonic)
        self._seen: dict[str, float] = {}
        #: Fingerprint -> the last request of each key that is not accepted, to notify it then.
        self._asked: dict[str, tuple[Peer, bytes]] = {}
        parts.keys.on_close.append(self._forget)
        parts.keys.on_accept.append(self._notify_accepted)

    def on_message(self, peer: Peer, envelope: Envelope) -> asyncio.Future[Any] | None:
        """Handle a probe or a request; the answer is sent once it is durable.

        Raises:
            BadNameError: the id or machine id does not follow its grammar.
        """
        message = envelope.message
        if not self._rate.allow(network(peer.address).host):
            self._reply(peer, envelope, "pending", "too many requests from this address", 10.0)
            return None
        if isinstance(message, EnrolProbe):
            offer = EnrolOffer(self._parts.master_key, __version__)
            self._parts.link.send(peer, offer, envelope.msg_id)
            return None
        minion_id(message.id)
        machine_id(message.machine_id)
        known = self._parts.keys.known(peer.user_id)
        if known is not None and not (known.state == "pending" and message.token_proof):
            self._answer_known(peer, envelope, known)
            return None
        place = self._place(peer) if known is None else _Place()
        future = self._parts.store.post(
            lambda conn: self._enrol(conn, peer, message, known, place)
        )
        future.add_done_callback(lambda done: self._settle(peer, place, done))
        future.add_done_callback(lambda done: self._answer_stored(peer, envelope, done))
        return future

    def _forget(self, key: KnownKey) -> None:
        self._seen.pop(key.fingerprint, None)
        self._asked.pop(key.fingerprint, None)

    def _notify_accepted(self, key: KnownKey) -> bool:
        """Notify a minion with an open request of its acceptance; return False if impossible.

        An older agent closes its connection after a reply that it has to wait, and asks again.
        """
        peer, msg_id = self._asked.pop(key.fingerprint, (None, b""))
        if peer is None:
            return False
        reply = EnrolReply("accepted", "", self._parts.master_key, 0.0)
        return self._parts.link.send(peer, reply, msg_id)

    def _place(self, peer: Peer) -> _Place:
        """Reserve a place among the waiting keys for a new one."""
        waiting = self._parts.keys.waiting
        if len(waiting) < PENDING_LIMIT:
            waiting.ask(peer.user_id, peer.address)
            return _Place()
        leaving = self._parts.keys.known(waiting.to_displace(peer.address))
        if self._log_rate.allow(""):
            fate = (
                f"it replaces that of {leaving.minion} at {leaving.address}"
                if leaving
                else "it is not stored"
            )
            log.warning(
                "a key from %s is new, but %d keys already wait to be accepted: %s; "
                "see catena key list",
                peer.address,
                PENDING_LIMIT,
                fate,
            )
        if leaving is None:
            return _Place(is_free=False)
        waiting.drop(leaving.fingerprint)
        waiting.ask(peer.user_id, peer.address)
        return _Place(leaving)

    def _settle(self, peer: Peer, place: _Place, done: asyncio.Future[KnownKey | None]) -> None:
        """Release places that were not needed, or whose key was not stored."""
        failed = done.cancelled() or done.exception() is not None
        key = None if failed else done.result()
        if key is not None and key.state == "pending":
            return
        waiting = self._parts.keys.waiting
        waiting.drop(peer.user_id)
        for other in (peer.user_id, place.leaving.fingerprint if place.leaving else ""):
            # Keep places of keys that another request has stored, or that were not removed.
            stays = self._parts.keys.known(other)
            if stays is not None and stays.state == "pending":
                waiting.ask(stays.fingerprint, stays.address)

    def _answer_known(self, peer: Peer, envelope: Envelope, key: KnownKey) -> None:
        now = self._parts.clock.now().timestamp()
        if key.minion != envelope.message.id:
            why = f"this key belongs to {key.minion}; delete the key on this minion first"
            self._reply(peer, envelope, "denied", why, 60.0)
            return
        if key.state == "pending":
            self._parts.keys.waiting.ask(key.fingerprint, key.address)
        if now - self._seen.get(key.fingerprint, 0.0) > _SEEN_EVERY_SECONDS:
            self._seen[key.fingerprint] = now
            self._parts.store.later(lambda conn: rows.seen(conn, key.fingerprint, now))
        self._answer(peer, envelope, key, now)

    def _answer(self, peer: Peer, envelope: Envelope, key: KnownKey, now: float) -> None:
        if key.state not in ("accepted", "announced"):
            self._asked[key.fingerprint] = (peer, envelope.msg_id)
        self._reply(peer, envelope, *_reply_fields(key, now))

    def _answer_stored(
        self, peer: Peer, envelope: Envelope, done: asyncio.Future[KnownKey | None]
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            self._reply(peer, envelope, "pending", "the master can't store keys now", 10.0)
            return
        key = done.result()
        if key is None:
            self._reply(peer, envelope, "pending", "too many keys wait for a decision", 60.0)
            return
        self._answer(peer, envelope, key, self._parts.clock.now().timestamp())

    def _reply(
        self, peer: Peer, envelope: Envelope, state: str, reason: str, retry: float
    ) -> None:
        reply = EnrolReply(state, reason, self._parts.master_key, retry)
        self._parts.link.send(peer, reply, envelope.msg_id)

    def _enrol(
        self,
        conn: sa.Connection,
        peer: Peer,
        request: EnrolRequest,
        known: KnownKey | None,
        place: _Place,
    ) -> KnownKey | None:
        now = self._parts.clock.now().timestamp()
        state, reason, by = self._verdict(conn, peer, request, now)
        if known is None and state == "pending":
            if not place.is_free:
                return None
            if place.leaving is not None:
                rows.delete_pending(conn, place.leaving.fingerprint)
                after_commit(conn, partial(self._parts.keys.forget_waiting, place.leaving))
        if known is not None and state == "pending":
            return known
        key = KnownKey(
            peer.key,
            peer.user_id,
            request.id,
            state,
            request.machine_id,
            peer.address,
            request.version[:64],
            reason,
            now,
        )
        if state == "denied" and self._parts.keys.count("denied") >= DENIED_LIMIT:
            return key
        if known is not None:
            rows.delete(conn, key.fingerprint)
        rows.insert(conn, key, by)
        after_commit(conn, lambda: self._parts.keys.remember(key))
        act = {"pending": "pend", "accepted": "accept"}.get(state, state)
        data = {"result": state == "accepted", "act": act, "id": key.minion, "pub": key.public}
        self._parts.bus.record(conn, events.AUTH, data)
        return key

    def _verdict(
        self, conn: sa.Connection, peer: Peer, request: EnrolRequest, now: float
    ) -> tuple[str, str, str]:
        """Return state, reason and who decided, for a key that is new or still pending."""
        other = rows.rival(conn, request.id, peer.user_id)
        held = other is not None and other.state == "pending"
        if (other is None or held) and request.token_proof:
            if self._take_token(conn, peer, request, now):
                if other is not None:
                    self._give_way(conn, other, now)
                return "accepted", "", "token"
        if other is not None:
            # A second key for a known id never replaces the first (attack row X38).
            shown = f"{other.state}, {other.fingerprint[:16]}…"
            return "denied", f"{request.id} has another key ({shown}); {_ADVICE}", ""
        if self._parts.auto_accept:
            return "accepted", "", "auto_accept"
        # Shown to the minion and in `catena key list`, where the token's maker looks for it.
        return "pending", "its token is unknown, used or expired" * bool(request.token_proof), ""

    def _give_way(self, conn: sa.Connection, other: KnownKey, now: float) -> None:
        """Deny a waiting key with the id of a minion that has a valid token."""
        known = self._parts.keys.known(other.fingerprint)
        if known is None:
            return
        why = f"{other.minion} was enrolled by a token with another key"
        moved = replace(known, state="denied", reason=why, since=now)
        rows.deny(conn, moved)
        after_commit(conn, lambda: self._parts.keys.remember(moved))

    def _take_token(
        self, conn: sa.Connection, peer: Peer, request: EnrolRequest, now: float
    ) -> bool:
        """Use up the token whose knowledge the request proves."""
        for token in rows.usable_tokens(conn, request.id, now):
            digest = bytes.fromhex(token.digest)
            proof = proof_by_digest(digest, peer.key, self._parts.master_key, request.id)
            if hmac.compare_digest(proof.encode(), request.token_proof.encode()):
                rows.use_token(conn, token, request.id)
                return True
        return False


_ADVICE = "see `catena key list` on the master"


def _reply_fields(key: KnownKey, now: float) -> tuple[str, str, float]:
    """Return state, reason and seconds until the next request, for EnrolReply."""
    if key.state in ("accepted", "announced"):
        return "accepted", "", 0.0
    if key.state == "pending":
        # During the first minutes an operator is probably at the terminal.
        pause = 2.0 if now - key.since < 600 else 15.0
        why = f"waits for `catena key accept {key.minion}` on the master"
        return "pending", f"{key.reason}; {why}" if key.reason else why, pause
    # A wrong decision is usually reversed at once.
    pause = 5.0 if now - key.since < 600 else 60.0
    return key.state, key.reason or f"the key is {key.state}; {_ADVICE}", pause
