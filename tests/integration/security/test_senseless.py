"""Senseless values in every field of a peer's messages do no harm to a master.

The rule: the master lives, nothing is an error of its own program, the next start works, and an
honest minion and the command line are served.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, get_type_hints

import pytest

from catena.client.connection import MasterClient
from catena.client.requests import contracts, jobs, minions
from catena.client.requests.jobs import JobList, RunJob
from catena.client.requests.minions import MinionList
from catena.core.errors import CatenaError
from catena.core.job import JobProgress
from catena.core.peer import PeerCall, PeerKind
from catena.transport.messages import (
    ALLOWED,
    ChunkRequest,
    EnrolProbe,
    EnrolRequest,
    EventFired,
    FilePush,
    FilesRequest,
    Goodbye,
    GrainsUpdate,
    JobOrder,
    JobOutput,
    JobProgressed,
    JobReceived,
    JobRejected,
    JobReturned,
    KeyAnnounce,
    ManifestRequest,
    PeerRequest,
    PillarRequest,
    Ping,
    Pong,
    ReturnPart,
    Welcome,
)
from tests.integration.security.hostile import Hostile, SilenceError, Site

NAN, INF, BIG = float("nan"), float("inf"), 2**64 - 1
#: Longer than all that an unaccepted peer may send.
LONG = "x" * 20_000
#: By the type of a field: times, job ids, names, numbers and lengths at their ends.
EXTREMES: dict[type, tuple[Any, ...]] = {
    str: (
        "", "0", "9" * 20, "0" * 20, "00010101000000000000", "99991231235959999999",
        "19700101000000000000", "20991122100099999999", "-1", str(2**63), "boot-of-the-future",
        "NaN", "x" * 253, LONG, "\0", "\n", "\u202e\x1b", "' OR 1=1 --",
        time.strftime("%Y%m%d%H", time.gmtime()) + "9" * 10,
    ),
    int: (0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, BIG, -(2**63)),
    float: (0.0, -1.0, -62135596800.0, 253402300799.0, 1e11, 1e18, 1e300, -INF, INF, NAN),
    bool: (True, False),
    bytes: (b"", b"\xff" * 9),
}  # fmt: skip
#: For fields that take any data.
ODD: list[Any] = [
    None, True, -1, BIG, -(2**63), NAN, INF, "", "\0", "x" * 100_000, b"\xff\0", [], {},
    [[[[]]]], {"": None}, {"a": {1: b"x", None: NAN, 2: [BIG]}}, {"__kwarg__": True},
    {"_|-_|-_|-": {"result": NAN, "changes": BIG, "comment": b"x", "__run_num__": BIG}},
    {"\0": "\n", "\n": "\0", "\u202e\x1b": "' OR 1=1 --", "x" * 20_000: "x" * 20_000},
]  # fmt: skip
FAULTS = ("internal error", "its log says why", "can't be used now")
#: Verbs that this test does not send: watches never end, and the fields of blob.put must agree.
LEFT_OUT = {"chain.watch", "job.watch", "event.watch", "blob.put"}
_numbers = itertools.count(1)


def base(kind: str, minion: Hostile, jid: str) -> Any:
    """Return a message of a kind, all in order."""
    made: dict[str, Any] = {
        "Hello": minion.hello(),
        "Ping": Ping(1),
        "Pong": Pong(1),
        "GrainsUpdate": GrainsUpdate({"id": minion.name}),
        "Goodbye": Goodbye("stops"),
        "JobReceived": JobReceived(jid, 1),
        "JobRejected": JobRejected(jid, "no"),
        "JobProgressed": JobProgressed(JobProgress(jid, 1, "started", {}, 1.0)),
        "JobReturned": JobReturned(minion.ret(jid)),
        "JobOutput": JobOutput(jid, 0, 0, 1, "stdout", "x"),
        "EventFired": EventFired("e", "app/x", {}),
        "PillarRequest": PillarRequest("base", "", {}),
        "PeerRequest": PeerRequest(PeerCall(PeerKind.publish, "test.ping", tgt="*")),
        "KeyAnnounce": KeyAnnounce(minion.pair.public),
        "ManifestRequest": ManifestRequest("base"),
        "ChunkRequest": ChunkRequest("base", "site.sls", "0" * 64, 0),
        "FilesRequest": FilesRequest("base", ("site.sls",), ("0" * 64,)),
        "ReturnPart": ReturnPart(jid, "0" * 64, 0, 2, b"x"),
        "FilePush": FilePush("x", "0" * 64, 0, 1, b"x"),
        "EnrolProbe": EnrolProbe(),
        "EnrolRequest": EnrolRequest(minion.name, "m", "1"),
    }
    return made[kind]


def changed(message: Any) -> Iterator[Any]:
    """Yield *message* with each of its fields at each of its extremes, one at a time."""
    hints = get_type_hints(type(message))
    for name, value in vars(message).items():
        if is_dataclass(value):
            for inner in changed(value):
                yield replace(message, **{name: inner})
        elif hints[name] == tuple[str, ...]:
            for text in EXTREMES[str]:
                yield replace(message, **{name: (text,) * 3})
        else:
            for extreme in EXTREMES.get(getattr(hints[name], "__supertype__", hints[name]), ()):
                yield replace(message, **{name: extreme})
    if "jid" in vars(message) and "fun" in vars(message):
        # Returns of jobs of its own, as of startup_states.
        for number in range(3):
            yield replace(message, jid=f"2026010100000000000{number}", fun="x.y")


def kinds(socket: str) -> list[str]:
    return sorted(ALLOWED[socket, "master"])


@dataclass
class Watch:
    """Looks for harm to the master since the test began."""

    site: Site
    victim: Hostile
    #: Length of the master's log when the test began.
    began: int
    #: Answers that blame the master's own program, each with its message.
    faults: list[str] = field(default_factory=list)

    def send(self, minion: Hostile, message: Any, socket: str) -> None:
        """Send a message and wait until the master has processed it."""
        msg_id = minion.say(message, socket)
        # The same connection is served in order: what came before this has been looked at.
        minion.ask(EventFired(f"s{next(_numbers)}", "app/senseless", {}))
        try:
            answer = minion.answer(msg_id, socket, 0.001)
        except SilenceError:
            return
        self.look(message, getattr(answer, "message", ""))

    def look(self, asked: object, text: str) -> None:
        """Note an answer that blames the master's own program."""
        if any(fault in text for fault in FAULTS):
            self.faults.append(f"{asked}: {text}")

    def harm(self) -> list[str]:
        """Return everything that went wrong; raise SilenceError if nobody is served."""
        self.victim.ping()
        assert self.site.ask(jobs.LIST, JobList()) is not None
        new = self.site.log[self.began :]
        traced = [new[new.find("Traceback") :][:4000]] if "Traceback" in new else []
        master = self.site.fleet._master
        ended = ["the master has ended"] if master is None or master.poll() is not None else []
        return [*self.faults, *traced, *ended]


@pytest.fixture
def watch(site: Site, victim: Hostile) -> Watch:
    return Watch(site, victim, len(site.log))


@pytest.mark.parametrize("socket", ["control", "bulk"])
def test_extreme_fields_of_an_accepted_minion_do_not_harm_the_master(
    site: Site, watch: Watch, socket: str
) -> None:
    for kind in kinds(socket):
        minion = site.minion(f"odd-{kind.lower()}")
        jid = str(site.ask(jobs.RUN, RunJob(tgt=minion.name, fun="test.ping"))["jid"])
        for message in changed(base(kind, minion, jid)):
            if kind in ("Hello", "Goodbye"):
                minion.say(message)
            else:
                watch.send(minion, message, socket)
        minion.close()
    assert watch.harm() == []


def given(site: Site, minion: Hostile, fun: str = "test.ping") -> str:
    """Return the job id of an order that *minion* has received."""
    asked = RunJob(tgt=minion.name, tgt_type="list", fun=fun)
    jid = str(site.ask(jobs.RUN, asked)["jid"])
    minion.until(
        lambda e: isinstance(e.message, JobOrder) and e.message.spec.jid == jid, "control", 15
    )
    return jid


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:30])
def test_odd_data_of_an_accepted_minion_does_not_harm_the_master(
    site: Site, evil: Hostile, watch: Watch, value: Any
) -> None:
    jid = given(site, evil)
    data = {"x": value, "id": value, "user": value, **(value if isinstance(value, dict) else {})}
    for message in (
        GrainsUpdate(data),
        EventFired(f"v{next(_numbers)}", "app/value", data),
        PillarRequest("base", "", data),
        JobProgressed(JobProgress(jid, 1, "action", {"chain_id": value, "action_id": value})),
        JobProgressed(JobProgress(jid, 2, "queued", {"position": value})),
        JobReturned(evil.ret(jid, "mgractionchains.start", value)),
        JobReturned(evil.ret(f"{20240101000000000000 + next(_numbers)}", "x" * 300, value)),
        evil.hello(grains=data, pending_resume=data),
    ):
        watch.send(evil, message, "control")
    for words in (("job", "show", jid), ("minion", "show", evil.name)):
        assert "Traceback" not in site.fleet.catena(*words, check=False).stderr
    assert watch.harm() == []


@pytest.mark.parametrize("number", [0, -1, BIG, -(2**63)])
def test_combined_extreme_numbers_of_a_return_do_not_harm_the_master(
    site: Site, evil: Hostile, watch: Watch, number: int
) -> None:
    for seconds in (NAN, INF, float(number)):
        jid = given(site, evil, "mgractionchains.resume")
        ret = replace(evil.ret(jid), retcode=number, started=seconds, duration_seconds=seconds)
        own = replace(ret, jid=f"{20230101000000000000 + next(_numbers)}")
        for each in (ret, own):
            watch.send(evil, JobReturned(each), "control")
    for part in ((0, number), (number, 1), (number, number)):
        watch.send(evil, ReturnPart(jid, "0" * 64, *part, b"x"), "bulk")
    assert watch.harm() == []


def test_goodbye_ends_only_the_session_of_its_sender(
    site: Site, evil: Hostile, victim: Hostile, watch: Watch
) -> None:
    evil.say(Goodbye("x" * 100_000))
    victim.ask(EventFired("up", "app/up", {}))
    up = {row["id"] for row in site.ask(minions.LIST, MinionList()) if row["up"]}
    assert "victim" in up
    assert watch.harm() == []


def test_extreme_fields_of_an_unaccepted_peer_do_not_harm_the_master(
    site: Site, watch: Watch
) -> None:
    for number, kind in enumerate(kinds("enrol")):
        for place, message in enumerate(changed(base(kind, site.stranger("odd"), ""))):
            if LONG in vars(message).values():
                continue
            stranger = site.stranger("odd")
            # Addresses of their own: the rate of one address is not the question.
            stranger.address = f"127.0.{40 + number}.{place % 250 + 1}"
            answer = stranger.ask(message, "enrol")
            watch.look(message, getattr(answer, "message", ""))
            stranger.close()
    assert watch.harm() == []


def test_extreme_fields_of_a_local_request_do_not_harm_the_master(
    site: Site, watch: Watch
) -> None:
    client = MasterClient(site.socket)
    asks = contracts()
    for verb in sorted(asks.keys() - LEFT_OUT):
        for name, hint in get_type_hints(asks[verb].request).items():
            kind = str if hint == tuple[str, ...] else hint
            for extreme in EXTREMES.get(kind, ()) if isinstance(kind, type) else EXTREMES[str]:
                params = {name: extreme if kind is hint else [extreme]}
                try:
                    client.request(asks[verb], _Params(params))
                except CatenaError as error:
                    watch.look((verb, params), str(error))
    assert watch.harm() == []


class _Params(dict[str, Any]):
    """Parameters as they are, for a request that no record would make."""


def test_master_restarts_and_serves_after_senseless_values(
    site: Site, victim: Hostile, watch: Watch
) -> None:
    odd = site.minion("odd-before-restart")
    for message in changed(base("EventFired", odd, "")):
        watch.send(odd, message, "control")
    assert site.log.count(" refused: ") >= 8
    site.fleet.stop_master()
    site.fleet.start_master()
    honest = site.minion("honest")
    jid = str(site.ask(jobs.RUN, RunJob(tgt="honest", fun="test.ping"))["jid"])
    assert jid < "2099"
    assert honest.ask(JobReturned(honest.ret(jid))).jid == jid
    assert site.fleet.catena("doctor", check=False).stdout
    shown = site.fleet.catena("runner", "jobs.lookup_jid", jid)
    assert "honest" in shown.stdout
    victim.drop("control")
    assert isinstance(victim.ask(victim.hello()), Welcome)
    assert watch.harm() == []
