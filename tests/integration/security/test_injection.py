"""Names from peers never become options, lines or commands of a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.config.minion import MinionSettings
from catena.core.job import JobReturn, JobSpec
from catena.fileserver.roots import RootsClient
from catena.runtime.executor import execute
from catena.runtime.host import AgentHome
from catena.runtime.session import local_session

Call = Callable[..., JobReturn]
NAMES = ["--help", "-o=x", "a b", "$(touch x)", "a;touch x", "a\nb", "`id`", "../../x", "a\0b"]
#: Function and its arguments; the hostile name stands where HERE is.
HERE = object()
REFUSED: list[tuple[Any, ...]] = [
    ("pkg.install", HERE),
    ("pkg.remove", HERE),
    ("pkg.latest_version", HERE),
    ("pkg.file_list", HERE),
    ("service.start", HERE),
    ("service.enable", HERE),
    ("service.status", HERE),
    ("user.add", HERE),
    ("user.delete", HERE),
    ("group.add", HERE),
    ("group.adduser", "no-such-user-here", HERE),
    ("timezone.set_zone", HERE),
    ("hosts.add_host", HERE, "name"),
    ("system.shutdown", HERE),
    ("saltutil.kill_job", HERE),
    ("cron.set_job", "root", HERE, "1", "1", "1", "1", "true"),
]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Return what runs a function of this host as a job does."""

    def run(fun: str, *args: Any, **kwargs: Any) -> JobReturn:
        folders = (tmp_path / "conf", tmp_path / "cache", tmp_path / "pki")
        grains = {"id": "m", "os_family": "Debian", "os": "Debian"}
        place = AgentHome(MinionSettings(), "m", "machine", *folders, grains=grains)
        spec = JobSpec("", fun, args, kwargs)
        files = RootsClient({"base": [tmp_path]})
        return execute(local_session(place, files, lambda *_: ({}, ()), spec), spec).ret

    return run


@pytest.mark.parametrize("asked", REFUSED, ids=[row[0] for row in REFUSED])
def test_invalid_name_is_refused_before_anything_runs(
    call: Call, asked: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fun, *given = asked
    for name in NAMES:
        ret = call(fun, *[name if each is HERE else each for each in given])
        assert not ret.success, (fun, name)
        assert str(ret.value).startswith("ERROR: "), ret.value
        assert "failed with return code" not in str(ret.value)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", [*NAMES, ""])
def test_command_for_an_unknown_user_does_not_run(call: Call, name: str) -> None:
    ret = call("cmd.run", "echo ran", runas=name or "\0")
    assert not ret.success and "ran" not in str(ret.value).split("\n")
    assert "Traceback" not in str(ret.value)


@pytest.mark.parametrize("zone", ["\n10.0.0.1 evil", "a b", "#", "x" * 99, ""])
def test_address_with_a_newline_adds_no_second_line_to_the_hosts_file(
    call: Call, zone: str
) -> None:
    ret = call("hosts.add_host", f"fe80::1%{zone}", "name")
    assert not ret.success and "is not an address" in str(ret.value)


def test_package_name_that_apt_reads_as_a_removal_is_refused(call: Call) -> None:
    assert "can't be the name" in str(call("pkg.install", "bash-").value)


def test_file_names_that_look_like_options_are_archived_as_files(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("x")
    options = ["--checkpoint=1", f"--checkpoint-action=exec=touch {tmp_path}/owned"]
    ret = call("archive.tar", "cf", "all.tar", [*options, "plain"], cwd=str(tmp_path))
    assert not ret.success
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("url", ["ext::sh -c touch% x", "--upload-pack=touch x", "-u", "fd::3"])
def test_git_url_cannot_run_a_program(
    call: Call, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not call("git.clone", str(tmp_path / "clone"), url).success
    assert not (tmp_path / "x").exists()


def test_template_is_rendered_once(call: Call, tmp_path: Path) -> None:
    (tmp_path / "outer.sls").write_text(
        "{% set x = '{{ 7*7 }}' %}said:\n  file.managed:\n"
        f"  - name: {tmp_path}/said\n  - contents: {{{{ x | json }}}}\n"
    )
    assert call("state.apply", "outer").success
    assert (tmp_path / "said").read_text() == "{{ 7*7 }}\n"
