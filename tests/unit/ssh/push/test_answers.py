"""Replies of the master to requests of a run, and what hosts may not request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.config.master import MasterSettings
from catena.core.context import Context, FileEntry
from catena.core.errors import CatenaError, RenderError
from catena.core.ids import minion_id
from catena.core.job import JobSpec
from catena.core.template_calls import TemplateCall, noting_calls
from catena.renderers.source import Source, SourceError
from catena.runtime.push import asking
from catena.runtime.push.asking import View
from catena.runtime.push.protocol import HostWelcome
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.answers import Answers
from catena.ssh.push.compile import seat_of, session_for

WELCOME = HostWelcome("1", "3.9.2", 1, 0, "root", "/room", "boot", "machine", 1)


class Nobody:
    """A target that must be asked for nothing but a command."""

    def call(self, context: Context, name: str, args: Any, kwargs: Any) -> Any:
        if name == "cmd.run":
            return "said"
        raise AssertionError(name)

    def knows(self, name: str, kind: str) -> bool:
        return False

    def refusal(self, name: str) -> str:
        return ""


class Desk:
    """The master's side of one run."""

    def __init__(self, folder: Path) -> None:
        self.states, pillar = folder / "states", folder / "pillar"
        self.states.mkdir()
        pillar.mkdir()
        (pillar / "top.sls").write_text("base: {web1: [a], db1: [b]}\n")
        (pillar / "a.sls").write_text("mine: 1\n")
        (pillar / "b.sls").write_text("theirs: 2\n")
        settings = MasterSettings(
            file_roots={"base": [str(self.states)]},
            pillar_roots={"base": [str(pillar)]},
            cache_dir=str(folder / "cache"),
        )
        seat = seat_of(SshTarget(minion_id("web1"), "host"), settings)
        session = session_for(
            seat,
            WELCOME,
            {"id": "web1", "os": "Debian"},
            Nobody(),
            lambda context, low: {},
            spec=JobSpec("1", "state.apply"),
            watch=lambda kind, data: None,
            collect=dict,
        )
        self.sent: list[str] = []
        self.context = session.context
        code = frozenset({("py", "ours"), ("mako", "ours")})
        self._answers = Answers(session.context, self._send, code)

    def _send(self, entry: FileEntry, local: Path) -> None:
        self.sent.append(entry.path)

    def ask(self, question: Any) -> Any:
        # As it travels: packed, and back.
        kind, data = asking.packed(question)
        reply = self._answers(asking.unpacked(kind, data))
        return asking.asked(
            lambda _: asking.unpack_reply(asking.pack_reply(reply)), asking.AskEnvironments()
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_host_gets_only_files_of_the_roots(desk: Desk) -> None:
    (desk.states / "a").write_text("x")
    assert desk.ask(asking.AskFile("a"))["path"] == "a"
    assert desk.sent == ["a"]
    for path in ("../pillar/a.sls", "/etc/passwd", "b", "a/../../pillar/b.sls", ""):
        assert desk.ask(asking.AskFile(path)) is None
    assert desk.sent == ["a"]
    assert desk.ask(asking.AskFolder("../pillar")) == [[], []]
    assert desk.ask(asking.AskEnvironments()) == ["base"]


def test_call_of_a_template_in_test_mode_is_counted_where_the_run_is(desk: Desk) -> None:
    own = Source("{{ salt['cmd.run']('x') }} {{ salt['grains.get']('os') }}", "salt://x")
    with noting_calls() as notes:
        assert desk.ask(asking.AskText(own, "jinja", {}, View(test=True))) == "said Debian"
    assert notes.calls() == (TemplateCall("cmd.run", "salt://x"),)
    with noting_calls() as notes:
        desk.ask(asking.AskText(Source("{{ grains.os }}", "salt://x"), "jinja"))
    assert notes.calls() == ()


def test_reply_without_calls_has_the_form_of_older_versions() -> None:
    assert asking.pack_reply(asking.MasterReply(1)) == b'{"value":1,"refusal":null}'


def test_pillar_follows_the_roster_id_and_not_the_grains(desk: Desk) -> None:
    assert desk.ask(asking.AskPillar()) == [{"mine": 1}, []]
    desk.context.grains["id"] = "db1"  # type: ignore[index]  # a host may say what it likes
    assert desk.ask(asking.AskPillar({"more": {1: 2}})) == [{"mine": 1, "more": {1: 2}}, []]


def test_template_of_the_host_s_own_is_rendered_in_the_sandbox(desk: Desk) -> None:
    view = View(pillar={"x": {1: "one"}})
    own = Source("{{ pillar.x[1] }} {{ grains.os }} {{ v }}", "/etc/own")
    assert desk.ask(asking.AskText(own, "jinja", {"v": 3}, view)) == "one Debian 3"
    data, lines = desk.ask(asking.AskData(Source("a: {{ 1 + 1 }}\n", "t"), "jinja|yaml"))
    assert (data, lines[("a",)]) == ({"a": 2}, 1)


@pytest.mark.parametrize("text", ["#!py\ndef run():\n    return 1\n", "#!mako|yaml\na: ${1}\n"])
def test_code_of_the_host_s_own_is_refused(desk: Desk, text: str) -> None:
    with pytest.raises(SourceError, match="forbids"):
        desk.ask(asking.AskData(Source(text, "salt://x.sls", path="x.sls"), "jinja|yaml"))
    nested = "{{ salt['slsutil.renderer'](string=" + repr(text) + ") }}"
    with pytest.raises(SourceError, match="forbids"):
        desk.ask(asking.AskText(Source(nested, "own"), "jinja"))


@pytest.mark.parametrize("engine", ["py", "mako"])
def test_engines_that_run_code_read_files_of_the_roots_only(desk: Desk, engine: str) -> None:
    (desk.states / "ours").write_text("def run():\n    return 'ours'\n")
    theirs = Source("def run():\n    return 'theirs'\n", "salt://ours", path="ours")
    with pytest.raises(RenderError, match="only files of the roots"):
        desk.ask(asking.AskText(theirs, engine))
    # A script for hosts is no template, however the host asks.
    (desk.states / "script").write_text("def run():\n    return 'ran'\n")
    script = Source("def run():\n    return 'ran'\n", "salt://script", path="script")
    with pytest.raises(RenderError, match="only files of the roots"):
        desk.ask(asking.AskText(script, engine))
    with pytest.raises(CatenaError, match="no renderer for any text"):
        desk.ask(asking.AskData(script, engine))
    if engine == "py":
        ours = Source("def run():\n    return 'ours'\n", "salt://ours", path="ours")
        assert desk.ask(asking.AskText(ours, engine)) == "ours"


def test_hosts_cannot_decrypt_with_the_key_ring_of_the_master(desk: Desk) -> None:
    (desk.states / "s.sls").write_text("#!yaml|gpg\na: 1\n")
    ours = Source("#!yaml|gpg\na: 1\n", "salt://s.sls", path="s.sls")
    with pytest.raises(SourceError, match="forbids the renderer 'gpg'"):
        desk.ask(asking.AskData(ours, "jinja|yaml"))


def test_host_cannot_add_allowed_renderers(desk: Desk) -> None:
    view = View(opts={"renderer_whitelist": ["py"], "jinja_env": {"trim_blocks": True}})
    with pytest.raises(SourceError, match="forbids"):
        desk.ask(asking.AskData(Source("#!py\n", "t"), "yaml", {}, view))


def test_fault_arrives_with_its_place(desk: Desk) -> None:
    with pytest.raises(SourceError) as fault:
        desk.ask(asking.AskText(Source("a\n{{ nope }}\n", "salt://t", path="t"), "jinja"))
    assert fault.value.place.line == 2
    assert "nope" in str(fault.value)
