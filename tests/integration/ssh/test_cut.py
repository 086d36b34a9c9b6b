"""A run has one outcome when its connection is cut at any request or reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.runtime.push.protocol import ProgramError, Trouble
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError
from catena.ssh.push.program import Program
from catena.ssh.push.visit import Visit
from tests.integration.ssh.push_site import Site, rows
from tests.support.pushed import end_runs

#: Method of the program -> what a cut at it comes to.
VERBS = {
    "hello": "this visit has begun nothing",
    "open": "this visit has begun nothing",
    "call": "nothing was run",
    "missing": "done",
    "put": "done",
    "begin": "done",
    "poll": "done",
    "supply": "done",
    "collect": "done",
    "ack": "done",
}
USUAL = frozenset((("begin", "after"), ("collect", "after"), ("hello", "after")))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    found.write(
        t__sls="{% set word = salt['cmd.run']('echo compiled') %}\n"
        "one:\n  cmd.run: [{name: 'echo one >> @/ran'}]\n"
        "two:\n  file.managed:\n"
        "    - {name: @/late, source: salt://late.j2, template: jinja, require: [{cmd: one}]}\n",
        late__j2="{{ salt['file.read']('@/ran') }}",
    )
    yield found
    found.bench.close()
    end_runs(found.bench.room)


@pytest.mark.parametrize(
    ("verb", "when"),
    [
        pytest.param(verb, when, marks=() if (verb, when) in USUAL else pytest.mark.slow)
        for verb in VERBS
        for when in ("before", "after")
    ],
)
def test_lost_connection_at_any_call_does_not_change_the_result(
    site: Site, monkeypatch: pytest.MonkeyPatch, verb: str, when: str
) -> None:
    original = getattr(Program, verb)
    cuts: list[str] = []

    def cut(self: Program, *args: Any, **kwargs: Any) -> Any:
        if cuts:
            return original(self, *args, **kwargs)
        cuts.append(verb)
        if when == "before":
            self.close()
            return original(self, *args, **kwargs)
        original(self, *args, **kwargs)
        self.close()
        # The answer did not come: what is asked now says how.
        return self.hello()

    monkeypatch.setattr(Program, verb, cut)
    ran = site.there / "ran"
    if VERBS[verb] == "done":
        assert rows(site.run("state.apply", "t")) == {"one": True, "two": True}
        assert ran.read_text() == "one\n"
        assert site.made("late") == "one\n"
    else:
        with pytest.raises(SshError, match=VERBS[verb]) as caught:
            site.run("state.apply", "t")
        assert caught.value.waits
        assert not ran.exists()
    assert cuts == [verb]
    # Only a host that was not told to forget still has the run; it does so by itself.
    assert len(site.bench.debris()) <= 1


def test_unreachable_host_during_a_run_raises_and_the_run_can_be_collected(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that stays away under a run: an error, and the run is there to be collected."""

    def away(self: Program, *args: Any) -> Any:
        raise ChannelLostError("web1", PushPhase.run, "cut", waits=True)

    monkeypatch.setattr(Program, "poll", away)
    monkeypatch.setattr(Visit.__init__, "__defaults__", (None, 0.0))  # no patience
    kept: list[Any] = []
    monkeypatch.setattr(Visit, "forget", lambda self: kept.append("forgotten"))
    with pytest.raises(SshError, match="may go on there, or have ended") as caught:
        site.run("state.apply", "t")
    assert (caught.value.phase, caught.value.waits, kept) == (PushPhase.run, True, [])


def test_host_without_disk_space_for_a_run_reports_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Program, *args: Any) -> Any:
        raise ProgramError(Trouble.full, "no space left: disk")

    monkeypatch.setattr(Program, "put", full)
    with pytest.raises(SshError, match="make room there, or set thin_dir") as caught:
        site.run("state.apply", "t")
    assert (caught.value.phase, caught.value.waits) == (PushPhase.install, False)
