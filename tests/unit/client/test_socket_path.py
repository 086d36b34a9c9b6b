from __future__ import annotations

from pathlib import Path

import pytest

from catena.client import socket_path
from catena.client.settings import master_settings
from catena.core.errors import NotAllowedError

TEXTS = [
    "",
    "root_dir: /srv/x\n",
    "run_dir: /run/other\n",
    "root_dir: /srv/x\nrun_dir: /srv/x/run\n",
    "root_dir: /srv/x/\nrun_dir: /elsewhere # why\n",
    "root_dir: '/quoted'\n",
    '"root_dir": /srv/x\n',
    "{root_dir: /flow}\n",
    "file_roots:\n  base:\n  - /srv/root_dir\nroot_dir: /srv/x\n",
    "nodegroups:\n  root_dir: inner\nrun_dir: /run/y\n",
    "---\nroot_dir: /srv/doc\n",
    "# root_dir: /commented\nport: 5000\n",
    "root_dir : /srv/space\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_quick_socket_path_equals_that_of_the_full_configuration(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "master").write_text(text)
    full = Path(master_settings(str(tmp_path))[0].run_dir) / socket_path.NAME
    assert socket_path.master_socket(str(tmp_path)) == full


def test_later_configuration_files_override_and_state_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "master").write_text("root_dir: /a\n")
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d/b.conf").write_text("root_dir: /b\n")
    (tmp_path / "master.d/a.conf").write_text("root_dir: /c\n")
    (tmp_path / "master.d/_z.conf").write_text("root_dir: /z\n")
    full = Path(master_settings(str(tmp_path))[0].run_dir) / socket_path.NAME
    assert (
        socket_path.master_socket(str(tmp_path))
        == full
        == Path("/b/run/catena/master/master.sock")
    )


def test_socket_path_is_the_default_without_configuration(tmp_path: Path) -> None:
    beside = tmp_path / "state" / "master" / "run" / "master.sock"
    assert socket_path.master_socket(str(tmp_path)) == beside


def test_socket_path_of_a_packaged_master_is_below_run(tmp_path: Path) -> None:
    usual = Path("/run/catena/master/master.sock")
    if not Path("/etc/catena/master").exists():
        assert socket_path.master_socket("/etc/catena") == usual


def test_socket_of_an_unreadable_configuration_is_the_default_one_if_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "master").write_text("cli_users: [anna]\n")
    monkeypatch.setattr(Path, "read_text", refuse)
    beside = tmp_path / "state" / "master" / "run" / "master.sock"
    with pytest.raises(NotAllowedError, match=f"{tmp_path}/master: this user may not read it"):
        socket_path.master_socket(str(tmp_path))
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert socket_path.master_socket(str(tmp_path)) == beside
