from __future__ import annotations

from pathlib import Path

import pytest

from catena.cli.commands import run


def check(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = run(["-c", str(folder), "config", "check"])
    return code, capsys.readouterr().err.replace(f"{folder}/", "").splitlines()


def test_config_check_names_the_drop_in_file_of_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "master").write_text("port: 4605\n")
    (tmp_path / "master.d").mkdir()
    (tmp_path / "master.d" / "x.conf").write_text("prot: 1\n")
    code, said = check(tmp_path, capsys)
    assert code == 2
    assert said == ["master.d/x.conf:1: unknown setting 'prot'; did you mean 'port'?"]


def test_config_check_warns_about_missing_files_without_failing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "master").write_text(
        f"file_roots: {{base: [{tmp_path}, /nosuch]}}\npillar_roots: {{}}\n"
        "reactor: [{'a/b': [/nosuch.sls, 'salt://r.sls']}]\n"
    )
    code, said = check(tmp_path, capsys)
    assert code == 0
    assert said == [
        "master: file_roots: base: there is no folder /nosuch",
        "master: reactor: a/b: there is no file /nosuch.sls",
        "master: ok",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("master", "nodegroups: {a: 'G@os:x and'}", "nodegroups: a: malformed compound target"),
        ("master", "reactor: [{a: b, c: d}]", "reactor: each item is one `glob: files`"),
        ("minion", "id: ../x", "id: '../x' is not a minion id"),
        ("minion", "master: master.example.org", "master: master.example.org is an example name"),
        ("minion", "master: <address>", "master: '<address>' is a placeholder"),
        ("minion", "enrol_token: CHANGE_ME", "enrol_token: 'CHANGE_ME' is a placeholder"),
        ("master", "database: '{{ db }}'", "database: '{{ db }}' is a placeholder"),
        ("minion", "machine_id: a b", "machine_id: 'a b' is not a machine id"),
        ("minion", "master_finger: 'aa:zz'", "master_finger: 'aa:zz' is not a fingerprint: 64"),
    ],
)
def test_config_check_refuses_what_a_daemon_refuses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(f"{text}\n")
    code, lines = check(tmp_path, capsys)
    assert code == 2
    texts = [line.replace(f"{name}:1: ", f"{name}: ") for line in lines]
    assert any(text.startswith(f"{name}: {said}") for text in texts), lines
    assert f"{name}: ok" not in lines


def test_minion_without_a_configuration_file_does_not_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["-c", str(tmp_path), "minion"]) == 2
    assert "there is no such file; it must at least set `master:`" in capsys.readouterr().err
