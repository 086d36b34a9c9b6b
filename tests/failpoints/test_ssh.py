"""Kills, errors and delays at each failpoint of a run over SSH lose no state and repeat none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CatenaError
from catena.core.failpoint_rules import FAILPOINTS
from tests.integration.ssh.push_site import Site, rows
from tests.support.pushed import end_runs

pytestmark = [pytest.mark.failpoints, pytest.mark.timeout(900)]

PLACES = sorted(name for name in FAILPOINTS if name.startswith("ssh."))
VERBS = ("kill", "error(ENOSPC)", "sleep(1500)")
SLS = """
one:
  cmd.run: [{name: 'echo one >> @/ran'}]
asked:
  file.managed:
    - {name: @/late, source: salt://late.j2, template: jinja, require: [{cmd: one}]}
two:
  cmd.run: [{name: 'echo two >> @/ran'}, {require: [{file: asked}]}]
"""
#: Shape -> (function, its arguments, lines that it writes).
SHAPES: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "states": ("state.apply", ("t",), ["one", "two"]),
    "function": ("cmd.run", ("echo one >> @/ran",), ["one"]),
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    found.write(t__sls=SLS, late__j2="{{ salt['file.read']('@/ran') }}")
    yield found
    found.bench.close()
    end_runs(found.bench.room)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_no_failpoint_loses_or_repeats_a_state(
    site: Site, place: str, verb: str, shape: str
) -> None:
    fun, args, lines = SHAPES[shape]
    words = [word.replace("@", str(site.there)) for word in args]
    clean = dict(site.bench.env)
    log = site.folder / "log"
    site.bench.env |= {"CATENA_FAILPOINTS": f"{place}={verb}", "CATENA_FAILPOINT_LOG": str(log)}
    ran = site.there / "ran"
    target = replace(site.host(), minion_opts={"testing": True})
    try:
        found = site.run(fun, *words, target=target)
    except CatenaError as error:
        # Refused before anything began; what is told names the reason.
        assert "no space left" in str(error).lower(), error
        assert not ran.exists()
    else:
        check(found.ret.value, found.ret.success, ran, lines)
    assert log.read_text().startswith(place)
    # The host serves as before, and nothing of the run is left.
    site.bench.env = clean
    ran.unlink(missing_ok=True)
    assert site.run(fun, *words).ret.success
    assert ran.read_text().split() == lines
    assert site.bench.debris() == []


def check(value: Any, success: bool, ran: Path, lines: list[str]) -> None:
    """What is told of each state is what happened."""
    happened = ran.read_text().split() if ran.exists() else []
    # None twice, none skipped between.
    assert happened == lines[: len(happened)]
    if success:
        assert happened == lines
    elif isinstance(value, dict):
        told = [row for row in value.values() if row["result"] is True]
        assert len([row for row in told if row["__id__"] in lines]) <= len(happened)
    else:
        assert "may have happened in part" in str(value) or "no space" in str(value).lower()


def test_run_without_faults_succeeds(site: Site) -> None:
    assert rows(site.run("state.apply", "t")) == {"one": True, "asked": True, "two": True}
