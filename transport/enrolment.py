"""How a minion and its master come to trust each other's keys (sans-IO, minion's side).

The enrol socket authenticates nobody, because its server key is published. A minion therefore
trusts an offered key only if it has the configured fingerprint or, without one, is the first ever
offered. A reply about the minion's own key is a hint for people and for the timing of the next
attempt; the minion never stops trying because of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional, Tuple, Union

from catena.core.errors import CatenaError
from catena.core.files import AnyPath, key_folder, read_limited, write_durable
from catena.core.frozen import dataclass
from catena.transport.keys import (
    BadKeyError,
    UnsafeKeyError,
    fingerprint,
    key_bytes,
    same_fingerprint,
    token_proof,
)
from catena.transport.messages import (
    EnrolOffer,
    EnrolProbe,
    EnrolReply,
    EnrolRequest,
    Failure,
)

MASTER_KEY_FILE = "master.pub"
#: Bounds of the wait that a reply can request, in seconds; the sender is not authenticated.
RETRY_SECONDS = (1.0, 300.0)


@dataclass(frozen=True)
class Trusted:
    """The master's key is now known. first_use: only because it was the first key offered."""

    fingerprint: str
    first_use: bool


@dataclass(frozen=True)
class EnrolState:
    """What the master, or an unauthenticated peer in its place, reports about the minion's key.

    state: "accepted", "pending", "rejected", "denied", or "untrusted": the key that the master
    offers or answers with is not the expected one.
    """

    state: str
    reason: str


@dataclass(frozen=True)
class Applicant:
    """The minion that asks for its key to be accepted."""

    id: str
    machine_id: str
    version: str
    public_key: str
    #: Fingerprint that the master's key must have; "" for trust on first use.
    master_finger: str = ""
    token: str = ""


@dataclass(frozen=True)
class EnrolOutcome:
    """What to do after an answer."""

    events: Tuple[Union[Trusted, EnrolState], ...] = ()
    #: Send the next question on the same connection.
    ask: bool = False
    #: Connect to the control socket.
    connect: bool = False
    #: Seconds to wait before the next question; None leaves the wait to the back-off.
    retry_seconds: Optional[float] = None


class TrustStore:
    """The one master key that this minion trusts, stored in `<pki_dir>/master.pub`."""

    def __init__(self, folder: AnyPath) -> None:
        self.path = Path(folder) / MASTER_KEY_FILE

    def load(self) -> Optional[str]:
        """Return the stored key, or None.

        Raises:
            UnsafeKeyError: the file is damaged; a new key is never trusted in its place.
        """
        try:
            text = read_limited(self.path, 256).decode("ascii", "replace").strip()
            key_bytes(text)
        except FileNotFoundError:
            return None
        except BadKeyError:
            raise UnsafeKeyError(
                f"{self.path}: holds no key; remove it to trust the master anew"
            ) from None
        return text

    def keep(self, key: str) -> None:
        """Store *key* durably."""
        key_folder(self.path.parent)
        write_durable(self.path, key.encode() + b"\n", 0o600)


class Enrolment:
    """One minion's side of the enrol socket.

    Args:
        applicant: the minion that asks.
        store: where the master's key is stored.
    """

    def __init__(self, applicant: Applicant, store: TrustStore) -> None:
        self._applicant = applicant
        self._store = store
        self._last: Optional[EnrolState] = None
        #: The trusted key of the master, Z85; None until there is one.
        self.master_key = store.load()
        finger = applicant.master_finger
        if self.master_key and finger:
            if not same_fingerprint(fingerprint(self.master_key), finger):
                # The configured fingerprint takes precedence over the stored key.
                self.master_key = None

    def question(self) -> Union[EnrolProbe, EnrolRequest]:
        """Return the message to send next."""
        who = self._applicant
        if self.master_key is None:
            return EnrolProbe()
        proof = ""
        if who.token:
            proof = token_proof(who.token, who.public_key, self.master_key, who.id)
        return EnrolRequest(who.id, who.machine_id, who.version, proof)

    def answer(self, message: Any) -> EnrolOutcome:
        """Return what to do after *message*, an answer from the enrol socket."""
        if isinstance(message, EnrolOffer):
            return self._offer(message)
        if isinstance(message, EnrolReply):
            return self._reply(message)
        if isinstance(message, Failure) and message.code != "TryLaterError":
            return EnrolOutcome(self._changed(EnrolState("denied", _printable(message.message))))
        return EnrolOutcome()

    def _offer(self, offer: EnrolOffer) -> EnrolOutcome:
        if self.master_key is not None:
            return EnrolOutcome()
        try:
            offered = fingerprint(offer.master_key)
        except BadKeyError:
            return EnrolOutcome(
                self._changed(EnrolState("untrusted", "the master offers no valid key"))
            )
        finger = self._applicant.master_finger
        if finger and not same_fingerprint(offered, finger):
            reason = f"the master offers key {offered}, but master_finger is {finger}"
            return EnrolOutcome(self._changed(EnrolState("untrusted", reason)))
        try:
            self._store.keep(offer.master_key)
        except (OSError, CatenaError) as error:
            # Without a stored key the minion would trust any key again at each start.
            reason = f"the master's key cannot be stored: {error}"
            return EnrolOutcome(self._changed(EnrolState("untrusted", reason)))
        self.master_key = offer.master_key
        return EnrolOutcome((Trusted(offered, first_use=not finger),), ask=True)

    def _reply(self, reply: EnrolReply) -> EnrolOutcome:
        if self.master_key is None or reply.master_key != self.master_key:
            return EnrolOutcome(
                self._changed(EnrolState("untrusted", self._mismatch(reply.master_key)))
            )
        state = reply.state
        if state not in ("accepted", "pending", "rejected", "denied"):
            return EnrolOutcome()
        events = self._changed(EnrolState(state, _printable(reply.reason)))
        if state == "accepted":
            return EnrolOutcome(events, connect=True)
        low, high = RETRY_SECONDS
        return EnrolOutcome(events, retry_seconds=min(max(reply.retry_seconds, low), high))

    def _mismatch(self, key: str) -> str:
        try:
            shown = fingerprint(key)
        except BadKeyError:
            shown = "(no valid key)"
        kept = fingerprint(self.master_key) if self.master_key else "none"
        return (
            f"the master answers with key {shown}, but the trusted key is {kept}; "
            f"if the master's key was changed on purpose, remove {self._store.path}"
        )

    def _changed(self, state: EnrolState) -> Tuple[EnrolState, ...]:
        if state == self._last:
            return ()
        self._last = state
        return (state,)

    def forget_state(self) -> None:
        """Report the next state even if it equals the last one (after the connection was up)."""
        self._last = None


def _printable(text: str) -> str:
    found: List[str] = [c if c.isprintable() else " " for c in text[:1000]]
    return "".join(found)
