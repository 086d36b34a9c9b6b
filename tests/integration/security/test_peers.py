"""A minion that asks the master to call something has no right but what the settings give it."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.peer import PeerCall, PeerKind
from catena.transport.messages import Failure, JobOrder, JobReturned, PeerReply, PeerRequest
from tests.integration.security.hostile import Hostile, Site


@pytest.fixture(scope="module")
def peer(site: Site) -> Hostile:
    """A minion that the settings allow a few calls."""
    return site.minion("peer1")


def ask(minion: Hostile, kind: PeerKind, fun: str, *args: Any, **more: Any) -> Any:
    return minion.ask(PeerRequest(PeerCall(kind, fun, args, **more)), seconds=30)


@pytest.mark.parametrize("kind", list(PeerKind))
@pytest.mark.parametrize("fun", ["test.ping", "manage.up", "key.accept", "cmd.run", "", "x" * 999])
def test_minion_without_a_rule_is_refused(evil: Hostile, kind: PeerKind, fun: str) -> None:
    said = ask(evil, kind, fun, "peer1", tgt="*")
    assert isinstance(said, Failure) and said.code == "NotAllowedError"


@pytest.mark.parametrize(
    ("kind", "fun"),
    [
        (PeerKind.publish, "cmd.run"),
        (PeerKind.publish, "publish.publish"),
        (PeerKind.runner, "manage.down"),
        (PeerKind.wheel, "key.accept"),
    ],
)
def test_rule_allows_nothing_else(peer: Hostile, kind: PeerKind, fun: str) -> None:
    assert isinstance(ask(peer, kind, fun, tgt="*"), Failure)


def test_runner_of_a_rule_answers(peer: Hostile) -> None:
    said = ask(peer, PeerKind.runner, "manage.up")
    assert isinstance(said, PeerReply) and "peer1" in said.value


def test_published_job_returns_and_names_its_minion(
    site: Site, peer: Hostile, victim: Hostile
) -> None:
    call = PeerCall(PeerKind.publish, "test.arg", ("x",), tgt="victim", seconds=20.0)
    asked = peer.say(PeerRequest(call))

    def ordered(envelope: Any) -> bool:
        message = envelope.message
        return isinstance(message, JobOrder) and message.spec.fun == "test.arg"

    order = victim.until(ordered, "control", 20).message
    assert order.spec.args == ("x",)
    victim.ask(JobReturned(victim.ret(order.spec.jid)))
    said = peer.answer(asked, seconds=30)
    assert isinstance(said, PeerReply) and set(said.value) == {"victim"}
    assert order.spec.user == "minion peer1"
