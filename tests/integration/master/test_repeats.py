"""A command whose master is killed takes effect once."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from catena.client.requests import contracts
from catena.master.keys import rows as key_rows
from catena.master.keys.ring import KnownKey
from catena.master.store.database import Store
from catena.transport.keys import generate
from tests.integration.master.daemon import PATIENCE_SECONDS, Daemon

DATABASE = "var/lib/catena/master/master.db"

#: Before the commit, and behind it before the answer: both only of requests that have a key.
MOMENTS = {"before": "master.request.kept", "after": "master.request.taken"}

CHAIN_FILE = "label: filed\ntarget: web1\nactions:\n- cmd: 'true'\n"


@dataclass(frozen=True)
class Case:
    """A command, and what its effect is counted by."""

    verb: str
    words: str
    #: A query of one value.
    effect: str
    expected: object = 1
    #: Which of the command's requests is the one of the verb.
    request: int = 1
    exit: int = 0

    def __str__(self) -> str:
        return self.words


def history(label: str, event: str) -> str:
    return (
        "select count(*) from history h left join run r on r.id = h.run "
        "join chain c on c.id = coalesce(cast(r.ref as integer), h.subject_id) "
        f"where c.label = '{label}' and h.subject in ('chain', 'run') and h.event = '{event}'"
    )


def key_events(act: str) -> str:
    data = f"instr(data, cast('act' as blob) || x'a{len(act):x}' || cast('{act}' as blob))"
    return f"select count(*) from event where tag = 'salt/key' and {data} > 0"


EVENTS = "select count(*) from event where tag = 'app/hello'"

CASES = (
    Case("job.run", "run web1 test.ping --async", "select count(*) from job"),
    Case("job.run", "run web1 test.ping", "select count(*) from job", exit=3),
    Case("event.send", "event send app/hello a=1", EVENTS),
    Case("runner.call", "runner event.send app/hello", EVENTS),
    Case("key.change", "key accept web2", key_events("accepted")),
    Case("key.change", "key reject web2", key_events("rejected")),
    Case("key.change", "key delete web1", key_events("delete")),
    Case("key.token", "key token", "select count(*) from enrol_token"),
    Case("chain.create", "chain create fresh", history("fresh", "created")),
    Case("chain.add", "chain add draft -t web1 --cmd d", history("draft", "added"), 4),
    Case("chain.edit", "chain edit draft 1 --cmd B", history("draft", "edited")),
    Case("chain.move", "chain move draft 0 2", history("draft", "moved")),
    Case("chain.remove_entry", "chain remove-entry draft 0", history("draft", "removed")),
    Case("chain.apply", "chain apply FILE", history("filed", "added")),
    Case("chain.apply", "chain apply FILE --schedule now", history("filed", "schedule")),
    Case("chain.schedule", "chain apply FILE --schedule now", history("filed", "schedule"), 1, 2),
    Case("chain.schedule", "chain schedule draft", history("draft", "schedule")),
    Case("chain.approve", "chain approve unsure", history("unsure", "approve")),
    Case("chain.release", "chain release waiting", history("waiting", "release")),
    Case("chain.pause", "chain pause later", history("later", "paused")),
    Case("chain.continue", "chain continue paused", history("paused", "continued")),
    Case("chain.cancel", "chain cancel later", history("later", "cancel")),
    Case(
        "chain.retry", "chain retry failed", "select max(epoch) from run where label='failed'", 2
    ),
    Case(
        "chain.resolve",
        "chain resolve hung --retry",
        "select max(epoch) from run where label='hung'",
        2,
    ),
    Case(
        "chain.delete", "chain delete draft", "select count(*) from chain where label='draft'", 0
    ),
    Case("chain.preview", "chain preview draft", "select count(*) from job", exit=3),
)
#: A repetition changes nothing, by what they do: no key is stored for them.
HARMLESS = {"job.cancel", "blob.put", "chain.render"}


def test_every_changing_verb_is_tested_or_listed_as_harmless() -> None:
    changes = {name for name, ask in contracts().items() if not ask.idempotent}
    assert {case.verb for case in CASES} | HARMLESS == changes


class Site(Daemon):
    """A master below one folder with a world that is prepared, and failpoints."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        path = folder / "etc/master"
        settings = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**settings, "testing": True, "auto_accept": False}))
        self.file = folder / "filed.yaml"
        self.file.write_text(CHAIN_FILE)

    def command(self, words: str, *options: str) -> subprocess.Popen[str]:
        """Start a command of a user."""
        given = [str(self.file) if word == "FILE" else word for word in words.split()]
        etc = str(self.folder / "etc")
        return subprocess.Popen(
            [sys.executable, "-m", "catena", "-c", etc, *options, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, words: str, *options: str) -> tuple[int, str, str]:
        """Return exit code, output and errors of a command."""
        process = self.command(words, *options)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, out, err

    def count(self, query: str) -> object:
        with closing(sqlite3.connect(self.folder / DATABASE)) as conn:
            return conn.execute(query).fetchone()[0]

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / DATABASE)) as conn, conn:
            for statement in statements:
                conn.execute(statement)


def known(name: str, state: str) -> KnownKey:
    pair = generate()
    words = (pair.public, pair.fingerprint, name, state, f"mach-{name}", "10.0.0.1", "1", "")
    return KnownKey(*words, 1.0)


async def add_keys(database: Path) -> None:
    store = Store(f"sqlite:///{database}")
    await store.open()
    for name, state in (("web1", "accepted"), ("web2", "pending")):
        key = known(name, state)
        await store.write(lambda conn, key=key: key_rows.insert(conn, key))  # type: ignore[misc]
    await store.close()


def prepare(site: Site) -> None:
    """Make a world in which each command has something to change."""
    site.start()
    site.end(signal.SIGTERM)
    asyncio.run(add_keys(site.folder / DATABASE))
    site.start()
    for label in ("draft", "unsure", "waiting", "later", "paused", "failed", "hung"):
        assert site.done(f"chain create {label}")[0] == 0
        for word in "abc" if label == "draft" else "a":
            assert site.done(f"chain add {label} -t web1 --cmd {word}")[0] == 0
    assert site.done("chain schedule unsure --approve-required --at +2h")[0] == 0
    for label in ("waiting", "later", "paused", "failed", "hung"):
        assert site.done(f"chain schedule {label} --at +2h")[0] == 0
    assert site.done("chain pause paused")[0] == 0
    site.end(signal.SIGTERM)
    some = "(select run from chain where label in ('failed', 'hung'))"
    hung = "(select run from chain where label = 'hung')"
    failed = "state = 'FAILED', status = 'FAILED', ended = created"
    site.change(
        "update run set state = 'waiting' where label = 'waiting'",
        f"update run set state = 'failed', status = 'FAILED', ended = created where id in {some}",
        f"update execution set {failed} where run in {some}",
        f"update execution set reason = 'interrupted' where run in {hung}",
    )


@pytest.fixture(scope="module")
def world() -> Iterator[Path]:
    """The folder of a prepared master that does not run."""
    with tempfile.TemporaryDirectory(prefix="cw") as folder:
        site = Site(Path(folder))
        try:
            prepare(site)
        except BaseException:
            if site.process is not None:
                site.end(signal.SIGKILL)
            raise
        yield site.folder


@pytest.fixture
def site(world: Path) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="cr") as folder:
        made = Site(Path(folder))
        for name in ("var", "etc/catena"):
            shutil.copytree(world / name, Path(folder) / name)
        yield made
        if made.process is not None:
            made.end(signal.SIGKILL)


def killed_and_started(site: Site, process: subprocess.Popen[str]) -> tuple[str, str]:
    """Let the master die in the middle of a command, start the next one; return what was said."""
    assert site.process is not None
    assert site.process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    site.log.close()
    site.start()
    return process.communicate(timeout=PATIENCE_SECONDS)


def tried() -> Iterator[Any]:
    """Yield each case with each moment.

    The dispatcher makes a request repeatable, not its handler: by default the moments alternate
    from case to case, and the other half is slow.
    """
    for number, case in enumerate(CASES):
        # The first item of a job that is followed goes out with the commit; what comes behind it
        # is for `job watch`.
        moments = ["before"] if case.words == "run web1 test.ping" else list(MOMENTS)
        for place, moment in enumerate(moments):
            marks = [] if number % len(moments) == place else [pytest.mark.slow]
            yield pytest.param(case, moment, marks=marks)


@pytest.mark.parametrize(("case", "moment"), [*tried()], ids=str)
def test_command_takes_effect_once_when_its_master_is_killed(
    site: Site, case: Case, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATENA_FAILPOINTS", f"{MOMENTS[moment]}=kill@{case.request}")
    site.start()
    process = site.command(case.words, "--request-key", "again")
    monkeypatch.delenv("CATENA_FAILPOINTS")
    out, err = killed_and_started(site, process)
    assert "was lost" in err
    if "it is not known whether" in err:
        # The host is so busy that the client gave up before the next master had started.
        code, out, err = site.done(case.words, "--request-key", "again")
        assert code == case.exit, (out, err)
    else:
        assert process.returncode == case.exit, (out, err)
        assert ("had no effect; sending it again" in err) is (moment == "before"), err
    assert site.count(case.effect) == case.expected

    # A person, or a script, that repeats the whole command under its name.
    code, same, said = site.done(case.words, "--request-key", "again")
    assert code == case.exit, said
    assert same == out or case.verb == "chain.schedule", "only the chain's state may differ"
    assert site.count(case.effect) == case.expected


def test_simultaneous_commands_with_one_request_key_have_one_effect(site: Site) -> None:
    site.start()
    same = [site.command("event send app/hello a=1", "--request-key", "twice") for _ in range(4)]
    for process in same:
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, said
    assert site.count(EVENTS) == 1
    code, _, said = site.done("event send app/hello a=2", "--request-key", "twice")
    assert (code, site.count(EVENTS)) == (2, 1)
    assert "request key twice/event.send/0 was used for another request before" in said


def test_different_job_under_a_used_request_key_is_refused(site: Site) -> None:
    site.start()
    assert site.done("run web1 test.ping --async", "--request-key", "one")[0] == 0
    code, _, said = site.done("run web1 test.echo x --async", "--request-key", "one")
    assert (code, site.count("select count(*) from job")) == (2, 1)
    assert "was used for another request before" in said
    assert site.done("run web1 test.ping --async")[0] == 0
    assert site.count("select count(*) from job") == 2


def test_repeated_job_with_nan_is_the_same_request(site: Site) -> None:
    site.start()
    for _ in range(2):
        words = ("run web1 test.echo .nan --async", "--request-key", "one")
        assert site.done(*words)[0] == 0
    assert site.count("select count(*) from job") == 1


@pytest.mark.parametrize("key", ["", "a b", "ü", "-x", "x" * 81, "a\n"])
def test_invalid_request_key_is_refused(site: Site, key: str) -> None:
    code, _, said = site.done("key list", "--request-key", key)
    assert (code, "--request-key" in said) == ((3, False) if not key else (2, True)), said


def test_deleted_key_cancels_the_jobs_of_its_minion_after_a_kill(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATENA_FAILPOINTS", "master.key.decided=kill")
    site.start()
    assert site.done("run web1 test.ping --async")[0] == 0
    process = site.command("key delete web1")
    monkeypatch.delenv("CATENA_FAILPOINTS")
    killed_and_started(site, process)
    assert process.returncode == 0
    assert site.count("select group_concat(state) from delivery") == "cancelled"
