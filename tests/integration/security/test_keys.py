"""Enrolment, revocation, rotation and copies of keys over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import zmq

from catena.client.requests import jobs, keys
from catena.client.requests.jobs import RunJob
from catena.client.requests.keys import TokenCreate
from catena.core.files import read_limited
from catena.master.keys import enrol
from catena.transport import sockets, wire
from catena.transport.keys import generate, token_proof
from catena.transport.messages import (
    Envelope,
    EventFired,
    Failure,
    JobOrder,
    JobReturned,
    KeyAnnounce,
    KeyTaken,
    Ping,
    Refused,
    Welcome,
)
from tests.integration.master.bench import a_master
from tests.integration.master.knocker import Knocker
from tests.integration.security.hostile import PATIENCE_SECONDS, Hostile, SilenceError, Site

HOSTILE_IDS = [
    "", ".", "..", "../x", "../../etc/shadow", "/etc/passwd", "a/b", "a\\b", "a\0b", "a\nb", "a b",
    " a", "a ", "\ta", "-a", "_a", ".a", "a" * 254, "a" * 1000, "%2e%2e", "%00", "a;b", "a|b",
    "a&b", "$(x)", "`x`", "'a", '"a', "a'b", "a\"b", "--", "-rf", "*", "?", "[a]", "a*", "{a,b}",
    "a:b", "a@b", "a,b", "a=b", "a+b", "a#b", "a!b", "a~", "~root", "a<b", "a>b", "(a)", "a^b",
    "\u202ea", "a\u200b", "\uff41", "\u0430", "é", "a\x1b[2J", "a\x7f", "{{7*7}}",
    "{%x%}", "a\r\nb",
]  # fmt: skip


def token(site: Site, name: str, seconds: int = 600) -> str:
    made = site.ask(keys.TOKEN, TokenCreate(name, seconds))
    return str(made["token"])


def proof(site: Site, minion: Hostile, secret: str, name: str = "") -> str:
    return token_proof(secret, minion.pair.public, site.key, name or minion.name)


def test_hostile_ids_are_refused_and_not_stored(site: Site) -> None:
    assert len(HOSTILE_IDS) >= 60
    before = site.keys()
    for number, name in enumerate(HOSTILE_IDS):
        stranger = site.stranger("x")
        stranger.address = f"127.0.2.{number // 20 + 1}"
        answer: Any = stranger.enrol(id=name)
        assert isinstance(answer, Failure), name
        assert isinstance(stranger.enrol(id="x", machine_id=name or "/"), Failure)
        stranger.close()
    assert site.keys() == before


@pytest.mark.parametrize("socket", ["control", "bulk"])
def test_messages_of_a_pending_key_are_ignored(site: Site, socket: str) -> None:
    stranger = site.stranger("waits")
    stranger.enrol()
    stranger.say(EventFired("e", "app/stranger", {}), socket)
    assert stranger.hears_nothing(socket)
    assert site.all_events("app/stranger") == []
    site.decide("delete", "waits")


def test_enrol_socket_accepts_only_enrolment_messages(site: Site, evil: Hostile) -> None:
    for message in (evil.hello(), Ping(1), JobReturned(evil.ret("2" * 20))):
        answer = evil.ask(message, "enrol")
        assert isinstance(answer, Failure) and "may not arrive" in answer.message


def test_second_key_for_a_known_id_never_replaces_the_first(site: Site, victim: Hostile) -> None:
    clone = site.stranger("victim")
    assert clone.enrol().state == "denied"
    (first,) = [key for key in site.keys()["accepted"] if key["id"] == "victim"]
    assert first["fingerprint"] == victim.pair.fingerprint
    # What an operator types in a hurry must not let the second in.
    assert site.decide("accept", "vict*") == []
    assert clone.enrol().state == "denied"
    site.fleet.catena("key", "accept", "--all", check=False)
    assert clone.enrol().state == "denied"


def test_token_works_once_for_its_id_and_key_only(site: Site) -> None:
    one, other, thief = (site.stranger(name) for name in ("tok1", "tok2", "tok1x"))
    secret = token(site, "tok1")
    # The proof that another key, id or master made is worth nothing here.
    assert other.enrol(token_proof=proof(site, other, secret)).state == "pending"
    stolen = proof(site, one, secret)
    assert thief.enrol(token_proof=stolen).state == "pending"
    foreign = token_proof(secret, one.pair.public, generate().public, "tok1")
    assert one.enrol(token_proof=foreign).state == "pending"
    assert one.enrol(token_proof=stolen).state == "accepted"
    again = site.stranger("tok3")
    assert again.enrol(token_proof=proof(site, again, secret)).state == "pending"


def test_token_is_accepted_when_another_key_is_pending_for_its_id(site: Site) -> None:
    secret = token(site, "mine")
    squatter, owner = site.stranger("mine"), site.stranger("mine")
    assert squatter.enrol().state == "pending"
    assert owner.enrol(token_proof=proof(site, owner, secret)).state == "accepted"
    assert squatter.enrol().state == "denied"


def test_deleted_minion_is_disconnected_at_once(site: Site) -> None:
    minion = site.minion("fired")
    assert site.decide("delete", "fired") == ["fired"]
    assert minion.receive(Refused).code == "revoked"
    minion.say(EventFired("late", "app/late", {}))
    assert minion.is_deaf()
    assert site.all_events("app/late") == []
    minion.drop("control")
    with pytest.raises(SilenceError):
        minion.ask(minion.hello(), seconds=0.5)


def test_new_host_with_a_deleted_id_receives_nothing_of_the_old_one(site: Site) -> None:
    site.minion("reused").drop("control")
    asked = RunJob(tgt="reused", tgt_type="list", fun="cmd.run", args=("secret",))
    waiting = site.ask(jobs.RUN, asked)["jid"]
    site.decide("delete", "reused")
    heir = site.minion("reused")
    mine = site.ask(jobs.RUN, asked)["jid"]
    # The older of two jobs would come first.
    assert heir.until(_is_job_of("cmd.run"), "control", PATIENCE_SECONDS).message.spec.jid == mine
    assert mine != waiting


def _is_job_of(fun: str) -> Callable[[Envelope], bool]:
    return lambda e: isinstance(e.message, JobOrder) and e.message.spec.fun == fun


def test_rejected_minion_is_disconnected_and_stays_refused(site: Site) -> None:
    minion = site.minion("rejected")
    site.decide("reject", "rejected")
    assert minion.receive(Refused).code == "revoked"
    assert minion.is_deaf()
    assert minion.enrol().state == "rejected"


def test_key_rotation_for_another_minion_is_refused(evil: Hostile, victim: Hostile) -> None:
    for public in (victim.pair.public, evil.pair.public, "~" * 40, "", "../x"):
        assert isinstance(evil.ask(KeyAnnounce(public)), Failure)


def test_key_rotation_replaces_the_old_key_by_one_new_one(site: Site) -> None:
    minion = site.minion("turner")
    first, second = site.stranger("turner"), site.stranger("turner")
    assert isinstance(minion.ask(KeyAnnounce(first.pair.public)), KeyTaken)
    # A second announcement replaces the first: there are never three keys.
    assert isinstance(minion.ask(KeyAnnounce(second.pair.public)), KeyTaken)
    with pytest.raises(SilenceError):
        first.ask(first.hello(), seconds=0.5)
    assert isinstance(second.ask(second.hello(session="session-turner")), Welcome)
    assert minion.receive(Refused).code == "revoked"
    assert minion.is_deaf()
    assert [k["id"] for k in site.keys()["accepted"]].count("turner") == 1


def test_copied_key_is_refused_while_its_owner_is_connected(site: Site, victim: Hostile) -> None:
    clone = site.stranger("victim", victim.pair)
    msg_id = clone.say(clone.hello(session="another"))
    victim.ping()
    # The ping of the master reaches the owner, whose answer refuses the copy.
    end = time.monotonic() + PATIENCE_SECONDS
    while clone.hears_nothing(seconds=0.1) and time.monotonic() < end:
        victim.is_deaf()
    answer = clone.until(lambda e: e.reply_to == msg_id, "control", PATIENCE_SECONDS).message
    assert isinstance(answer, Refused) and answer.code == "duplicate_key"
    clone.close()


def test_only_the_curve_mechanism_is_accepted(site: Site) -> None:
    for name in ("control", "bulk", "enrol"):
        sock = site.context.socket(zmq.DEALER)
        sock.setsockopt(zmq.LINGER, 0)
        sock.connect(site.endpoints.named(name))
        # If the master has refused the connection already, there is nowhere to send.
        with suppress(zmq.Again):
            sock.send(wire.pack(Ping(1)), zmq.NOBLOCK)
        assert not sock.poll(200)
        sock.close()


def test_chosen_routing_id_receives_no_foreign_messages(
    site: Site, evil: Hostile, victim: Hostile
) -> None:
    thief = site.stranger("evil", evil.pair)
    sock = sockets.dealer(site.context, "control", evil.pair, site.key)
    sock.setsockopt(zmq.ROUTING_ID, b"victim")
    sock.connect(site.endpoints.control)
    thief._sockets["control"] = sock
    answer = thief.ask(thief.hello(id="victim"))
    assert isinstance(answer, Refused) and answer.code == "identity"
    victim.ping()
    thief.close()


def test_secret_key_of_the_master_is_private(site: Site) -> None:
    folder = site.home / "etc/catena/pki/master"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "curve.key").stat().st_mode & 0o777 == 0o600
    assert read_limited(folder / "curve.key", 100).decode().strip() not in site.log


async def test_number_of_denied_keys_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrol, "DENIED_LIMIT", 2)
    async with a_master() as master:
        await Knocker(master, "web1").ask()
        for number in range(4):
            second = Knocker(master, "web1", f"10.0.0.{number}")
            assert (await second.ask()).state == "denied"
        assert len((await master.keys.list())["denied"]) == 2
