from __future__ import annotations

from pathlib import Path

import pytest

from catena.transport.enrolment import (
    Applicant,
    Enrolment,
    EnrolOutcome,
    EnrolState,
    Trusted,
    TrustStore,
)
from catena.transport.keys import UnsafeKeyError, generate, token_proof
from catena.transport.messages import EnrolOffer, EnrolProbe, EnrolReply, EnrolRequest, Failure

MINION = generate()
MASTER = generate()
OTHER = generate()


def applicant(finger: str = "", token: str = "") -> Applicant:
    return Applicant("m1", "mach1", "1.0", MINION.public, finger, token)


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "pki")


def reply(state: str = "pending", key: str = MASTER.public, retry: float = 10.0) -> EnrolReply:
    return EnrolReply(state, "because", key, retry)


def test_minion_without_a_master_key_probes_for_it(store: TrustStore) -> None:
    assert Enrolment(applicant(), store).question() == EnrolProbe()


def test_first_master_key_is_trusted_and_stored(store: TrustStore) -> None:
    enrolment = Enrolment(applicant(), store)
    following = enrolment.answer(EnrolOffer(MASTER.public, "1"))
    assert following == EnrolOutcome((Trusted(MASTER.fingerprint, first_use=True),), ask=True)
    assert enrolment.question() == EnrolRequest("m1", "mach1", "1.0", "")
    again = Enrolment(applicant(), store)
    assert again.master_key == MASTER.public


def test_second_offer_of_a_key_is_ignored(store: TrustStore) -> None:
    enrolment = Enrolment(applicant(), store)
    enrolment.answer(EnrolOffer(MASTER.public, "1"))
    assert enrolment.answer(EnrolOffer(OTHER.public, "1")) == EnrolOutcome()
    assert store.load() == enrolment.master_key == MASTER.public


@pytest.mark.parametrize("colons", [False, True])
def test_offered_key_is_trusted_only_with_the_configured_fingerprint(
    store: TrustStore, colons: bool
) -> None:
    finger = MASTER.fingerprint.upper()
    if colons:
        finger = ":".join(finger[at : at + 2] for at in range(0, 64, 2))
    enrolment = Enrolment(applicant(finger), store)
    (state,) = enrolment.answer(EnrolOffer(OTHER.public, "1")).events
    assert isinstance(state, EnrolState)
    assert state.state == "untrusted"
    assert OTHER.fingerprint in state.reason
    assert store.load() is None
    following = enrolment.answer(EnrolOffer(MASTER.public, "1"))
    assert following.events == (Trusted(MASTER.fingerprint, first_use=False),)


def test_stored_key_that_differs_from_the_configured_fingerprint_is_replaced(
    store: TrustStore,
) -> None:
    store.keep(OTHER.public)
    enrolment = Enrolment(applicant(MASTER.fingerprint), store)
    assert enrolment.question() == EnrolProbe()
    enrolment.answer(EnrolOffer(MASTER.public, "1"))
    assert store.load() == MASTER.public


@pytest.mark.parametrize("key", ["", "short", "~" * 40])
def test_offer_of_an_invalid_key_is_not_trusted(store: TrustStore, key: str) -> None:
    enrolment = Enrolment(applicant(), store)
    (state,) = enrolment.answer(EnrolOffer(key, "1")).events
    assert isinstance(state, EnrolState)
    assert state.state == "untrusted"
    assert store.load() is None


def test_damaged_trust_store_is_an_error_and_not_replaced(store: TrustStore) -> None:
    store.keep(MASTER.public)
    store.path.write_text("garbage")
    with pytest.raises(UnsafeKeyError, match=r"master\.pub"):
        Enrolment(applicant(), store)


def test_token_is_proved_without_being_sent(store: TrustStore) -> None:
    store.keep(MASTER.public)
    question = Enrolment(applicant(token="secret"), store).question()
    assert isinstance(question, EnrolRequest)
    assert question.token_proof == token_proof("secret", MINION.public, MASTER.public, "m1")
    assert "secret" not in repr(question)


def test_accepted_reply_leads_to_a_control_connection(store: TrustStore) -> None:
    store.keep(MASTER.public)
    following = Enrolment(applicant(), store).answer(reply("accepted", retry=0.0))
    assert following.connect
    assert following.events == (EnrolState("accepted", "because"),)


@pytest.mark.parametrize("state", ["pending", "rejected", "denied"])
def test_enrol_state_is_reported_once_and_asked_for_again(store: TrustStore, state: str) -> None:
    store.keep(MASTER.public)
    enrolment = Enrolment(applicant(), store)
    first = enrolment.answer(reply(state))
    assert first == EnrolOutcome((EnrolState(state, "because"),), retry_seconds=10.0)
    assert enrolment.answer(reply(state)) == EnrolOutcome(retry_seconds=10.0)
    enrolment.forget_state()
    assert enrolment.answer(reply(state)).events


@pytest.mark.parametrize(("asked", "waited"), [(-5.0, 1.0), (0.0, 1.0), (1e9, 300.0)])
def test_retry_interval_of_the_master_is_bounded(
    store: TrustStore, asked: float, waited: float
) -> None:
    store.keep(MASTER.public)
    assert Enrolment(applicant(), store).answer(reply(retry=asked)).retry_seconds == waited


def test_reply_with_the_key_of_another_master_is_reported_as_untrusted(store: TrustStore) -> None:
    store.keep(MASTER.public)
    following = Enrolment(applicant(), store).answer(reply("accepted", OTHER.public))
    assert not following.connect
    (state,) = following.events
    assert isinstance(state, EnrolState)
    assert state.state == "untrusted"
    assert "master.pub" in state.reason
    assert store.load() == MASTER.public


def test_reason_of_an_unauthenticated_master_is_made_printable_and_bounded(
    store: TrustStore,
) -> None:
    store.keep(MASTER.public)
    nasty = EnrolReply("pending", "\x1b[31mred\n" + "x" * 5000, MASTER.public, 1.0)
    (state,) = Enrolment(applicant(), store).answer(nasty).events
    assert isinstance(state, EnrolState)
    assert state.reason.isprintable()
    assert len(state.reason) == 1000


def test_unknown_state_and_busy_master_are_asked_again(store: TrustStore) -> None:
    store.keep(MASTER.public)
    enrolment = Enrolment(applicant(), store)
    assert enrolment.answer(reply("whatever")) == EnrolOutcome()
    assert enrolment.answer(Failure("TryLaterError", "busy")) == EnrolOutcome()
    following = enrolment.answer(Failure("UsageError", "no such id"))
    assert following == EnrolOutcome((EnrolState("denied", "no such id"),))


def test_key_that_cannot_be_stored_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("a file in the folder's place")
    enrolment = Enrolment(applicant(), TrustStore(tmp_path / "elsewhere"))
    enrolment._store = TrustStore(tmp_path / "pki")
    (state,) = enrolment.answer(EnrolOffer(MASTER.public, "1")).events
    assert isinstance(state, EnrolState)
    assert state.state == "untrusted"
    assert enrolment.master_key is None
