"""Texts of peers stay one log line, one table cell and plain data."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.client.requests import jobs
from catena.client.requests.jobs import RunJob
from catena.core.errors import CatenaError
from catena.core.job import JobProgress
from catena.renderers import config_files
from catena.transport.messages import (
    EventFired,
    EventStored,
    Failure,
    JobOrder,
    JobProgressed,
    JobRejected,
    JobReturned,
    Refused,
    ReturnStored,
)
from tests.integration.security.hostile import Hostile, Site

#: A second log line, a cleared screen, a clipboard, a reversed text, a line separator.
TEXT = "x\n2026-01-01 00:00:00 INFO root: login ok\x1b[2J\x1b]52;c;eA==\x07\u202e\u2028\x85\r\0y"
BAD = ["\x1b", "\x07", "\u202e", "\x85", "\r", "\0", "\n2026-01-01"]


def clean(text: str) -> bool:
    return not any(mark in text for mark in BAD)


def test_log_has_one_printable_line_for_each_refusal(site: Site) -> None:
    minion = site.minion("talker")
    stranger = site.stranger(TEXT)
    assert isinstance(stranger.enrol(), Failure)
    second = site.stranger("talker", minion.pair)
    assert isinstance(second.ask(second.hello(id=TEXT)), Refused)
    second.close()
    assert isinstance(minion.ask(EventFired("e", TEXT, {})), Failure)
    for message in (JobReturned(minion.ret(TEXT)), JobRejected(TEXT, TEXT)):
        assert isinstance(minion.ask(message), Failure)
    assert "talker at 127.0.0.1: JobReturned refused" in site.log
    assert "talker at 127.0.0.1: EventFired refused" in site.log
    assert clean(site.log.replace("\n2026-11", ""))


def test_commands_escape_control_characters_of_a_minion(site: Site) -> None:
    minion = site.stranger("painter")
    minion.enrol(version=TEXT[:60])
    site.decide("accept", "painter")
    odd = {TEXT: TEXT, "os": TEXT, "list": [TEXT], "map": {TEXT: TEXT}}
    minion.ask(minion.hello(version=TEXT, boot_id=TEXT[:60], session="s" + TEXT[:40], grains=odd))
    assert isinstance(minion.ask(EventFired("p", "app2/x", {TEXT: TEXT})), EventStored)
    asked = RunJob(tgt="painter", tgt_type="list", fun="test.ping")
    jid = site.ask(jobs.RUN, asked)["jid"]
    minion.receive(JobOrder)
    minion.say(JobProgressed(JobProgress(jid, 1, "note", {"text": TEXT, TEXT: TEXT})))
    ret = minion.ret(jid, TEXT, {TEXT: TEXT, "state_|-a_|-b_|-c": {"comment": TEXT}})
    assert minion.ask(JobReturned(ret)) == ReturnStored(jid)
    for words in (
        ["minion", "list"],
        ["minion", "show", "painter"],
        ["key", "list"],
        ["job", "list"],
        ["job", "show", jid],
        ["job", "watch", jid],
        ["job", "watch", jid, "--out", "highstate"],
        ["job", "watch", jid, "--out", "json"],
        ["job", "watch", jid, "--out", "txt"],
        ["job", "watch", jid, "--out", "yaml"],
        ["event", "watch", "app2/*", "--after", "0", "--count", "1"],
        ["event", "watch", "app2/*", "--after", "0", "--count", "1", "--jsonl"],
        ["run", "-G", "os:*", "test.ping", "--async"],
    ):
        done = site.fleet.catena(*words, check=False)
        # YAML has no escapes outside of quotes, and this one moves no cursor.
        shown = done.stdout.replace("\u202e", "" if "yaml" in words else "\u202e")
        assert clean(shown), (words, shown)
        assert clean(done.stderr), (words, done.stderr)


@pytest.mark.parametrize(
    "text",
    [
        "id: !!python/object/apply:os.system ['touch owned']",
        "id: !!python/name:os.system",
        "!!python/object/new:os.system ['touch owned']",
        "? !!python/tuple [1, 2]\n: x",
        "id: !<tag:yaml.org,2002:python/module:os> ''",
        "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
        "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
        "a: " + "[" * 100_000,
        "a: &a\n  b: *a\n",
    ],
)
def test_yaml_tags_in_the_configuration_are_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minion").write_text(text)
    with pytest.raises(CatenaError):
        config_files.read(tmp_path / "minion")
    assert not (tmp_path / "owned").exists()


def test_yaml_tags_in_a_chain_file_are_refused(site: Site) -> None:
    path = site.fleet.folder / "chain.yaml"
    owned = site.fleet.folder / "owned"
    path.write_text(f"label: !!python/object/apply:os.system ['touch {owned}']\nactions: []\n")
    done = site.fleet.catena("chain", "apply", str(path), check=False)
    assert done.returncode and "python/object" in done.stderr
    assert not owned.exists()


def test_machine_id_of_another_key_is_refused(site: Site, victim: Hostile) -> None:
    thief = site.stranger("thief")
    thief.enrol()
    site.decide("accept", "thief")
    victim.drop("control")
    answer = thief.ask(thief.hello(machine_id="machine-victim"))
    assert isinstance(answer, Refused) and answer.code == "duplicate_machine"
