"""A run whose `catena ssh` was killed ends once and is collected once."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import ConfigError
from catena.core.job import JobReturn, JobSpec
from catena.runtime.push.runs import RunFolder
from catena.ssh.connect.errors import SshError
from catena.ssh.push import job
from catena.ssh.push.clean import clean
from catena.ssh.push.ledger import Begun, Page, PushLedger
from tests.integration.ssh.push_site import Site
from tests.support.pushed import end_runs
from tests.support.ssh_cases import connector

_NUMBERS = itertools.count(1)
SLS = """
{% set word = salt['cmd.run']('echo compiled') %}
one:
  cmd.run: [{name: 'echo one >> @/ran'}]
two:
  file.managed:
    - {name: @/late, source: salt://late.j2, template: jinja, require: [{cmd: one}]}
"""


def nothing(*_: Any) -> None:
    """Look at nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    found.write(t__sls=SLS, late__j2="{{ salt['file.read']('@/ran') }}{{ pillar.colour }}")
    yield found
    found.bench.close()
    end_runs(found.bench.room)


class Moment:
    """A place on the way of a command, at which it is killed; called at all of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *said: Any) -> None:
        if ": ".join(map(str, said)) == self._name:
            os.kill(os.getpid(), signal.SIGKILL)


def spec_of() -> JobSpec:
    kwargs = {"pillar": {"colour": "blue"}}
    return JobSpec(f"2026112121{next(_NUMBERS):010d}", "state.apply", ("t",), kwargs)


def ledger(site: Site) -> PushLedger:
    return PushLedger(str(site.folder / "lib"))


def command(site: Site, spec: JobSpec, moment: Callable[..., None]) -> JobReturn:
    """Do what `catena ssh` does, with a moment before and after everything that can be seen."""
    page: Page = ledger(site).page(Begun("web1", "web1", "", spec))

    def begins(*run: Any) -> None:
        moment("begins")
        page.begins(*run)
        moment("begun")

    def keep(ret: JobReturn) -> None:
        moment("keep")
        page.keep(ret)
        moment("kept")

    link = connector(site.bench)
    ret = job.run(site.host(), link, spec, site.settings, moment, keep, begins)
    moment("end")
    page.close()
    return ret


def kill(site: Site, spec: JobSpec, moment: Moment) -> None:
    """Run the command in a process that is killed at a moment."""
    child = os.fork()
    if child == 0:
        try:
            command(site, spec, moment)
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def collected(site: Site, begun: Begun, cancel: str = "") -> JobReturn | None:
    page = ledger(site).page(begun)
    link = connector(site.bench)
    found = job.again(site.host(), link, begun, site.settings, nothing, page.keep, cancel)
    page.close()
    return found


#: Moment -> what is known of the run then.
MOMENTS = {
    "compile: grains": "nothing",
    "compile: state.apply": "nothing",
    "begins": "nothing",
    "begun": "never began",
    "install: files": "never began",
    "run: started": "collected",
    "run: 1/2": "collected",
    "collect: result": "collected",
    "keep": "collected",
    "kept": "collected",
    "end": "collected",
}
USUAL = frozenset(("begun", "run: started", "kept"))


@pytest.mark.parametrize(
    "moment",
    [pytest.param(m, marks=() if m in USUAL else pytest.mark.slow) for m in MOMENTS],
)
def test_command_killed_at_any_moment_loses_and_repeats_nothing(site: Site, moment: str) -> None:
    spec = spec_of()
    kill(site, spec, Moment(moment))
    left = list(ledger(site).every())
    assert all(not one.is_followed for one in left)
    found = [collected(site, one) for one in left]
    ran = site.there / "ran"
    if found and found[0] is not None:
        assert MOMENTS[moment] == "collected"
        assert [row["result"] for row in found[0].value.values()] == [True, True]
        assert (found[0].out, found[0].jid) == ("highstate", spec.jid)
        assert ran.read_text() == "one\n"
        assert site.made("late") == "one\nblue"
    else:
        assert MOMENTS[moment] == ("never began" if found else "nothing")
        assert not ran.exists()
    assert list(ledger(site).every()) == []
    assert site.bench.debris() == []


def test_abandoned_run_can_be_cancelled(site: Site) -> None:
    site.write(t__sls="t:\n  cmd.run: [{name: 'echo yes > @/began; exec sleep 600'}]\n")
    spec = spec_of()

    os.mkfifo(site.there / "began")
    kill(site, spec, Moment("run: started"))
    assert (site.there / "began").read_text() == "yes\n"
    (one,) = ledger(site).every()
    with pytest.raises(SshError, match="was not collected"):
        clean(site.host(), connector(site.bench), nothing, 0.0, True)
    found = collected(site, one, "by a test")
    assert found is not None
    assert not found.success
    assert "cancelled: by a test" in str(found.value)
    assert site.bench.debris() == []


def test_wiped_host_has_no_files_of_catena(site: Site) -> None:
    site.run("cmd.run", "true")
    assert site.bench.room.exists()
    chain = site.bench.room / "hosts" / "web1" / "conf" / "minion.d" / "_mgractionchains.conf"
    chain.parent.mkdir(parents=True, exist_ok=True)
    chain.touch()
    link = connector(site.bench)
    with pytest.raises(SshError, match="an action chain goes on here"):
        clean(site.host(), link, nothing, 0.0, True)
    chain.unlink()
    assert clean(site.host(), link, nothing, 0.0, True) is None
    assert not site.bench.room.exists()
    assert clean(site.host(), link, nothing, 0.0, False) == {"runs": 0, "parts": 0, "bundles": 0}


def test_run_does_not_begin_without_a_writable_state_folder(site: Site) -> None:
    (site.folder / "lib").write_text("a file")
    with pytest.raises(ConfigError, match="must be able to write to state_dir"):
        command(site, spec_of(), Moment(""))
    assert not (site.there / "ran").exists()
    assert site.bench.debris() == []


def test_uncollected_returns_are_removed_after_their_time(site: Site) -> None:
    spec = spec_of()
    link = connector(site.bench)

    def dies(ret: JobReturn) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.run(site.host(), link, spec, site.settings, nothing, dies)
    assert [RunFolder(path).is_done() for path in site.bench.room.glob("runs/*")] == [True]
    assert clean(site.host(), link, nothing, 3600.0, False) == {
        "runs": 0,
        "parts": 0,
        "bundles": 0,
    }
    found = clean(site.host(), link, nothing, 0.0, False)
    assert found is not None
    assert found["runs"] == 1
    assert site.bench.debris() == []
